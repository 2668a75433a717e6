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

	"github.com/paddock-project/paddock/internal/absence"
	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/engine"
)

// Engine decides and remembers; see package engine. None of its methods without a context waits.
type Engine interface {
	Admit(ctx context.Context, pod request.Pod) (*node.Plan, error)
	AdmitAll(ctx context.Context, pods []request.Pod) []engine.Decision
	Preview(pod request.Pod) *node.Plan
	Drop(ctx context.Context, uid string)
	ContainerCreated(uid, name string)
	Snapshot() *engine.Snapshot
	State() *node.State
	Tick(ctx context.Context) error
}

// Pods is the source of pods: the kubelet, as a rule.
type Pods interface {
	// Lookup returns what a pod asks for, within ctx.
	Lookup(ctx context.Context, uid string) (request.Pod, error)
	// List asks again which pods there are, by UID. Pods that have ended are not among them.
	List(ctx context.Context) (map[string]request.Pod, error)
	// Gone reports whether a pod is gone by all lists so far. It does not wait.
	Gone(uid string, trace absence.Trace) bool
}

// Cgroups are the kernel's files. A path is as the runtime names it.
type Cgroups interface {
	Read(path string) (converge.Setting, error)
	// SetQuota gives a cgroup a CFS quota, and reports whether it had another one.
	SetQuota(path string, want node.Quota) (bool, error)
}

// Observer learns what happens, for metrics. It must not wait.
type Observer interface {
	// Hook is one request of the runtime.
	Hook(name string, took time.Duration, err error)
	// Asked is how long a hook waited for the source of pods.
	Asked(took time.Duration)
	Connected(bool)
	// Away is how long pods were started without Paddock.
	Away(time.Duration)
	// Repaired is how many containers ran where they should not, and were updated.
	Repaired(containers int)
}

// Config is the plugin's environment.
type Config struct {
	Engine   Engine
	Pods     Pods
	Cgroups  Cgroups
	Observer Observer
	Log      *slog.Logger
	// Operation numbers what is logged with the context it returns; nil: no numbers.
	Operation func(context.Context) context.Context
	// Now and After are time.Now and time.After.
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
	// Dial makes a connection whose requests the handler answers, as stub.New takes it. Nil: Socket.
	Dial func(handler any) (Link, error)
	// Socket, Name and Index are the runtime's socket and the plugin's name there.
	Socket, Name, Index string
	// Timeout bounds the answer to a hook. Half of the runtime's own timeout bounds it too.
	Timeout time.Duration
	// Period is how often everything is compared.
	Period time.Duration
	// Grace is how long a pod that was estimated, and that the source never listed, keeps its CPUs without a
	// sandbox.
	Grace time.Duration
	// Fresh is true if the engine's state never had a grant: CPUs that containers have are not ours then.
	Fresh bool
	// Estimate reports of the error of a Lookup whether the request is read from the numbers of the pod's
	// cgroup instead. Nil: never.
	Estimate func(error) bool
	// TakeOver manages containers that run on CPUs of which the state knows nothing.
	TakeOver bool
	// LastAnswer is when an earlier process answered the runtime last; zero: unknown, or never.
	LastAnswer time.Time
	// Alive is called, at most every few seconds, while the runtime is answered; nil: not at all. It may wait.
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

// Errors that a hook may answer with; a runtime shows their text and the kubelet tries again.
var (
	errEmptyPool = errors.New("it has no CPUs of its own, and the node shared pool is empty: free CPUs, or turn strict-cpu-reservation off")
	errReleased  = errors.New("its pod was released meanwhile; it will be tried again")
	errGone      = errors.New("paddock: the connection was closed")
)

// Plugin is the node's NRI plugin. It is safe for use by several goroutines.
type Plugin struct {
	config Config
	events chan func(*loop)
	ended  chan struct{} // closed when the loop has ended
	begun  time.Time
	status atomic.Pointer[Status]
	jobs   sync.WaitGroup
}

// Status is what readers see of the plugin.
type Status struct {
	// Aside is why this node is not managed: another manager pins containers. Nil: it is managed.
	Aside error
	// Connected is true from Synchronize on until the connection ends.
	Connected bool
	// Unenforced are the UIDs of pods that have CPUs of their own and of which a container is not
	// known to run on them: their CPUs are not to be reported as assigned.
	Unenforced map[string]bool
}

// New is a plugin without connection. Run drives it.
func New(c Config) *Plugin {
	if c.Operation == nil {
		c.Operation = func(ctx context.Context) context.Context { return ctx }
	}
	p := &Plugin{config: c, events: make(chan func(*loop)), ended: make(chan struct{}), begun: c.Now()}
	p.status.Store(&Status{})
	return p
}

// Run keeps the connection to the runtime and everything in order until ctx ends. It returns the
// cause of that. Nothing runs on when it returns.
func (p *Plugin) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.connect(ctx) })
	group.Go(func() error { return newLoop(p).run(ctx) })
	err := group.Wait()
	p.jobs.Wait()
	return err
}

// Status is the present one. It never waits.
func (p *Plugin) Status() *Status { return p.status.Load() }

// Ready returns why the node is not managed now.
func (p *Plugin) Ready() error {
	switch s := p.Status(); {
	case s.Aside != nil:
		return s.Aside
	case !s.Connected:
		return errors.New("no connection to the runtime at " + p.config.Socket + ": pods start without CPUs of their own")
	}
	return nil
}

// Running is a container that the runtime has, with its cgroup and that of its pod as the runtime names them.
type Running struct{ Who, Pod, Container, Path, Parent string }

// Running are the containers that the loop knows, in no order. It does not wait for anything but the loop.
func (p *Plugin) Running() []Running {
	list, _ := ask(context.Background(), p, func(l *loop) []Running { //nolint:forbidigo // The loop answers at once, or has ended.
		list := make([]Running, 0, len(l.table.containers))
		for _, c := range l.table.containers {
			r := Running{Who: l.table.who(c.pod), Pod: c.pod, Container: c.name, Path: c.path}
			if parents := l.table.parents(c.pod); len(parents) > 0 {
				r.Parent = parents[0]
			}
			list = append(list, r)
		}
		return list
	})
	return list
}

// Wake makes the loop compare everything now.
func (p *Plugin) Wake(ctx context.Context) { p.tell(ctx, (*loop).wake) }

// Settle makes a round, and waits until nothing that it began is under way, or ctx ends.
func (p *Plugin) Settle(ctx context.Context) {
	done := make(chan struct{})
	p.tell(ctx, func(l *loop) {
		l.quiet = append(l.quiet, done)
		l.tick()
	})
	select {
	case <-done:
	case <-p.ended:
	case <-ctx.Done():
	}
}

// tell hands an event to the loop. It returns when the loop takes it, or ctx or the loop ends.
func (p *Plugin) tell(ctx context.Context, event func(*loop)) {
	select {
	case p.events <- event:
	case <-p.ended:
	case <-ctx.Done():
	}
}

// ask has the loop answer a question. It returns an error if ctx or the loop ends before the loop
// takes the question, which is then never answered: what the loop believes to have told the
// runtime was told.
func ask[A any](ctx context.Context, p *Plugin, question func(*loop) A) (A, error) {
	var none A
	reply := make(chan A, 1)
	select {
	case p.events <- func(l *loop) { reply <- question(l) }:
		return <-reply, nil
	case <-p.ended:
		return none, errGone
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}
