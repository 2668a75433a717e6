package nri

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/nri/pkg/api"
	"golang.org/x/sync/errgroup"

	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/absence"
	"github.com/paddock-project/paddock/internal/node/engine"
)

// Engine decides and keeps the state; see package engine. No method without a context waits.
type Engine interface {
	Admit(ctx context.Context, pod request.Pod) (*node.Plan, error)
	AdmitAll(ctx context.Context, pods []request.Pod) []engine.Decision
	Preview(pod request.Pod) (plan *node.Plan, asked *node.State)
	Move(ctx context.Context, uid string, f func(*node.State) (*node.State, error)) error
	Resize(ctx context.Context, pod request.Pod) (*node.Plan, error)
	PreviewResize(pod request.Pod) *node.Plan
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

// Handover takes the grants that a scheduler handed over. The engine's planner knows them. No
// method waits.
type Handover interface {
	// Offer notes the text with which the sandbox of a pod comes; empty: none.
	Offer(uid, text string)
	// Outcome is how the last plan for a pod that is not known came about. Contested: the pod's
	// grant needs something that is not free.
	Outcome(uid string) (why handover.Reason, contested bool)
	// Used reports whether any pod came with a grant, or is listed with one.
	Used() bool
}

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
	// Handover takes the grants that pods come with; nil: there are none.
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

// Errors that hooks return. A runtime shows their text, and the kubelet tries again.
var (
	errEmptyPool = errors.New("it has no CPUs of its own, and the node shared pool is empty: free CPUs, or turn strict-cpu-reservation off")
	errReleased  = errors.New("its pod was released in the meantime; the kubelet tries again")
	errGone      = errors.New("paddock: the connection was closed")
)

// Plugin is the node's NRI plugin. It is safe for use by several goroutines.
type Plugin struct {
	config Config
	events chan event
	ended  chan struct{} // closed when the loop has ended
	begun  time.Time
	status atomic.Pointer[Status]
	jobs   sync.WaitGroup
	// glances has room for the one read of cgroups that a request may wait for, writes for the one
	// write of a quota.
	glances, writes chan struct{}
}

// Status is what readers see of the plugin.
type Status struct {
	// Unmanaged is the reason why Paddock does not manage this node: another manager pins
	// containers. Nil: it manages the node.
	Unmanaged error
	// Connected is true from Synchronize on until the connection ends.
	Connected bool
	// Unenforced are the UIDs of pods that have CPUs of their own, if it is not known that all
	// their containers run on them. Such CPUs must not be reported as assigned.
	Unenforced map[string]bool
	// Vetoes are why the last resizes of pods were rejected, by UID.
	Vetoes map[string]string
	// NoVeto is why resizes are not decided before the kubelet carries them out; nil: they are, as
	// far as is known.
	NoVeto error
	// Moving are the moves that are under way, by UID of the pod.
	Moving []Moving
	// Unverified are the running containers that do not have the setting that they should have.
	Unverified []Unverified
}

// New returns a plugin without a connection. Run connects it.
func New(c Config) *Plugin {
	if c.Operation == nil {
		c.Operation = func(ctx context.Context) context.Context { return ctx }
	}
	p := &Plugin{config: c, events: make(chan event), ended: make(chan struct{}), begun: c.Now(), glances: make(chan struct{}, 1), writes: make(chan struct{}, 1)}
	p.status.Store(&Status{})
	return p
}

// Run keeps the connection to the runtime, and answers it, until ctx ends. It returns the cause of
// that. When it returns, all goroutines have ended.
func (p *Plugin) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.connect(ctx) })
	group.Go(func() error { return newLoop(p).run(ctx) })
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

// Running is a container that the runtime has, with its cgroup and that of its pod as the runtime
// names them.
type Running struct{ Who, Pod, Container, Path, Parent string }

// Running are the containers that the loop knows, in no order. It waits for the loop only, for
// Config.Timeout at most; then there are none.
func (p *Plugin) Running() []Running {
	ctx, cancel := context.WithTimeout(context.Background(), p.config.Timeout) //nolint:forbidigo // Its callers have no context.
	defer cancel()
	list, _ := ask(ctx, p, "running", func(l *loop) []Running {
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
func (p *Plugin) Wake(ctx context.Context) { p.tell(ctx, "tick", (*loop).tick) }

// Settle makes a round, and waits until all its jobs have ended, or ctx ends.
func (p *Plugin) Settle(ctx context.Context) {
	done := make(chan struct{})
	p.tell(ctx, "settle", func(l *loop) {
		l.quiet = append(l.quiet, done)
		l.tick()
	})
	select {
	case <-done:
	case <-p.ended:
	case <-ctx.Done():
	}
}

// event is something that the loop handles, with a name for the log and the metrics.
type event struct {
	name string
	do   func(*loop)
}

// tell passes an event to the loop. It returns when the loop takes it, or ctx or the loop ends.
func (p *Plugin) tell(ctx context.Context, name string, do func(*loop)) {
	select {
	case p.events <- event{name, do}:
	case <-p.ended:
	case <-ctx.Done():
	}
}

// surely passes an event to the loop, whatever happens to the caller. It waits until ctx ends at
// most; then the event comes later.
func (p *Plugin) surely(ctx context.Context, name string, do func(*loop)) {
	select {
	case p.events <- event{name, do}:
	case <-p.ended:
	case <-ctx.Done():
		go p.tell(context.WithoutCancel(ctx), name, do)
	}
}

// undeliverable is an answer of the loop that has an effect outside: the loop has to know if it did
// not reach its caller.
type undeliverable interface{ undelivered(l *loop) }

// ask has the loop answer a question, until ctx ends. It returns an error if ctx or the loop ends
// before the answer is there. A question whose caller has given up is not answered. If the caller
// gives up while the loop answers, the loop gets the answer back: see undeliverable.
func ask[A any](ctx context.Context, p *Plugin, name string, question func(*loop) A) (A, error) {
	var none A
	reply := make(chan A, 1)
	answer := event{name, func(l *loop) {
		if ctx.Err() == nil {
			reply <- question(l)
		}
	}}
	select {
	case p.events <- answer:
	case <-p.ended:
		return none, errGone
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
	select {
	case a := <-reply:
		return a, nil
	case <-ctx.Done():
	}
	// The loop handles events in their order: when it takes this one, it has given the answer, or
	// will not give one.
	go func() {
		p.tell(context.WithoutCancel(ctx), name, func(l *loop) {
			select {
			case a := <-reply:
				if u, has := any(a).(undeliverable); has {
					u.undelivered(l)
				}
			default:
			}
		})
	}()
	return none, fmt.Errorf("the agent is too busy to answer in time: %w", context.Cause(ctx))
}
