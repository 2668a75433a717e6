package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/paddock-project/paddock/internal/discover"
	"github.com/paddock-project/paddock/internal/engine"
	"github.com/paddock-project/paddock/internal/podres"
	"github.com/paddock-project/paddock/internal/podsource/kubelet"
	"github.com/paddock-project/paddock/internal/podspec"
	"github.com/paddock-project/paddock/internal/runtime/nri"
	"github.com/paddock-project/paddock/internal/runtime/sim"
	"github.com/paddock-project/paddock/internal/store"
	"github.com/paddock-project/paddock/internal/telemetry"
	"github.com/paddock-project/paddock/internal/web"
)

// Agent is a node's assignments, held.
type Agent struct {
	config Config
	place  *place
	engine *engine.Engine
	plugin *nri.Plugin
	pods   *kubelet.Source // of a real node
	// runtime and kubelet are the simulated ones, in place of a real node's.
	runtime *sim.Runtime
	kubelet *sim.Kubelet
	// reported is what of the engine's state is in force.
	reported *reported
	metrics  *telemetry.Telemetry
	web      *web.Web
	// history is what of the web's journal is in a file.
	history *history
	health  *health
	log     *slog.Logger
	flows   *telemetry.Operations
	reload  *Reload // nil: a signal to re-read is not expected
	looks   looks   // for the manifests
	close   func() error
}

// New reads the place and opens the state. Run is next; Close lets go of the state if it is not. ctx is
// for what is logged.
func New(ctx context.Context, c Config, fsys store.FS, build telemetry.Build, log *slog.Logger) (*Agent, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	p, err := readPlace(c)
	if err != nil {
		return nil, err
	}
	flows := &telemetry.Operations{}
	ctx = flows.WithOperation(ctx)
	log.InfoContext(ctx, "policy", "policy", p.said)
	for _, w := range p.warnings {
		log.WarnContext(ctx, "about a setting", "setting", w)
	}
	a := &Agent{config: c, place: p, health: &health{}, log: log, flows: flows}
	checks := []telemetry.Check{{Name: "state", Ready: a.health.ready}, {Name: "runtime", Ready: a.runtimeReady}}
	if c.Runtime == RuntimeNRI {
		checks = append(checks, telemetry.Check{Name: "kubelet", Ready: a.kubeletReady})
	}
	snapshot := func() *engine.Snapshot {
		if a.engine == nil {
			return nil
		}
		return a.engine.Snapshot()
	}
	inForce := func() *engine.Snapshot {
		if a.reported == nil {
			return nil
		}
		return a.reported.Snapshot()
	}
	a.metrics = telemetry.New(telemetry.Config{Policy: p.policy, Build: build, Snapshot: inForce, Checks: checks})
	a.web = web.New(web.Config{
		Machine: nodeName(c.Machine), Policy: p.said, Snapshot: snapshot, Notice: a.notice, Now: time.Now, After: time.After,
	})
	e, kept, err := p.startEngine(ctx, c, fsys, observers{a.metrics, a.health, a.web}, log)
	if err != nil {
		return nil, err
	}
	a.engine, a.close = e, sync.OnceValue(kept.Close)
	a.history = newHistory(kept, a.web, log)
	a.history.load(ctx, e.State())
	a.reported = &reported{engine: e, status: a.status}
	if c.Runtime == RuntimeNRI {
		err = a.newNode(ctx, podspec.GatesOf(p.policy))
	} else {
		err = a.newSimulation(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// Close lets go of the state. It may be called again.
func (a *Agent) Close() error { return a.close() }

// Run serves until the context ends, writes the state and closes it. An end that was asked for is
// no error. Nothing runs on when it returns.
func (a *Agent) Run(ctx context.Context) error {
	within, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	group, within := errgroup.WithContext(within)
	if err := a.serve(within, group); err != nil {
		cancel()
		return errors.Join(err, group.Wait(), a.Close())
	}
	if a.pods != nil {
		group.Go(func() error { return a.pods.Run(within) })
	} else {
		a.simulate(within, group)
	}
	group.Go(func() error { return a.reloads(within) })
	group.Go(func() error { return a.history.run(within) })
	group.Go(func() error { return a.plugin.Run(within) })
	a.follow(within, group)
	group.Go(func() error {
		select {
		case <-ctx.Done():
			a.handBack(within)
			cancel()
			return context.Cause(ctx)
		case <-within.Done():
			return context.Cause(within)
		}
	})
	err := group.Wait()
	if ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))) {
		err = nil
	}
	return errors.Join(err, a.end(context.WithoutCancel(ctx)))
}

// handingBack is how long an end for good may take: within the 30 s that Kubernetes grants a pod, with
// the end itself.
const handingBack = 20 * time.Second

// handBack takes every container off its CPUs, if that is wanted.
func (a *Agent) handBack(ctx context.Context) {
	if !a.config.ReleaseOnExit {
		return
	}
	ctx, cancel := context.WithTimeout(a.flows.WithOperation(ctx), handingBack)
	defer cancel()
	if err := a.plugin.HandBack(ctx); err != nil {
		a.log.ErrorContext(ctx, "not every container is handed back to all CPUs: restart those pods, or start the agent again", "error", err)
		return
	}
	a.log.InfoContext(ctx, "every container is handed back to all CPUs, and no pod has an assignment any more")
}

// ending is how long an end waits for the disk: within the 30 s that Kubernetes grants a pod, and so
// that a node that reboots is not held up.
const ending = 5 * time.Second

// end writes the state and closes it. While the disk stalls it gives up after a while: every
// admission that was acknowledged is on the disk already, and a grant that is still being written was
// acknowledged to nobody. The lock is then left to the end of the process, as the write may go on. The
// history comes last, in the time that the state has left.
func (a *Agent) end(ctx context.Context) error {
	flushing, cancel := context.WithTimeout(ctx, ending)
	defer cancel()
	err := a.engine.Flush(flushing)
	if flushing.Err() != nil || !a.history.end(flushing) {
		return err
	}
	return errors.Join(err, a.Close())
}

// serve opens the agent's doors before anything is decided, so that an address in use is found out
// at the start.
func (a *Agent) serve(ctx context.Context, group *errgroup.Group) error {
	flow := a.flows.WithOperation(ctx)
	if a.config.Listen != "" {
		var listen net.ListenConfig
		listener, err := listen.Listen(ctx, "tcp", a.config.Listen)
		if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		a.log.InfoContext(flow, "metrics and health", "address", listener.Addr().String())
		handler := a.handler(ctx)
		group.Go(func() error { return telemetry.Serve(ctx, listener, handler, a.log) })
	}
	if socket := a.config.PodResources.Socket; socket != "" {
		server, err := podres.NewServer(a.reported, podres.Options{
			Unavailable: a.reported.Aside,
			Limit:       podres.Limit{PerSecond: a.config.PodResources.CallsPerSecond, Burst: a.config.PodResources.Burst},
			Observer:    a.metrics,
		})
		if err != nil {
			return err
		}
		listener, err := podres.Listen(socket)
		if err != nil {
			return err
		}
		a.log.InfoContext(flow, "PodResources API", "socket", socket)
		group.Go(func() error { return server.Serve(ctx, listener) })
	}
	return nil
}

// nodeName is what the map calls the node: this host, or the recorded machine.
func nodeName(machine string) string {
	if host, err := os.Hostname(); machine == discover.LiveName && err == nil {
		return host
	}
	return strings.TrimSuffix(filepath.Base(machine), ".json")
}

// observers tells several.
type observers []engine.Observer

func (all observers) Decided(d engine.Decision) {
	for _, o := range all {
		o.Decided(d)
	}
}

func (all observers) Wrote(w engine.Write) {
	for _, o := range all {
		o.Wrote(w)
	}
}

func (all observers) Released(uid string) {
	for _, o := range all {
		o.Released(uid)
	}
}

// health remembers whether the state could be written last.
type health struct{ last atomic.Pointer[error] }

func (h *health) Decided(engine.Decision) {}
func (h *health) Released(string)         {}
func (h *health) Wrote(w engine.Write)    { h.last.Store(&w.Err) }

func (h *health) ready() error {
	if err := h.last.Load(); err != nil {
		return *err
	}
	return nil
}
