package hollow

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/codec/statefile"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/node/engine"
	"github.com/paddock-project/paddock/internal/node/intake"
	"github.com/paddock-project/paddock/internal/node/podsource/kubelet"
	"github.com/paddock-project/paddock/internal/node/publication"
	"github.com/paddock-project/paddock/internal/node/runtime/nri"
	"github.com/paddock-project/paddock/internal/node/runtime/sim"
)

const (
	// hookTimeout and requestTimeout are longer than on a node (0.8 s and 2 s): here a thousand
	// nodes share the CPUs of one machine, and a late answer would say nothing about Paddock.
	hookTimeout, requestTimeout = 10 * time.Second, 30 * time.Second
	// period is how often an agent compares everything.
	period = 30 * time.Second
	// grace is internal/agent's: how long an unlisted pod keeps its assignments without a sandbox.
	grace = 30 * time.Second
)

// agent is one life of the agent of a node.
type agent struct {
	engine *engine.Engine
	plugin *nri.Plugin
	cancel context.CancelFunc
	group  *errgroup.Group
}

// startAgent starts the agent of a node, on what its disk has.
func (n *Node) startAgent(ctx context.Context) (*agent, error) {
	policy := n.policy()
	var grants []*node.Grant
	var generation uint64
	if data := n.disk.Read(); data != nil {
		file, err := statefile.Decode(n.Name, data)
		if err != nil {
			return nil, err
		}
		grants, generation = file.Grants, file.Generation
	}
	fresh := n.Kind.State
	state, _, err := node.Adopt(fresh.Machine(), policy, nil, grants)
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.DiscardHandler)
	source, err := kubelet.New(kubelet.Address{URL: n.lists}, kubelet.Options{Gates: podspec.GatesOf(policy), Now: time.Now, After: time.After, Log: log})
	if err != nil {
		return nil, err
	}
	taken := intake.New(intake.Config{Node: n.Name, Listing: source.Listing, Now: time.Now, Count: n.record.came, Log: n.fleet.log.With("node", n.Name)})
	a := &agent{}
	publisher := publication.New(publication.Config{
		Node: n.Name, Client: n.fleet.publishers[n.Name], View: func() publication.View { return a.view(source) },
		Now: time.Now, After: time.After, Observer: (*writes)(n), Log: log,
	})
	var encoder statefile.Encoder
	var meter statefile.Meter
	a.engine = engine.New(state.Resume(generation), engine.Config{
		Store: &n.disk, Encode: encoder.Encode, Fits: meter.Fits, Plan: taken.Plan, Now: time.Now,
		Reserve:  func(s *node.State) *node.State { return s.WithReservations(taken.Reservations(s)) },
		Observer: observers{taken, publisher, (*decisions)(n)}, Log: log,
	})
	a.plugin = nri.New(nri.Config{
		Engine: a.engine, Handover: taken, Pods: source, Cgroups: n.runtime.Cgroups(), Observer: (*hooks)(n), Log: log, Now: time.Now, After: time.After,
		Socket: "in memory", Name: pluginName, Index: "90", Timeout: hookTimeout, Period: period, Grace: grace, TakeOver: true,
		Fresh: a.engine.State().Generation() <= fresh.Generation(),
		Dial:  func(handler any) (nri.Link, error) { return n.runtime.Dial(handler, pluginName, "90") },
	})
	n.published.Store(false)
	ctx, a.cancel = context.WithCancel(ctx)
	a.group, ctx = errgroup.WithContext(ctx)
	a.group.Go(func() error { return source.Run(ctx) })
	a.group.Go(func() error { return a.plugin.Run(ctx) })
	a.group.Go(func() error { return publisher.Run(ctx) })
	return a, nil
}

// view is what there is to publish.
func (a *agent) view(source *kubelet.Source) publication.View {
	return publication.View{State: a.engine.State(), Listing: source.Listing(), Unmanaged: a.plugin.Status().Unmanaged}
}

// observers are several observers of an engine.
type observers []engine.Observer

// Decided is engine.Observer's.
func (all observers) Decided(d engine.Decision) {
	for _, o := range all {
		o.Decided(d)
	}
}

// Wrote is engine.Observer's.
func (all observers) Wrote(w engine.Write) {
	for _, o := range all {
		o.Wrote(w)
	}
}

// Released is engine.Observer's.
func (all observers) Released(uid string) {
	for _, o := range all {
		o.Released(uid)
	}
}

const pluginName = "paddock"

// stop ends the agent as a kill does: nothing is flushed.
func (a *agent) stop() {
	a.cancel()
	_ = a.group.Wait() // It ended because it was told to.
}

// newRuntime makes the runtime of a node. Without the agent, it creates no container.
func newRuntime(ctx context.Context) *sim.Runtime {
	return sim.New(ctx, sim.Config{Required: []string{pluginName}, RequestTimeout: requestTimeout, Now: time.Now, After: time.After})
}

// restart ends the agent, waits, and starts it again.
func (n *Node) restart(ctx context.Context, away time.Duration) error {
	n.mu.Lock()
	a := n.agent
	n.agent = nil
	n.mu.Unlock()
	if a == nil {
		return fmt.Errorf("node %s: its agent is away already", n.Name)
	}
	a.stop()
	n.fleet.showAgent(ctx, n, false)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(away):
	}
	started, err := n.startAgent(ctx)
	if err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	n.mu.Lock()
	n.agent = started
	n.mu.Unlock()
	if err := await(ctx, func() bool { return started.plugin.Ready() == nil }); err != nil {
		return err
	}
	n.fleet.showAgent(ctx, n, true)
	return nil
}

// await waits until something is so.
func await(ctx context.Context, is func() bool) error {
	for !is() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(probe):
		}
	}
	return nil
}

// probe is how often a kubelet asks whether the agent is ready.
const probe = time.Second
