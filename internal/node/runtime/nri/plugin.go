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
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/quota"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/absence"
	"github.com/paddock-project/paddock/internal/node/control"
	"github.com/paddock-project/paddock/internal/node/engine"
)

// Engine decides and keeps the state; see package engine. Only methods with a context may wait.
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
	// List requests a new list of the pods, by UID. It has no pods that have ended.
	List(ctx context.Context) (map[string]request.Pod, error)
	// Latest returns a pod of the last list. pending is the reason why the kubelet does not apply
	// the pod's request for now, because it waits for room or never will. If it is empty, the
	// kubelet applies the request. Latest does not wait.
	Latest(uid string) (pod request.Pod, pending string, known bool)
	// Gone reports whether a pod is gone, according to all lists so far. It does not wait.
	Gone(uid string, trace absence.Trace) bool
}

// Handover is for nodes whose engine accepts grants that a scheduler hands over. Used reports
// whether any pod came with a grant, or is listed with one. It does not wait.
type Handover interface{ Used() bool }

// Cgroups accesses the kernel's cgroup files. A path is spelled as the runtime names it.
type Cgroups interface {
	Read(path string) (converge.Setting, error)
	// Inner returns the name and the CPUs of a cgroup directly below another one that has other
	// CPUs than that one. If there is none, the name is empty.
	Inner(path string) (name string, cpus cpuset.Set, err error)
	// Pages returns the bytes of anonymous memory that a cgroup has on each NUMA node.
	Pages(path string) (map[int]int64, error)
	// Set writes the CPUs, the memory nodes and the quota of a cgroup. What is empty stays.
	Set(path string, s converge.Setting) error
	// SetQuota writes the CFS quota of a cgroup, and reports whether it changed.
	SetQuota(path string, want quota.Quota) (bool, error)
}

// Observer receives events for metrics. Its methods must not wait.
type Observer interface {
	// Hook reports one request of the runtime.
	Hook(name string, took time.Duration, err error)
	// Asked reports how long a hook waited for the source of pods.
	Asked(took time.Duration)
	Connected(bool)
	// Away reports for how long pods were started without Paddock.
	Away(time.Duration)
	// Vetoes reports whether the runtime asks before a pod is resized, if that is known.
	Vetoes(bool)
	// Repaired reports the number of containers that had wrong CPUs and were updated.
	Repaired(containers int)
	// Slow reports an event that took the loop longer than an event may take.
	Slow(event string, took time.Duration)
	// Unverified reports how many running containers do not have the setting that they should have.
	Unverified(containers int)
	// Unsettled reports how many containers wait for an update, or are being changed or created.
	Unsettled(containers int)
}

// ErrLater is wrapped by errors of Config.Devices if another try may succeed.
var ErrLater = errors.New("it may answer later")

// Config is the plugin's environment.
type Config struct {
	Engine   Engine
	Pods     Pods
	Cgroups  Cgroups
	Observer Observer
	Log      *slog.Logger
	// Operation returns a context with a number for the log. If nil, there are no numbers.
	Operation func(context.Context) context.Context
	// Now and After are time.Now and time.After.
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
	// Dial makes a connection whose requests the handler answers. The handler is as stub.New takes
	// it. If nil, the plugin connects to Socket.
	Dial func(handler any) (Link, error)
	// Socket is the runtime's socket. Name and Index are the plugin's name and index there.
	Socket, Name, Index string
	// Timeout limits the time of an answer to a hook. Half of the runtime's own timeout limits it
	// too.
	Timeout time.Duration
	// Period is the time between two comparisons of all containers.
	Period time.Duration
	// Grace is the time for which an estimated pod that the source never listed keeps its CPUs
	// without a sandbox.
	Grace time.Duration
	// Fresh is true if the engine's state never had a grant. Paddock then did not assign the CPUs
	// that containers have.
	Fresh bool
	// Estimate gets the error of a Lookup, and reports whether to estimate the request from the
	// pod's cgroup instead. If nil, requests are never estimated.
	Estimate func(error) bool
	// Devices asks for the devices that were allocated to the containers of a pod. It returns a
	// function that adds them to the pod's request. It is called in parallel with Pods.Lookup, and
	// has half of the hook's time. A pod that asks for no devices does not wait for it, and ctx
	// then ends early. If the answer may come later, because ctx ended or the error wraps ErrLater,
	// a policy that rejects pods that are not aligned rejects the pod, and the pod is tried again.
	// Otherwise the pod is decided without its devices, and has the reason. If Devices is nil,
	// nothing is asked.
	Devices func(ctx context.Context, namespace, name string) (add func(request.Pod) request.Pod, err error)
	// Handover reports whether pods come with grants. If nil, there are none.
	Handover Handover
	// Notices shows containers the resources that they have. If nil, there are no notices.
	Notices Notices
	// Classes configures how containers get to their classes of the caches.
	Classes Classes
	// Moves configures how running pods are moved.
	Moves MovesConfig
	// Seen returns the containers that run, for the verification that the loop makes each Period.
	// If nil, there is no verification.
	Seen func(ctx context.Context, paths map[string]string) ([]Seen, error)
	// TakeOver makes Paddock manage containers that run on CPUs that are not in the state.
	TakeOver bool
	// LastAnswer is the time of the last answer of an earlier process to the runtime. Zero means
	// that it is unknown, or that there was none.
	LastAnswer time.Time
	// Alive is called, at most every few seconds, while the runtime is connected. If nil, it is not
	// called. It may wait.
	Alive func(time.Time)
}

// Link is one connection to a runtime. The stub of NRI has these methods.
type Link interface {
	// Run connects and serves until the connection or ctx ends.
	Run(ctx context.Context) error
	UpdateContainers([]*api.ContainerUpdate) ([]*api.ContainerUpdate, error)
	RuntimeNRIVersion() string
	// RequestTimeout returns how long the runtime waits for an answer.
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
	// connections counts the connections. present is the session of the last one.
	connections atomic.Uint64
	present     atomic.Pointer[session]
	// latest is the loop after the last event.
	latest     atomic.Pointer[moment]
	handedBack once
	slow       slowness
	// glances has room for the one read of cgroups that a request may wait for. writes has room for
	// the one write of a quota.
	glances, writes chan struct{}
}

// These types are the input and the output of the loop; see package control.
type (
	// Status describes what is known of the node and its pods.
	Status = control.Status
	// Moving is a move that is in progress.
	Moving = control.Moving
	// Change is the part of a move that concerns one container.
	Change = control.Change
	// Seen is a container that runs, as the verification sees it.
	Seen = control.Seen
	// Unverified is a running container that does not have its setting.
	Unverified = control.Unverified
	// Noticed is what a notice shows a container about itself.
	Noticed = control.Noticed
	// Running is a container that the runtime has.
	Running = control.Running
)

// These errors are wrapped by the errors that fail a sandbox or a resize; see package control.
var (
	ErrMoving         = control.ErrMoving
	ErrRejected       = control.ErrRejected
	ErrResizeRejected = control.ErrResizeRejected
)

// MoveObserver is notified of moves. The event loop calls it, so its methods must not wait.
type MoveObserver interface {
	// Begun is called when both places are durable and nothing has changed yet. It is also called
	// for a move that an earlier process began.
	Begun(Moving)
	// Ended is called when the pod has one place again. If done, it is the new one. A pod that
	// ended meanwhile has none.
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

// Run keeps the connection to the runtime and answers its requests until ctx ends. It returns the
// cause of that. When it returns, all goroutines have ended.
func (p *Plugin) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.connect(ctx) })
	group.Go(func() error { return p.newEdge().run(ctx) })
	err := group.Wait()
	p.jobs.Wait()
	return err
}

// Status returns the present status. It never waits.
func (p *Plugin) Status() *Status { return p.status.Load() }

// Ready returns the reason why Paddock does not manage the node now, or nil if it does.
func (p *Plugin) Ready() error {
	switch s := p.Status(); {
	case s.Unmanaged != nil:
		return s.Unmanaged
	case !s.Connected:
		return errors.New("no connection to the runtime at " + p.config.Socket + ": pods start without CPUs of their own")
	}
	return nil
}

// Running returns the containers that the loop knows, in no order.
func (p *Plugin) Running() []Running { return p.latest.Load().loop.Running() }

// Wake makes the loop compare all containers now.
func (p *Plugin) Wake(ctx context.Context) { p.tell(ctx, control.Round{}) }

// Settle starts a round and waits until all its jobs have ended, or ctx ends.
func (p *Plugin) Settle(ctx context.Context) {
	done := make(chan struct{})
	p.send(ctx, message{of: control.Round{}, quiet: done})
	select {
	case <-done:
	case <-p.ended:
	case <-ctx.Done():
	}
}
