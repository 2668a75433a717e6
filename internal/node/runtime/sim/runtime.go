package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"
)

// Errors that occur in normal use; other errors wrap them.
var (
	// ErrRuns is for a pod or a container that runs already.
	ErrRuns = errors.New("it runs already")
	// ErrNotRunning is for a pod or a container that does not run.
	ErrNotRunning = errors.New("it does not run")
	// ErrClosed is for a runtime that was closed, or whose context ended.
	ErrClosed = errors.New("the simulated runtime is closed")
)

// Config is the runtime's environment. The zero value is usable except for Now and After.
type Config struct {
	// Name, Version and NRIVersion are sent to a plugin in Configure. Default: containerd 2.4.2
	// with NRI v0.12.3, which takes unsolicited updates and has no failure policy.
	Name, Version, NRIVersion string
	// RequestTimeout is the time after which an unanswered request closes the connection to the
	// plugin, and RegistrationTimeout how long a plugin may take to register. Default: NRI's, 2 s
	// and 5 s.
	RequestTimeout, RegistrationTimeout time.Duration
	// Required are names of plugins, "paddock" or "90-paddock", without whose answer no container
	// is created: the setting required_plugins of containerd's default validator. Sandboxes are
	// created without it.
	Required []string
	// SilentPods does not ask plugins about UpdatePodSandbox, as containerd before 2.4.
	SilentPods bool
	// ListFailed answers unsolicited updates with the list of those that failed, as CRI-O does.
	// Otherwise the answer is an error without a list, as containerd's is.
	ListFailed bool
	// ListsLate lets a plugin synchronise while requests of the kubelet are under way, as CRI-O
	// does, which does not use NRI's BlockPluginSync. A container in creation is not shown then.
	ListsLate bool
	// HangsOnUpdates keeps an unsolicited update, and the lock, until the connection of the plugin
	// ends, as NRI before 0.12.1 can.
	HangsOnUpdates bool
	// SyncChunk limits the sandboxes and containers of one Synchronize message, so that a plugin
	// gets several messages; 0: one message has all.
	SyncChunk int
	// Now and After are time.Now and time.After.
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
	// Fault returns the fault of each step. Several goroutines may call it. Nil: there are no
	// faults.
	Fault func(Step) Fault
	// Observe gets the events in their order, one at a time; it must not call the runtime. Nil: not
	// called.
	Observe func(Event)
}

// Runtime is safe for use by several goroutines.
type Runtime struct {
	config Config
	ctx    context.Context
	cancel context.CancelFunc
	group  sync.WaitGroup

	// gate and lock are containerd's. Every request to plugins and every update of a plugin takes
	// the lock, first come, first served. The lock protects plugins and phases.
	gate    *gate
	lock    chan struct{}
	plugins []*peer
	phases  map[string]phase

	mu         sync.Mutex // never locked during a request to a plugin
	closed     bool
	peers      map[*peer]bool
	first      chan struct{} // closed once a plugin is synchronised
	ready      bool          // first is closed
	sandboxes  map[string]*sandbox
	containers map[string]*container
	parents    map[string]*Resources // the pods' cgroups, by path
	faults     map[key]*faults
	records    records
	parse      parser
	lastID     uint64
}

// phase is what plugins know of a sandbox or a container.
type phase int

const (
	removed phase = iota // or never there
	made
	running
	stopped
)

// New returns a runtime without pods. It ends with ctx, or when it is closed.
func New(ctx context.Context, c Config) *Runtime {
	if c.Name == "" {
		c.Name, c.Version, c.NRIVersion = "containerd", "2.4.2", "v0.12.3"
	}
	if c.RequestTimeout == 0 {
		c.RequestTimeout = api.DefaultPluginRequestTimeout
	}
	if c.RegistrationTimeout == 0 {
		c.RegistrationTimeout = api.DefaultPluginRegistrationTimeout
	}
	r := &Runtime{
		config: c, gate: &gate{}, lock: make(chan struct{}, 1), phases: map[string]phase{}, peers: map[*peer]bool{},
		first: make(chan struct{}), sandboxes: map[string]*sandbox{}, containers: map[string]*container{},
		parents: map[string]*Resources{}, faults: map[key]*faults{}, parse: interned(),
		records: records{pods: map[string]map[string][]Event{}, open: map[string]int{}},
	}
	r.gate.changed = sync.NewCond(&r.gate.mu)
	r.ctx, r.cancel = context.WithCancel(ctx)
	return r
}

// Close closes all connections, as a runtime does that is stopped, and waits until its goroutines
// have ended. Containers can still be observed.
func (r *Runtime) Close() {
	r.cancel()
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.Disconnect()
	r.group.Wait()
}

// Disconnect closes the connections of all plugins, as if the runtime had been restarted. Pods keep
// running.
func (r *Runtime) Disconnect() {
	r.mu.Lock()
	var all []*peer
	for p := range r.peers {
		all = append(all, p)
	}
	r.mu.Unlock()
	for _, p := range all {
		p.close()
	}
}

// Await waits until a plugin was synchronised for the first time. The error is the cause of ctx, or
// ErrClosed.
func (r *Runtime) Await(ctx context.Context) error {
	select {
	case <-r.first:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-r.ctx.Done():
		return ErrClosed
	}
}

// locked calls do under the lock. Like containerd's, it waits for the lock until the runtime ends,
// even if the caller has gone.
func (r *Runtime) locked(do func() error) error {
	select {
	case r.lock <- struct{}{}:
	case <-r.ctx.Done():
		return ErrClosed
	}
	defer func() { <-r.lock }()
	if r.ctx.Err() != nil {
		return ErrClosed
	}
	return do()
}

// sleep waits that long. It returns an error if the runtime is closed.
func (r *Runtime) sleep(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	select {
	case <-r.config.After(d):
		return nil
	case <-r.ctx.Done():
		return ErrClosed
	}
}

// id returns a new id. The caller has locked mu.
func (r *Runtime) id(kind string) string {
	r.lastID++
	return fmt.Sprintf("%s-%d", kind, r.lastID)
}

// emit numbers an event, keeps it and passes it to the observer. The caller has locked mu.
func (r *Runtime) emit(e Event) {
	r.records.last++
	e.Sequence = r.records.last
	if pod := r.records.pods[e.Pod]; e.Kind >= Created && pod != nil {
		pod[e.Container] = append(pod[e.Container], e)
		if more := len(pod[e.Container]) - MaxEvents; more > 0 {
			pod[e.Container] = slices.Delete(pod[e.Container], 0, more)
		}
	}
	if r.config.Observe != nil {
		r.config.Observe(e)
	}
}
