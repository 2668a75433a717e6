package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/net/multiplex"
	"github.com/containerd/ttrpc"
)

// peer is the runtime's end of the connection to one plugin.
type peer struct {
	runtime *Runtime
	mux     multiplex.Mux
	client  *ttrpc.Client
	server  *ttrpc.Server
	serving net.Listener // the listener of the one connection that server has
	service api.PluginService

	once       sync.Once
	gone       chan struct{} // closed when the connection ends
	registered chan string

	// name is known from registration on, events and policy from configuration on.
	name   string
	events api.EventMask
	policy *api.FailurePolicy
}

// Connect opens a connection for a plugin and returns the plugin's end. It can be the dialer of an
// NRI stub; the path is not used. When the plugin registers, it is configured and synchronised.
func (r *Runtime) Connect(string) (net.Conn, error) {
	return r.connect(func() {})
}

// connect is like Connect. When the connection has ended, it calls over.
func (r *Runtime) connect(over func()) (net.Conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.ctx.Err() != nil {
		return nil, ErrClosed
	}
	ours, theirs := newPipe()
	p := &peer{runtime: r, gone: make(chan struct{}), registered: make(chan string, 1)}
	if err := p.attach(ours); err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	r.peers[p] = true
	r.group.Go(func() {
		_ = p.server.Serve(r.ctx, p.serving) // It ends with the connection, and has no other error.
		p.close()
	})
	r.group.Go(func() {
		p.mux.Unblock()
		if p.start() == nil { // After an error, the plugin notices the end of its connection.
			select {
			case <-p.gone:
			case <-r.ctx.Done():
			}
		}
		p.close()
		r.mu.Lock()
		delete(r.peers, p)
		r.mu.Unlock()
		over()
	})
	return theirs, nil
}

// attach creates the two services of a connection: the plugin's, which is called, and the
// runtime's, which is served.
func (p *peer) attach(conn net.Conn) error {
	p.mux = multiplex.Multiplex(conn, multiplex.WithBlockedRead())
	called, err := p.mux.Open(multiplex.PluginServiceConn)
	if err != nil {
		return errors.Join(err, p.mux.Close())
	}
	// The listener comes before the first message is read, because the multiplexer drops messages
	// without a listener.
	if p.serving, err = p.mux.Listen(multiplex.RuntimeServiceConn); err != nil {
		return errors.Join(err, p.mux.Close())
	}
	if p.server, err = ttrpc.NewServer(); err != nil {
		return errors.Join(err, p.mux.Close())
	}
	api.RegisterRuntimeService(p.server, p)
	p.client = ttrpc.NewClient(called, ttrpc.WithOnClose(p.close))
	p.service = api.NewPluginClient(p.client)
	return nil
}

// close ends the connection. It may be called several times, and from the callbacks of the
// connection.
func (p *peer) close() {
	p.once.Do(func() {
		close(p.gone)
		_ = p.mux.Close() // It always returns nil.
		_ = p.client.Close()
		_ = p.server.Close() // The listener may be closed already.
	})
}

func (p *peer) isClosed() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

// start registers, configures and synchronises the plugin.
func (p *peer) start() error {
	r := p.runtime
	select {
	case p.name = <-p.registered:
	case <-p.gone:
		return ttrpc.ErrClosed
	case <-r.ctx.Done():
		return ErrClosed
	case <-r.config.After(r.config.RegistrationTimeout):
		return errors.New("the plugin did not register in time")
	}
	if err := r.suffer(Step{Point: Registered}, p); err != nil {
		return err
	}
	c := r.config
	ctx, cancel := context.WithTimeout(r.ctx, c.RequestTimeout)
	reply, err := p.service.Configure(ctx, &api.ConfigureRequest{
		RuntimeName: c.Name, RuntimeVersion: c.Version, NRIVersion: c.NRIVersion,
		RegistrationTimeout: c.RegistrationTimeout.Milliseconds(), RequestTimeout: c.RequestTimeout.Milliseconds(),
	})
	cancel()
	if err != nil {
		return fmt.Errorf("configure: %w", err)
	}
	if p.events = api.EventMask(reply.GetEvents()); p.events == 0 {
		p.events = api.ValidEvents
	}
	if known := api.EventMask(1<<(api.Event_UPDATE_POD_SANDBOX-1) - 1); c.UnknownPods && reply.GetEvents()&^int32(known) != 0 {
		return fmt.Errorf("invalid plugin events: %#x", reply.GetEvents()&^int32(known))
	}
	p.policy = reply.GetFailurePolicy()
	if !c.ListsLate {
		r.gate.shut()
		defer r.gate.open()
	}
	return r.locked(p.synchronise)
}

// synchronise sends the plugin what runs, applies the updates in its reply, and adds the plugin to
// those that are asked. The caller has the lock, and has shut the gate unless Config.ListsLate is
// set.
func (p *peer) synchronise() error {
	r := p.runtime
	step := Step{Point: Asking, Hook: hookSynchronize}
	if err := r.suffer(step, p); err != nil {
		return err
	}
	pods, containers := r.everything()
	ctx, cancel := context.WithTimeout(r.ctx, r.config.RequestTimeout)
	defer cancel()
	var reply *api.SynchronizeResponse
	for more := true; more; {
		request := &api.SynchronizeRequest{}
		request.Pods, pods = chunk(pods, r.config.SyncChunk)
		request.Containers, containers = chunk(containers, r.config.SyncChunk)
		more = len(pods)+len(containers) > 0
		request.More = more
		var err error
		if reply, err = p.service.Synchronize(ctx, request); err != nil {
			return fmt.Errorf("synchronize: %w", err)
		}
		if more && (len(reply.GetUpdate()) > 0 || !reply.GetMore()) {
			return errors.New("synchronize: the plugin does not take what runs in several messages")
		}
	}
	step.Point = Answered
	if err := r.suffer(step, p); err != nil {
		return err
	}
	_, _ = r.apply(hookSynchronize, reply.GetUpdate()) // As in containerd, the plugin does not learn what failed.
	r.plugins = slices.DeleteFunc(r.plugins, (*peer).isClosed)
	r.plugins = append(r.plugins, p)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ready {
		r.ready = true
		close(r.first)
	}
	return nil
}

// chunk splits off the first elements of a list, at most most. If most is 0, head is the whole
// list.
func chunk[T any](list []T, most int) (head, tail []T) {
	if most == 0 || len(list) <= most {
		return list, nil
	}
	return list[:most], list[most:]
}

// RegisterPlugin implements the runtime's service.
func (p *peer) RegisterPlugin(_ context.Context, request *api.RegisterPluginRequest) (*api.Empty, error) {
	if err := errors.Join(api.CheckPluginName(request.GetPluginName()), api.CheckPluginIndex(request.GetPluginIdx())); err != nil {
		return nil, err
	}
	select {
	case p.registered <- request.GetPluginIdx() + "-" + request.GetPluginName():
		return &api.Empty{}, nil
	default:
		return nil, errors.New("the plugin is registered already")
	}
}

// UpdateContainers implements the runtime's service for unsolicited updates of the plugin. They
// wait for the lock, even if the plugin does not wait for the answer any more.
func (p *peer) UpdateContainers(_ context.Context, request *api.UpdateContainersRequest) (*api.UpdateContainersResponse, error) {
	r := p.runtime
	step := Step{Point: Asking, Hook: hookUpdateContainers}
	if err := r.suffer(step, p); err != nil {
		return nil, err
	}
	if p.isClosed() {
		return nil, ttrpc.ErrClosed // The request was still on its way.
	}
	var failed []*api.ContainerUpdate
	err := r.locked(func() (err error) {
		if r.config.HangsOnUpdates {
			select {
			case <-p.gone:
			case <-r.ctx.Done():
			}
			return ttrpc.ErrClosed
		}
		failed, err = r.apply(hookUpdateContainers, request.GetUpdate())
		return err
	})
	if err != nil && !(r.config.ListFailed && len(failed) > 0) {
		return nil, err
	}
	step.Point = Answered
	if err := r.suffer(step, p); err != nil {
		return nil, err
	}
	return &api.UpdateContainersResponse{Failed: failed}, nil
}
