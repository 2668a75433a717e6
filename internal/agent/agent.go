package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/codec/journal"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/moves"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/node/engine"
	"github.com/paddock-project/paddock/internal/node/intake"
	"github.com/paddock-project/paddock/internal/node/notice"
	"github.com/paddock-project/paddock/internal/node/podres"
	"github.com/paddock-project/paddock/internal/node/podsource/kubelet"
	"github.com/paddock-project/paddock/internal/node/podsource/manifests"
	"github.com/paddock-project/paddock/internal/node/promise"
	"github.com/paddock-project/paddock/internal/node/publication"
	"github.com/paddock-project/paddock/internal/node/runtime/nri"
	"github.com/paddock-project/paddock/internal/node/runtime/sim"
	"github.com/paddock-project/paddock/internal/node/telemetry"
	"github.com/paddock-project/paddock/internal/node/usage"
	"github.com/paddock-project/paddock/internal/node/zones"
	"github.com/paddock-project/paddock/internal/ui/view"
	"github.com/paddock-project/paddock/internal/ui/web"
)

// Agent manages a node.
type Agent struct {
	config Config
	world  World
	env    *environment
	engine *engine.Engine
	plugin *nri.Plugin
	// intake takes grants that a scheduler handed over, and publisher publishes the node to the
	// cluster. Both may be nil.
	intake    *intake.Intake
	publisher *publication.Publisher
	// zones publishes the node to schedulers that read NodeResourceTopology. It may be nil.
	zones *zones.Keeper
	// promises are the pods for which other pods are moved. Nil means that no pods are moved.
	promises *promise.Keeper
	// find finds the moves that a client requests.
	find func(context.Context, MovesRequest) ([]moves.Move, error)
	// moved has the pods that were moved since the start.
	moved movedPods
	pods  *kubelet.Source // only on a real node
	// devices has the devices that others chose for pods. Nil means that the kubelet is not asked.
	devices *devices
	// runtime and kubelet are the simulated ones. They are nil on a real node.
	runtime *sim.Runtime
	kubelet *sim.Kubelet
	// reported is the part of the engine's state that is in force.
	reported *reported
	// notices writes the notices to containers. Nil means that there are none.
	notices *notice.Writer
	metrics *telemetry.Telemetry
	web     *web.Web
	// history writes the web's journal to a file.
	history *history
	// measuring reads how busy the CPUs are. It is nil for a simulated runtime, which uses no CPUs.
	measuring *measuring
	// interrupting counts interruptions of exclusive CPUs. It is nil if the machine is not the one
	// on which the agent runs.
	interrupting *interrupting
	health       *health
	log          *slog.Logger
	flows        *telemetry.Operations
	// unusable has the manifests with errors, for the simulated runtime. Nil means that the agent
	// has not read any manifest yet.
	unusable atomic.Pointer[[]manifests.Problem]
	// quiet has the pods whose manifests ask to be left alone. It maps their UIDs to the requested
	// end time. Nil means that the agent has not read any manifest yet.
	quiet  atomic.Pointer[map[string]time.Time]
	reload *Reload // nil if no signal makes the agent read its configuration again
	looks  looks   // the clock of the manifests' reader
	close  func() error
}

// New reads the configured files and opens the state. The caller must call Run or Close next. ctx
// is used for logging only.
func New(ctx context.Context, c Config, w World, build telemetry.Build, log *slog.Logger) (*Agent, error) {
	w = w.complete(c)
	if err := c.Check(); err != nil {
		return nil, err
	}
	if c.Runtime == RuntimeNRI && c.APIServer.URL != "" && c.NodeName == "" {
		return nil, fmt.Errorf("%w: nodeName: expected the name of this Kubernetes node: the agent reads the ResourceSlices of this node from the API server", ErrConfig)
	}
	env, err := w.read()
	if err != nil {
		return nil, err
	}
	flows := &telemetry.Operations{}
	ctx = flows.WithOperation(ctx)
	log.InfoContext(ctx, "policy", "policy", env.Policy.Text)
	if why := env.limitMoves(c); why != "" {
		log.WarnContext(ctx, "about a setting", "setting", why)
	}
	for _, note := range env.Found.Notes {
		log.WarnContext(ctx, "about the machine", "note", note)
	}
	for _, w := range env.Policy.Warnings {
		log.WarnContext(ctx, "about a setting", "setting", w)
	}
	a := &Agent{config: c, world: w, env: env, health: &health{}, log: log, flows: flows}
	a.find = a.requested
	checks := []telemetry.Check{{Name: "state", Ready: a.health.ready}, {Name: "runtime", Ready: a.Ready}, {Name: "containers", Ready: a.containersReady}}
	if c.Runtime == RuntimeNRI {
		checks = append(checks, telemetry.Check{Name: "kubelet", Ready: a.kubeletReady})
	} else {
		checks = append(checks, telemetry.Check{Name: "manifests", Ready: a.manifestsReady})
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
	a.metrics = telemetry.New(telemetry.Config{Policy: env.Policy.Policy, Build: build, Snapshot: inForce, Stranded: stranded, Checks: checks})
	name := strings.TrimSuffix(filepath.Base(c.Machine), ".json") // the name of the node on the map
	if host, err := os.Hostname(); c.Machine == discover.LiveName && err == nil {
		name = host
	}
	var use func(*node.State) *view.Use
	if files, kernel := w.Cgroups.(cgroups); kernel && c.Runtime == RuntimeNRI {
		a.measuring = &measuring{files: files.fs, running: a.running, stat: usage.StatFile, now: w.Now, after: w.After}
		use = a.measuring.use
	}
	a.web = web.New(web.Config{
		Machine: name, Policy: env.Policy.Text, Snapshot: snapshot, Notice: a.notice, Warning: a.warning, Veto: a.veto, Use: use, Interruptions: a.countInterruptions(), Now: w.Now, After: w.After,
	})
	observed := append(observers{a.metrics, a.health, a.web}, a.joinCluster(ctx)...)
	if w.Watch.Engine != nil {
		observed = append(observed, w.Watch.Engine)
	}
	e, kept, err := env.startEngine(ctx, c, w, observed, a.plans(), log)
	if err != nil {
		return nil, err
	}
	a.engine, a.close = e, sync.OnceValue(kept.Close)
	a.history = &history{file: kept.Beside("history", journal.MaxSize), web: a.web, log: log, turn: make(chan struct{}, 1)}
	a.history.turn <- struct{}{}
	a.history.load(ctx, e.State())
	a.reported = &reported{engine: e, status: a.status}
	if c.Runtime == RuntimeNRI {
		err = a.newNode(ctx, podspec.GatesOf(env.Policy.Policy))
	} else {
		err = a.newSimulation(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// Close unlocks the state. It may be called more than once.
func (a *Agent) Close() error { return a.close() }

// Run serves until ctx ends, and then writes the state and closes it. It returns nil if it ended
// because of ctx. All goroutines have ended when it returns.
func (a *Agent) Run(ctx context.Context) error {
	within, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	group, within := errgroup.WithContext(within)
	if err := a.serve(within, group); err != nil {
		cancel()
		return errors.Join(err, group.Wait(), a.Close())
	}
	if a.devices != nil {
		group.Go(func() error { return a.completeClaims(within) })
		if slices := a.devices.places.slices; slices != nil {
			group.Go(func() error { return slices.Run(within) })
		}
	}
	if a.pods != nil {
		group.Go(func() error { return a.pods.Run(within) })
	} else {
		a.simulate(within, group)
	}
	group.Go(func() error { return a.reloads(within) })
	group.Go(func() error { return a.history.run(within) })
	if a.measuring != nil {
		group.Go(func() error { return a.measuring.run(within) })
	}
	if a.interrupting != nil {
		group.Go(func() error { return a.interrupting.run(within) })
	}
	if a.notices != nil {
		group.Go(func() error { return a.notices.Run(within) })
	}
	if a.publisher != nil {
		group.Go(func() error { return a.publisher.Run(within) })
	}
	if a.zones != nil {
		group.Go(func() error { return a.zones.Run(within) })
	}
	group.Go(func() error {
		if a.devices != nil {
			a.devices.places.first(within)
		}
		return a.plugin.Run(within)
	})
	if a.config.Machine == discover.LiveName {
		h := newHotplug(a.engine, os.DirFS("/"), a.env.Found.Machine, func() { a.plugin.Wake(within) }, a.flows, a.log)
		group.Go(func() error { return h.run(within) })
	}
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

// handingBack limits how long it takes to hand back the CPUs. Together with ending it is less than
// the 30 s that Kubernetes gives a pod.
const handingBack = 20 * time.Second

// handBack lets every container run on all CPUs again if the configuration asks for that.
func (a *Agent) handBack(ctx context.Context) {
	if !a.config.ReleaseOnExit {
		return
	}
	ctx, cancel := context.WithTimeout(a.flows.WithOperation(ctx), handingBack)
	defer cancel()
	if err := a.plugin.HandBack(ctx); err != nil {
		a.log.ErrorContext(ctx, "some containers do not run on all CPUs yet: restart these pods, or start the agent again", "error", err)
		return
	}
	a.log.InfoContext(ctx, "every container runs on all CPUs again, and no pod has an assignment")
}

// ending is how long the agent waits for the disk when it ends. It is less than the 30 s that
// Kubernetes gives a pod, and short enough not to delay a node that reboots.
const ending = 5 * time.Second

// end writes the state and closes it. If the disk stalls, it stops waiting after ending: every
// admission that was answered is already on the disk, and no answer depends on a grant that is
// still being written. The lock then stays until the process ends, because the write may still be
// in progress. The history is written last, in the remaining time.
func (a *Agent) end(ctx context.Context) error {
	flushing, cancel := context.WithTimeout(ctx, ending)
	defer cancel()
	err := a.engine.Flush(flushing)
	if flushing.Err() != nil || !a.history.end(flushing) {
		return err
	}
	return errors.Join(err, a.Close())
}

// serve opens the agent's addresses before any decision is made, so that an address in use is an
// error at the start.
func (a *Agent) serve(ctx context.Context, group *errgroup.Group) error {
	flow := a.flows.WithOperation(ctx)
	if a.config.Listen != "" {
		listener, err := telemetry.Listen(ctx, a.config.Listen)
		if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		a.log.InfoContext(flow, "metrics and health", "address", listener.Addr().String())
		handler := a.handler(ctx)
		group.Go(func() error { return telemetry.Serve(ctx, listener, handler, a.log) })
	}
	if socket := a.config.PodResources.Socket; socket != "" {
		server, err := podres.NewServer(a.reported, podres.Options{
			Unavailable: a.reported.Unmanaged,
			Limit:       podres.Limit{PerSecond: a.config.PodResources.CallsPerSecond, Burst: a.config.PodResources.Burst},
			Observer:    a.metrics,
			Moved:       a.moved.of,
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

// observers combines several observers into one.
type observers []engine.Observer

func (all observers) Decided(d engine.Decision) {
	for _, o := range all {
		o.Decided(d)
	}
}

// Resized implements engine.ResizeObserver.
func (all observers) Resized(d engine.Decision) {
	for _, o := range all {
		if o, learns := o.(engine.ResizeObserver); learns {
			o.Resized(d)
		}
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

// health has the outcome of the last write of the state.
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
