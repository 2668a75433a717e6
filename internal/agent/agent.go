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
	"github.com/paddock-project/paddock/internal/podsource/manifests"
	"github.com/paddock-project/paddock/internal/podspec"
	"github.com/paddock-project/paddock/internal/runtime/sim"
	"github.com/paddock-project/paddock/internal/store"
	"github.com/paddock-project/paddock/internal/telemetry"
	"github.com/paddock-project/paddock/internal/web"
)

var (
	errNotAdmitted = errors.New("the pod is not admitted")
	errNoContainer = errors.New("the pod has no such container")
	errEmptyPool   = errors.New("it has no CPUs of its own, and the node's shared pool is empty: free CPUs, or lift strict-cpu-reservation")
)

// Agent is a node's assignments, held.
type Agent struct {
	config  Config
	place   *place
	engine  *engine.Engine
	runtime *sim.Runtime
	keeper  *keeper
	node    *realNode // in place of runtime and keeper
	metrics *telemetry.Telemetry
	web     *web.Web
	health  *health
	log     *slog.Logger
	flows   *telemetry.Operations
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
	checks := []telemetry.Check{{Name: "state", Ready: a.health.ready}}
	if c.Runtime == RuntimeNRI {
		checks = append(checks, telemetry.Check{Name: "runtime", Ready: a.runtimeReady})
	}
	snapshot := func() *engine.Snapshot {
		if a.engine == nil {
			return nil
		}
		return a.engine.Snapshot()
	}
	a.metrics = telemetry.New(telemetry.Config{Machine: p.machine, Policy: p.policy, Build: build, Snapshot: snapshot, Checks: checks})
	a.web = web.New(web.Config{
		Machine: nodeName(c.Machine), Policy: p.said, Snapshot: snapshot, Now: time.Now, After: time.After, Everywhere: c.Map == MapEverywhere,
	})
	e, lock, err := p.startEngine(ctx, c, fsys, observers{a.metrics, a.health, a.web}, log)
	if err != nil {
		return nil, err
	}
	a.engine, a.close = e, sync.OnceValue(lock.Close)
	gates := podspec.Gates{PodLevelResources: p.policy.PodLevelResources, PodLevelManagers: p.policy.PodLevelManagers}
	if c.Runtime == RuntimeNRI {
		if a.node, err = a.newNode(ctx, gates); err != nil {
			return nil, errors.Join(err, a.Close())
		}
		return a, nil
	}
	a.runtime = sim.New(creating(e))
	a.keeper = newKeeper(e, a.runtime, gates, flows, log)
	return a, nil
}

// Engine is the agent's engine, for reading.
func (a *Agent) Engine() *engine.Engine { return a.engine }

// Runtime is the simulated runtime; nil where another one is driven.
func (a *Agent) Runtime() *sim.Runtime { return a.runtime }

// Close lets go of the state. It may be called again.
func (a *Agent) Close() error { return a.close() }

// Run serves until the context ends, writes the state and closes it. An end that was asked for is
// no error. Nothing runs on when it returns.
func (a *Agent) Run(ctx context.Context) error {
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	group, within := errgroup.WithContext(within)
	if err := a.serve(within, group); err != nil {
		cancel()
		return errors.Join(err, group.Wait(), a.Close())
	}
	if a.node != nil {
		a.node.run(within, group)
	} else {
		a.simulate(within, group)
	}
	err := group.Wait()
	if ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))) {
		err = nil
	}
	return errors.Join(err, a.engine.Flush(context.WithoutCancel(ctx)), a.Close())
}

// simulate drives the simulated runtime with the pods of the manifests.
func (a *Agent) simulate(ctx context.Context, group *errgroup.Group) {
	sets := make(chan manifests.Set)
	source := manifests.New(a.config.Pods, manifests.Options{Gates: a.keeper.gates, After: time.After})
	group.Go(func() error {
		return source.Run(ctx, func(set manifests.Set) {
			select {
			case sets <- set:
			case <-ctx.Done():
			}
		})
	})
	group.Go(func() error { return a.keep(ctx, sets) })
}

// keep runs the keeper.
func (a *Agent) keep(ctx context.Context, sets <-chan manifests.Set) error {
	tick := time.NewTicker(a.place.period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case set := <-sets:
			a.keeper.follow(ctx, set)
		case <-tick.C:
			a.keeper.tick(ctx)
		}
	}
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
		handler := a.web.Handler(ctx, a.metrics.Handler(a.config.Profile))
		group.Go(func() error { return telemetry.Serve(ctx, listener, handler, a.log) })
	}
	if socket := a.config.PodResources.Socket; socket != "" {
		server, err := podres.NewServer(a.engine, podres.Options{
			Limit:    podres.Limit{PerSecond: a.config.PodResources.CallsPerSecond, Burst: a.config.PodResources.Burst},
			Observer: a.metrics,
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
