package nri

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Engine decides and remembers; see package engine.
type Engine interface {
	Admit(ctx context.Context, pod request.Pod) (*node.Plan, error)
	Release(ctx context.Context, uid string) error
	ContainerCreated(uid, name string)
	State() *node.State
	Tick(ctx context.Context) error
}

// Pods is where it is known what pods ask for.
type Pods interface {
	// Lookup returns what a pod asks for, within ctx.
	Lookup(ctx context.Context, uid string) (request.Pod, error)
	// List asks anew which pods there are, by UID. Pods that have ended are not among them.
	List(ctx context.Context) (map[string]request.Pod, error)
}

// Cgroups are the kernel's files. A path is in the runtime's words.
type Cgroups interface {
	Read(path string) (converge.Setting, error)
	// LiftQuota takes a CFS quota away, and tells whether there was one.
	LiftQuota(path string) (bool, error)
}

// Observer is told what happens, for metrics. It must not wait.
type Observer interface {
	// Hook is one question of the runtime's.
	Hook(name string, took time.Duration, err error)
	// Asked is how long somebody waited for the source of pods to tell of one.
	Asked(took time.Duration)
	Connected(bool)
	// Away is for how long pods were started without us.
	Away(time.Duration)
	// Repaired is how many containers were found running where they should not, and updated.
	Repaired(containers int)
}

// Config is the plugin's world.
type Config struct {
	Engine   Engine
	Pods     Pods
	Cgroups  Cgroups
	Observer Observer
	Log      *slog.Logger
	// Operation gives what is logged with the context its number; nil: none.
	Operation func(context.Context) context.Context
	// Now and After are time.Now and time.After.
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
	// Dial makes a connection for the plugin, which Run of it uses. Nil: Socket.
	Dial func(*Plugin) (Link, error)
	// Socket, Name and Index are the runtime's socket and what the plugin is called there.
	Socket, Name, Index string
	// Timeout bounds the answer to a hook: it must be below the runtime's, which cuts us off.
	Timeout time.Duration
	// Period is how often everything is compared.
	Period time.Duration
	// Grace is how long a pod whose source cannot tell of it keeps what it holds without a sandbox.
	Grace time.Duration
	// Fresh tells that the engine's state never held anything: then CPUs that containers have are not of ours.
	Fresh bool
	// Estimate tells of the error of a Lookup whether what the pod asks for is read from the numbers of its
	// cgroup instead. Nil: never.
	Estimate func(error) bool
	// TakeOver manages containers that run on CPUs of which nothing is known here.
	TakeOver bool
}

// Link is one connection to a runtime; the stub of NRI has these methods.
type Link interface {
	// Run connects and serves until the connection or ctx ends.
	Run(ctx context.Context) error
	UpdateContainers([]*api.ContainerUpdate) ([]*api.ContainerUpdate, error)
	RuntimeNRIVersion() string
}

// Errors that a hook may answer with; a runtime shows their text and the kubelet tries again.
var (
	errEmptyPool = errors.New("it has no CPUs of its own, and the node's shared pool is empty: free CPUs, or lift strict-cpu-reservation")
	errBusy      = errors.New("an update of other containers is still under way; it will be tried again")
)

// Plugin is the node's NRI plugin. It is safe for use by several goroutines.
type Plugin struct {
	config Config
	kick   chan struct{}

	mu    sync.Mutex // never held while anybody is asked but the engine
	table *table
	// refused remembers by UID which request was refused, when.
	refused map[string]refused
	// resized are pods whose request changed; told are those whose request was estimated and of which it was
	// said, once they were listed, what they would get.
	resized, told map[string]bool
	link          *linked
	// lost is when the connection ended, or the start.
	lost time.Time
	// replied is when a reply was given last that says where containers run.
	replied time.Time
	// aside says why this node is not managed; fresh is Config.Fresh until the first Synchronize.
	aside error
	fresh bool
}

type refused struct {
	pod        request.Pod
	generation uint64
	err        error
}

// linked is a connection with what is known of its runtime.
type linked struct {
	Link
	// synchronised tells that the table is what the runtime has.
	synchronised bool
	mayUpdate    bool
	// flight is the update that is under way; nil: none.
	flight *flight
}

// flight is an update that nobody asked for.
type flight struct {
	generation uint64 // of the state that it was computed of
	done       chan struct{}
}

// New is a plugin without connection.
func New(c Config) *Plugin {
	if c.Operation == nil {
		c.Operation = func(ctx context.Context) context.Context { return ctx }
	}
	p := &Plugin{config: c, kick: make(chan struct{}, 1), refused: map[string]refused{}, resized: map[string]bool{}, told: map[string]bool{}, fresh: c.Fresh}
	p.lost = c.Now()
	p.table = newTable(p.lost)
	return p
}

// Ready says why the node is not managed now.
func (p *Plugin) Ready() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.aside != nil:
		return p.aside
	case p.link == nil || !p.link.synchronised:
		return fmt.Errorf("no connection to the runtime at %s: pods start without CPUs of their own", p.config.Socket)
	}
	return nil
}

// standAside ends the management of this node for the life of the process.
func (p *Plugin) standAside(ctx context.Context, pod, container string, s converge.Setting) {
	p.mu.Lock()
	first := p.aside == nil
	if first {
		p.aside = fmt.Errorf("container %s of pod %s comes with cpuset.cpus %q and cpuset.mems %q: the kubelet's own managers, or another NRI plugin, manage this node, "+
			"and two managers would fight. Set cpuManagerPolicy: none and memoryManagerPolicy: None in the kubelet's configuration, remove its cpu_manager_state and "+
			"memory_manager_state, restart the kubelet, then this agent", container, pod, s.CPUs, memsText(s.Mems))
	}
	err := p.aside
	p.mu.Unlock()
	if first {
		p.config.Log.ErrorContext(ctx, "this node is not managed", "error", err)
	}
}

func (p *Plugin) isAside() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.aside != nil
}

// again asks the reconcile loop to look soon.
func (p *Plugin) again() {
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// answer bounds a hook and tells of it when it is done.
func (p *Plugin) answer(ctx context.Context, hook string) (context.Context, func(*error)) {
	begin := p.config.Now()
	ctx, cancel := context.WithTimeout(p.config.Operation(ctx), p.config.Timeout)
	return ctx, func(err *error) {
		cancel()
		p.config.Observer.Hook(hook, p.config.Now().Sub(begin), *err)
	}
}

// carry notes that a reply carries updates, those of an operation. Lock held.
func (p *Plugin) carry(operation string, updates []converge.Update) {
	now := p.config.Now()
	if len(updates) > 0 {
		p.replied = now
	}
	p.table.expect(operation, updates, now)
}

// say tells of containers that have nowhere to go.
func (p *Plugin) say(ctx context.Context, stranded []converge.Observed) {
	for _, o := range stranded {
		p.config.Log.ErrorContext(ctx, "the node's shared pool is empty: a container stays where it is", "uid", o.Pod, "container", o.Container, "cpus", o.CPUs.String())
	}
}
