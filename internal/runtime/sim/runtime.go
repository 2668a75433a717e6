package sim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"
)

// The errors that a caller may meet without having done wrong; others wrap them.
var (
	// ErrRuns is of a pod or a container that runs already.
	ErrRuns = errors.New("it runs already")
	// ErrNotRunning is of a pod or a container that does not run.
	ErrNotRunning = errors.New("it does not run")
	// ErrClosed is of a runtime that was closed, or whose context ended.
	ErrClosed = errors.New("the simulated runtime is closed")
)

// Config is the runtime's world. The zero value is usable but for Now and After.
type Config struct {
	// Name, Version and NRIVersion are what a plugin is told in Configure. Default: containerd 2.4.2 with NRI
	// v0.12.3, which takes updates that it did not ask for and knows no failure policy.
	Name, Version, NRIVersion string
	// RequestTimeout is after how long an unanswered request closes the connection to the plugin, and
	// RegistrationTimeout how long a plugin may take to register. Default: NRI's, 2 s and 5 s.
	RequestTimeout, RegistrationTimeout time.Duration
	// Required are names of plugins, "paddock" or "90-paddock", without whose answer no container is created: the
	// setting required_plugins of containerd's default validator. Sandboxes are created without it.
	Required []string
	// ListFailed answers updates that the plugin sent by itself, and of which some failed, with the list of those,
	// as CRI-O does. Otherwise the answer is an error without a list, as containerd's is.
	ListFailed bool
	// SyncChunk bounds the sandboxes and containers of one Synchronize message, so that a plugin gets them in
	// several; 0: all in one.
	SyncChunk int
	// Now and After are time.Now and time.After.
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
	// Fault decides at every step what goes wrong there. Several goroutines may call it. Nil: nothing does.
	Fault func(Step) Fault
	// Observe gets every event, in their order and one at a time; it must not call the runtime. Nil: nobody does.
	Observe func(Event)
}

// Runtime is safe for use by several goroutines.
type Runtime struct {
	config Config
	ctx    context.Context
	cancel context.CancelFunc
	group  sync.WaitGroup

	// gate and lock are containerd's: lock is taken by every request to plugins and every update that a plugin
	// sends, first come, first served. plugins and phases belong to it.
	gate    *gate
	lock    chan struct{}
	plugins []*peer
	phases  map[string]phase

	mu         sync.Mutex // never held while anybody is asked
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

// phase is how far a sandbox or a container is for plugins.
type phase int

const (
	removed phase = iota // or never there
	made
	running
	stopped
)

// New is a runtime without pods. It ends with ctx, or when it is closed.
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
		config: c, gate: newGate(), lock: make(chan struct{}, 1), phases: map[string]phase{}, peers: map[*peer]bool{},
		first: make(chan struct{}), sandboxes: map[string]*sandbox{}, containers: map[string]*container{},
		parents: map[string]*Resources{}, faults: map[key]*faults{}, records: newRecords(), parse: interned(),
	}
	r.ctx, r.cancel = context.WithCancel(ctx)
	return r
}

// Close closes all connections, as a runtime does that is stopped, and waits until nothing runs any more. What
// ran stays observable.
func (r *Runtime) Close() {
	r.cancel()
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.Disconnect()
	r.group.Wait()
}

// Disconnect closes the connections of all plugins, as if the runtime had been restarted. Pods run on.
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

// Await waits until a plugin was synchronised for the first time. The error is the cause of ctx, or ErrClosed.
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

// acquire takes the lock, release gives it back. It waits for as long as the runtime lives: like containerd's, it
// does not know who still waits for an answer.
func (r *Runtime) acquire() error {
	select {
	case r.lock <- struct{}{}:
	case <-r.ctx.Done():
		return ErrClosed
	}
	if r.ctx.Err() != nil {
		r.release()
		return ErrClosed
	}
	return nil
}

func (r *Runtime) release() { <-r.lock }

// locked does something under the lock.
func (r *Runtime) locked(do func() error) error {
	if err := r.acquire(); err != nil {
		return err
	}
	defer r.release()
	return do()
}

// sleep waits that long. The error is of a runtime that is closed.
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

// id is a new one. mu held.
func (r *Runtime) id(kind string) string {
	r.lastID++
	return fmt.Sprintf("%s-%d", kind, r.lastID)
}

// emit numbers an event, keeps it and shows it. mu held.
func (r *Runtime) emit(e Event) {
	r.records.number(&e)
	r.records.add(e)
	if r.config.Observe != nil {
		r.config.Observe(e)
	}
}
