package nri

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/nri/pkg/api"
	"golang.org/x/sync/errgroup"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/absence"
	"github.com/paddock-project/paddock/internal/node/control"
	"github.com/paddock-project/paddock/internal/node/engine"
)

// Engine decides and keeps the state; see package engine. No method without a context waits.
type Engine interface {
	Admit(ctx context.Context, pod request.Pod) (*node.Plan, error)
	AdmitAll(ctx context.Context, pods []engine.Candidate) []engine.Decision
	Preview(c engine.Candidate) engine.Preview
	AdmitPreviewed(ctx context.Context, v engine.Preview) engine.Decision
	Move(ctx context.Context, uid string, f func(*node.State) (*node.State, error)) error
	Resize(ctx context.Context, pod request.Pod) (*node.Plan, error)
	Drop(ctx context.Context, uid string)
	ContainerCreated(uid, name string)
	Snapshot() *engine.Snapshot
	State() *node.State
	Tick(ctx context.Context) error
}

// Pods is the source of pods, usually the kubelet.
type Pods interface {
	// Lookup returns the request of a pod, within ctx.
	Lookup(ctx context.Context, uid string) (request.Pod, error)
	// List asks again which pods there are, by UID. Pods that have ended are not among them.
	List(ctx context.Context) (map[string]request.Pod, error)
	// Latest is a pod of the last list. pending is why the kubelet does not carry out what it asks
	// for now, because it waits for room or never will; empty: it does. It does not wait.
	Latest(uid string) (pod request.Pod, pending string, known bool)
	// Gone reports whether a pod is gone, according to all lists so far. It does not wait.
	Gone(uid string, trace absence.Trace) bool
}

// Handover is for nodes whose engine takes grants that a scheduler hands over. Used reports whether
// any pod came with a grant, or is listed with one. It does not wait.
type Handover interface{ Used() bool }

// Cgroups are the kernel's files. A path is as the runtime names it.
type Cgroups interface {
	Read(path string) (converge.Setting, error)
	// Pages are the bytes of anonymous memory that a cgroup has on each NUMA node.
	Pages(path string) (map[int]int64, error)
	// SetQuota writes the CFS quota of a cgroup, and reports whether it changed.
	SetQuota(path string, want node.Quota) (bool, error)
}

// Observer gets what happens, for metrics. It must not wait.
type Observer interface {
	// Hook is one request of the runtime.
	Hook(name string, took time.Duration, err error)
	// Asked is the time for which a hook waited for the source of pods.
	Asked(took time.Duration)
	Connected(bool)
	// Away is the time for which pods were started without Paddock.
	Away(time.Duration)
	// Vetoes reports whether the runtime asks before a pod is resized, as far as is known.
	Vetoes(bool)
	// Repaired is the number of containers that had wrong CPUs and were updated.
	Repaired(containers int)
	// Slow is an event that took the loop longer than an event may take.
	Slow(event string, took time.Duration)
	// Unverified is how many running containers do not have the setting that they should have.
	Unverified(containers int)
}

// ErrLater is wrapped by errors of Config.Devices after which another try may have an answer.
var ErrLater = errors.New("it may answer later")

// Config is the plugin's environment.
type Config struct {
	Engine   Engine
	Pods     Pods
	Cgroups  Cgroups
	Observer Observer
	Log      *slog.Logger
	// Operation returns a context with a number for the log; nil: no numbers.
	Operation func(context.Context) context.Context
	// Now and After are time.Now and time.After.
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
	// Dial makes a connection whose requests the handler answers, as stub.New takes it. Nil:
	// Socket.
	Dial func(handler any) (Link, error)
	// Socket, Name and Index are the runtime's socket and the plugin's name there.
	Socket, Name, Index string
	// Timeout bounds the answer to a hook. Half of the runtime's own timeout bounds it too.
	Timeout time.Duration
	// Period is how often everything is compared.
	Period time.Duration
	// Grace is how long an estimated pod that the source never listed keeps its CPUs without a
	// sandbox.
	Grace time.Duration
	// Fresh is true if the engine's state never had a grant: then Paddock did not assign the CPUs
	// that containers have.
	Fresh bool
	// Estimate gets the error of a Lookup, and reports whether to estimate the request from the
	// pod's cgroup instead. Nil: never.
	Estimate func(error) bool
	// Devices asks for the devices that others chose for the containers of a pod. It returns a
	// function that adds them to the pod's request. It is called beside Pods.Lookup, and has half
	// of the hook's time. A pod that asks for no devices does not wait for it: then ctx ends early.
	// If the answer may come later, because ctx ended or the error wraps ErrLater, the pod is tried
	// again under a policy that rejects pods that are not aligned; otherwise it is decided without
	// its devices, and has the reason. Nil: it is not asked.
	Devices func(ctx context.Context, namespace, name string) (add func(request.Pod) request.Pod, err error)
	// Handover knows of the grants that pods come with; nil: there are none.
	Handover Handover
	// Notices show containers what they have; nil: nothing does.
	Notices Notices
	// Moves is how running pods are moved.
	Moves MovesConfig
	// Seen shows what runs, for the verification that the loop makes each Period; nil: there is
	// none.
	Seen func(ctx context.Context, paths map[string]string) ([]Seen, error)
	// TakeOver manages containers that run on CPUs that are not in the state.
	TakeOver bool
	// LastAnswer is the last answer of an earlier process to the runtime; zero: unknown, or never.
	LastAnswer time.Time
	// Alive is called, at most every few seconds, while the runtime is connected; nil: not at all.
	// It may wait.
	Alive func(time.Time)
}

// Link is one connection to a runtime; the stub of NRI has these methods.
type Link interface {
	// Run connects and serves until the connection or ctx ends.
	Run(ctx context.Context) error
	UpdateContainers([]*api.ContainerUpdate) ([]*api.ContainerUpdate, error)
	RuntimeNRIVersion() string
	// RequestTimeout is how long the runtime waits for an answer.
	RequestTimeout() time.Duration
}

// Plugin is the node's NRI plugin. It is safe for use by several goroutines.
type Plugin struct {
	config Config
	events chan message
	ended  chan struct{} // closed when the loop has ended
	begun  time.Time
	status atomic.Pointer[Status]
	jobs   sync.WaitGroup
	// connections numbers the connections, and present is the session of the last one.
	connections atomic.Uint64
	present     atomic.Pointer[session]
	// latest is the loop after the last event.
	latest     atomic.Pointer[moment]
	handedBack once
	// glances has room for the one read of cgroups that a request may wait for, writes for the one
	// write of a quota.
	glances, writes chan struct{}
}

// These are what the loop shows, and what it is shown; see package control.
type (
	// Status is what is known of the node and its pods.
	Status = control.Status
	// Moving is a move that is under way.
	Moving = control.Moving
	// Change is what a move changes for one container.
	Change = control.Change
	// Seen is a container that runs.
	Seen = control.Seen
	// Unverified is a container that runs and does not have its setting.
	Unverified = control.Unverified
	// Noticed is what a container is shown of itself.
	Noticed = control.Noticed
	// Running is a container that the runtime has.
	Running = control.Running
)

// These are wrapped by the errors that fail a sandbox or a resize; see package control.
var (
	ErrMoving         = control.ErrMoving
	ErrRejected       = control.ErrRejected
	ErrResizeRejected = control.ErrResizeRejected
)

// MoveObserver learns of moves, in the event loop: it must not wait.
type MoveObserver interface {
	// Begun: both places are durable, and nothing has changed yet. It is also called for a move
	// that an earlier process began.
	Begun(Moving)
	// Ended: the pod has one place again, the new one if the move is done. A pod that ended
	// meanwhile has none.
	Ended(m Moving, done bool)
}

// New returns a plugin without a connection. Run connects it.
func New(c Config) *Plugin {
	if c.Operation == nil {
		c.Operation = func(ctx context.Context) context.Context { return ctx }
	}
	p := &Plugin{
		config: c, events: make(chan message), ended: make(chan struct{}), begun: c.Now(), handedBack: once{done: make(chan struct{})},
		glances: make(chan struct{}, 1), writes: make(chan struct{}, 1),
	}
	p.status.Store(&Status{})
	p.latest.Store(&moment{})
	return p
}

// Run keeps the connection to the runtime, and answers it, until ctx ends. It returns the cause of
// that. When it returns, all goroutines have ended.
func (p *Plugin) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.connect(ctx) })
	group.Go(func() error { return p.newEdge().run(ctx) })
	err := group.Wait()
	p.jobs.Wait()
	return err
}

// Status is the present status. It never waits.
func (p *Plugin) Status() *Status { return p.status.Load() }

// Ready returns the reason why Paddock does not manage the node now; nil: it does.
func (p *Plugin) Ready() error {
	switch s := p.Status(); {
	case s.Unmanaged != nil:
		return s.Unmanaged
	case !s.Connected:
		return errors.New("no connection to the runtime at " + p.config.Socket + ": pods start without CPUs of their own")
	}
	return nil
}

// Running are the containers that the loop knows, in no order.
func (p *Plugin) Running() []Running { return p.latest.Load().loop.Running() }

// Wake makes the loop compare everything now.
func (p *Plugin) Wake(ctx context.Context) { p.tell(ctx, control.Round{}) }

// Settle makes a round, and waits until all its jobs have ended, or ctx ends.
func (p *Plugin) Settle(ctx context.Context) {
	done := make(chan struct{})
	p.send(ctx, message{of: control.Round{}, quiet: done})
	select {
	case <-done:
	case <-p.ended:
	case <-ctx.Done():
	}
}
