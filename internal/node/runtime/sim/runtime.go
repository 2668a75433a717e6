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

// These errors occur in normal use. Other errors wrap them.
var (
	// ErrRuns is the error for a pod or a container that runs already.
	ErrRuns = errors.New("it runs already")
	// ErrNotRunning is the error for a pod or a container that does not run.
	ErrNotRunning = errors.New("it does not run")
	// ErrClosed is the error of a runtime that was closed, or whose context ended.
	ErrClosed = errors.New("the simulated runtime is closed")
)

// Config is the runtime's environment. The zero value is usable except for Now and After.
type Config struct {
	// Name, Version and NRIVersion are sent to a plugin in Configure. If Name is empty, they are
	// containerd 2.4.2 with NRI v0.12.3, which accepts unsolicited updates and has no failure
	// policy.
	Name, Version, NRIVersion string
	// RequestTimeout is the time after which an unanswered request closes the connection to the
	// plugin. RegistrationTimeout is the time within which a plugin must register. If zero, they
	// are NRI's defaults, 2 s and 5 s.
	RequestTimeout, RegistrationTimeout time.Duration
	// Required lists names of plugins, "paddock" or "90-paddock", without whose answer no container
	// is created, like the setting required_plugins of containerd's default validator. Sandboxes
	// are created without it.
	Required []string
	// SilentPods makes the runtime not ask plugins about UpdatePodSandbox, like containerd before
	// 2.4. UnknownPods makes it reject a plugin that subscribes to that event, like containerd
	// before 2.2.
	SilentPods, UnknownPods bool
	// ListFailed makes the answer to unsolicited updates a list of those that failed, as in CRI-O.
	// Otherwise the answer is an error without a list, as in containerd.
	ListFailed bool
	// ListsLate makes a plugin synchronise while requests of the kubelet are in progress, like
	// CRI-O, which does not use NRI's BlockPluginSync. A container in creation is not shown then.
	ListsLate bool
	// HangsOnUpdates makes an unsolicited update hang, with the lock, until the connection of the
	// plugin ends, as can happen in NRI before 0.12.1.
	HangsOnUpdates bool
	// SyncChunk limits the sandboxes and the containers in one Synchronize message, so that a
	// plugin gets several messages. If zero, one message has all of them.
	SyncChunk int
	// Now and After are time.Now and time.After.
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
	// Fault returns the fault of each step. Several goroutines may call it. If nil, there are no
	// faults.
	Fault func(Step) Fault
	// Observe receives the events in their order, one at a time. It must not call the runtime. If
	// nil, it is not called.
	Observe func(Event)
}

// Runtime is safe for use by several goroutines.
type Runtime struct {
	config Config
	ctx    context.Context
	cancel context.CancelFunc
	group  sync.WaitGroup

	// gate and lock correspond to containerd's. Every request to plugins and every update of a
	// plugin takes the lock, first come, first served. The lock protects plugins and phases.
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

// phase is the state of a sandbox or a container that plugins know.
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

// Close closes all connections, as when a runtime is stopped, and waits until its goroutines have
// ended. Containers can still be observed.
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

// locked calls do while it has the lock. Like containerd's, it waits for the lock until the runtime
// ends, even if the caller has gone.
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

// sleep waits for the duration d. It returns ErrClosed if the runtime ends first.
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

// id returns a new ID. The caller has locked mu.
func (r *Runtime) id(kind string) string {
	r.lastID++
	return fmt.Sprintf("%s-%d", kind, r.lastID)
}

// emit numbers an event, records it and passes it to the observer. The caller has locked mu.
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
