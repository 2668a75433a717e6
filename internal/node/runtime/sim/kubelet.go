package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/absence"
)

// ErrUnknownPod is wrapped by Lookup's error for a pod that should not run.
var ErrUnknownPod = errors.New("the kubelet does not list the pod")

// KubeletConfig is the kubelet's environment.
type KubeletConfig struct {
	// Log receives a line for every pod that does not start, once for every reason.
	Log *slog.Logger
	// Operation returns a context with a number for the log. If nil, there are no numbers.
	Operation func(context.Context) context.Context
	// First and Longest are the first and the longest wait before a pod that did not start is tried
	// again. The wait doubles each time. If First is zero, they are DefaultFirst and
	// DefaultLongest. When a pod ends, the next wait is First again, because there may be room.
	First, Longest time.Duration
}

// These are the default waits. A real kubelet waits longer, but here a person may be watching.
const (
	DefaultFirst   = 100 * time.Millisecond
	DefaultLongest = 4 * time.Second
	// parallel limits the number of pods that have containers created or stopped at a time.
	// Sandboxes are created one after the other, so pods are admitted in their order.
	parallel = 4
)

// Kubelet makes a runtime run the pods that should run, as a kubelet does: a sandbox, then the
// containers in their order. An init container ends before the next container is created. A running
// pod is resized in place if it should have other numbers. It is safe for use by several
// goroutines.
type Kubelet struct {
	runtime *Runtime
	config  KubeletConfig
	wake    chan struct{}

	mu      sync.Mutex
	known   bool          // the pods that should run are known
	first   chan struct{} // closed when known becomes true
	partial error         // the reason why List has no answer
	order   []*pod        // the pods that should run
	pods    map[string]*pod
}

// pod is a pod that runs or should run.
type pod struct {
	request.Pod
	wanted bool
	// filling is true while the loop creates its containers.
	filling bool
	// A goroutine must take busy before it changes the fields below.
	busy    chan struct{}
	sandbox string            // the runtime's ID; empty if there is none
	ids     map[string]string // the containers that were created, by name
	done    map[string]bool   // init containers that have ended
	// actuated has the numbers of the containers' cgroups, by name.
	actuated map[string]Resources
	settled  bool // all containers run
	// outdated is true from a change of the request until the containers have its numbers.
	outdated bool
	err      error // why the pod does not run
	wait     time.Duration
	due      time.Time
}

// Status is the state of a pod.
type Status struct {
	Pod request.Pod
	// Running is true if all containers run, and the init containers have ended.
	Running bool
	// Ending is true if the pod should not run any more.
	Ending bool
	// Err is the reason why the pod does not run, as the pod's events would show it. It is nil if
	// the pod runs or was not tried yet.
	Err error
}

// NewKubelet returns a kubelet without pods. List waits for the first Follow.
func (r *Runtime) NewKubelet(c KubeletConfig) *Kubelet {
	if c.First == 0 {
		c.First, c.Longest = DefaultFirst, DefaultLongest
	}
	if c.Operation == nil {
		c.Operation = func(ctx context.Context) context.Context { return ctx }
	}
	return &Kubelet{runtime: r, config: c, wake: make(chan struct{}, 1), first: make(chan struct{}), pods: map[string]*pod{}}
}

// Follow sets the pods that should run from now on, in their order. Other pods end. partial is the
// reason why pods may be missing. If it is not nil, no pod ends, and List returns partial as its
// error.
func (k *Kubelet) Follow(pods []request.Pod, partial error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := k.order
	k.order, k.partial = nil, partial
	wanted := map[string]bool{}
	for _, asked := range pods {
		p := k.pods[asked.UID]
		if p == nil {
			p = &pod{busy: make(chan struct{}, 1), ids: map[string]string{}, done: map[string]bool{}, actuated: map[string]Resources{}}
			k.pods[asked.UID] = p
		}
		p.outdated = p.outdated || !p.Equal(asked)
		p.Pod, p.wanted, p.due = asked, true, time.Time{}
		wanted[asked.UID] = true
		k.order = append(k.order, p)
	}
	for _, p := range before {
		if wanted[p.UID] {
			continue
		}
		if partial != nil {
			k.order = append(k.order, p)
			continue
		}
		p.wanted = false
	}
	if !k.known {
		k.known = true
		close(k.first)
	}
	k.again()
}

// again wakes the loop.
func (k *Kubelet) again() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// Status returns the state of every pod, in their order. Pods that end come last.
func (k *Kubelet) Status() []Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []Status
	for _, p := range k.order {
		all = append(all, Status{Pod: p.Pod, Running: p.settled, Err: p.err})
	}
	for _, uid := range slices.Sorted(maps.Keys(k.pods)) {
		if p := k.pods[uid]; !p.wanted {
			all = append(all, Status{Pod: p.Pod, Ending: true, Err: p.err})
		}
	}
	return all
}

// Lookup returns the request of a pod. The error wraps ErrUnknownPod.
func (k *Kubelet) Lookup(ctx context.Context, uid string) (request.Pod, error) {
	pods, err := k.list(ctx, uid)
	if err != nil {
		return request.Pod{}, err
	}
	pod, there := pods[uid]
	if !there {
		return request.Pod{}, fmt.Errorf("pod with uid %s: %w", uid, ErrUnknownPod)
	}
	return pod, nil
}

// List returns the pods that should run, by UID. It waits for the first Follow.
func (k *Kubelet) List(ctx context.Context) (map[string]request.Pod, error) { return k.list(ctx, "") }

// Latest returns a pod that should run. This kubelet applies every resize, so pending is empty.
func (k *Kubelet) Latest(uid string) (pod request.Pod, pending string, known bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.order {
		if p.UID == uid {
			return p.Pod, "", true
		}
	}
	return request.Pod{}, "", false
}

// Gone reports whether a pod is gone. The simulated kubelet never restarts, so it always knows
// unless pods may be missing.
func (k *Kubelet) Gone(uid string, _ absence.Trace) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.partial == nil && !slices.ContainsFunc(k.order, func(p *pod) bool { return p.UID == uid })
}

// list implements List and, with a UID, Lookup. Lookup also gets pods if the list is partial.
func (k *Kubelet) list(ctx context.Context, uid string) (map[string]request.Pod, error) {
	f := k.runtime.fault(Step{Point: Listing, Pod: uid})
	if f.Delay > 0 {
		select {
		case <-k.runtime.config.After(f.Delay):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if f.Err != nil {
		return nil, f.Err
	}
	select {
	case <-k.first:
	case <-ctx.Done():
		return nil, fmt.Errorf("no manifests were read yet: %w", context.Cause(ctx))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.partial != nil && uid == "" {
		return nil, k.partial
	}
	pods := map[string]request.Pod{}
	for _, p := range k.order {
		if !f.Lose && (uid == "" || p.UID == uid) {
			pods[p.UID] = p.Pod
		}
	}
	return pods, nil
}
