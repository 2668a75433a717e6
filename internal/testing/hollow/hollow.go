// Package hollow is a node without a runtime, for simulations of clusters: the agent's own
// handover, engine and publication, with a kubelet and a runtime that the caller plays.
//
// The caller lists pods (List, Unlist), starts them (RunPodSandbox) and ends them (End), as a
// kubelet does. What a pod gets, what is counted and what is published is decided by the code that
// an agent runs. The state is kept in memory: a node that is made with the grants of another one is
// that node after a restart.
package hollow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/cluster/fleetsource"
	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/node/engine"
	"github.com/paddock-project/paddock/internal/node/intake"
	"github.com/paddock-project/paddock/internal/node/publication"
)

// Config is the environment of a node.
type Config struct {
	// Name is that of the Kubernetes node.
	Name      string
	Machine   *machine.Machine
	Policy    node.Policy
	Inventory *device.Inventory
	// Grants and Revision are those of the state before a restart.
	Grants   []*node.Grant
	Revision uint64
	// Client is where the node publishes; nil: nowhere.
	Client *publication.Client
	// Now and After are those of package time.
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
	// Promise is how long a promise lasts at most; 0: intake.DefaultPromise.
	Promise time.Duration
	// Observer learns of every decision; nil: none.
	Observer engine.Observer
	Log      *slog.Logger
}

// Node is safe for use by several goroutines.
type Node struct {
	config    Config
	engine    *engine.Engine
	intake    *intake.Intake
	publisher *publication.Publisher // nil: nothing is published
	listing   atomic.Pointer[handover.Listing]
	unmanaged atomic.Pointer[error]

	mu        sync.Mutex // guards the fields below, and changes of listing
	outcomes  map[handover.Reason]int
	published int
	failed    int
}

// New makes a node. The error is about the machine, the policy and the inventory.
func New(c Config) (*Node, error) {
	state, _, err := node.Adopt(c.Machine, c.Policy, c.Inventory, c.Grants)
	if err != nil {
		return nil, err
	}
	n := &Node{config: c, outcomes: map[handover.Reason]int{}}
	n.listing.Store(&handover.Listing{Pods: map[string]handover.Bound{}, Asked: c.Now()})
	n.intake = intake.New(intake.Config{
		Node: c.Name, Listing: n.listing.Load, Now: c.Now, Promise: c.Promise, Count: n.count, Log: c.Log,
	})
	if c.Client != nil {
		n.publisher = publication.New(publication.Config{
			Node: c.Name, Client: c.Client, View: n.view, Now: c.Now, After: c.After, Observer: counter{n}, Log: c.Log,
		})
	}
	n.engine = engine.New(state.Resume(c.Revision), engine.Config{
		Store: memory{}, Encode: func(*node.State) ([]byte, error) { return nil, nil },
		Plan: n.intake.Plan, Reserve: n.reserve, Now: c.Now, Observer: observers{n}, Log: c.Log,
	})
	return n, nil
}

// Run publishes until ctx ends.
func (n *Node) Run(ctx context.Context) error {
	if n.publisher == nil {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return n.publisher.Run(ctx)
}

// State is the state as an agent shows it.
func (n *Node) State() *node.State { return n.engine.State() }

// Outcomes is how the pods that were decided about came by what they have.
func (n *Node) Outcomes() map[handover.Reason]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.outcomes)
}

// Published is how often the node wrote its objects, and how often it failed to.
func (n *Node) Published() (written, failed int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.published, n.failed
}

// List makes the kubelet list a pod, as it is now. A pod that has ended is not listed. The error is
// about the pod's specification: then it is not listed either.
func (n *Node) List(pod *v1.Pod) error {
	bound, err := fleetsource.ReadBound(pod, n.config.Policy)
	if err != nil || fleetsource.Ended(pod) {
		n.Unlist(fleetsource.UID(pod))
		return err
	}
	n.relist(func(pods map[string]handover.Bound) { pods[bound.Pod.UID] = bound })
	return nil
}

// Unlist makes the kubelet not list a pod any more. It keeps what it has until End.
func (n *Node) Unlist(uid string) {
	n.relist(func(pods map[string]handover.Bound) { delete(pods, uid) })
}

func (n *Node) relist(change func(map[string]handover.Bound)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	next := &handover.Listing{Pods: maps.Clone(n.listing.Load().Pods), Asked: n.config.Now()}
	change(next.Pods)
	n.listing.Store(next)
	if n.publisher != nil {
		n.publisher.Changed()
	}
}

// ErrNotListed is returned for a pod that the kubelet does not list.
var ErrNotListed = errors.New("the kubelet does not list the pod")

// RunPodSandbox decides about a listed pod, with the annotation that it comes with: text in place
// of what the list has, as a runtime passes on what the kubelet had when it made the sandbox. The
// plan has a grant or a rejection.
func (n *Node) RunPodSandbox(ctx context.Context, uid, text string) (*node.Plan, error) {
	b, listed := n.listing.Load().Pods[uid]
	if !listed {
		return nil, fmt.Errorf("node %s, pod %s: %w", n.config.Name, uid, ErrNotListed)
	}
	d := n.engine.AdmitAll(ctx, []engine.Candidate{{Pod: b.Pod, Handed: text}})[0]
	return d.Plan, d.Err
}

// reserve is engine.Config.Reserve.
func (n *Node) reserve(s *node.State) *node.State {
	return s.WithReservations(n.intake.Reservations(s))
}

// Created notes that a container was created.
func (n *Node) Created(uid, container string) {
	n.engine.ContainerCreated(uid, container)
	if n.publisher != nil {
		n.publisher.Changed()
	}
}

// End releases what a pod has: its sandbox is gone.
func (n *Node) End(ctx context.Context, uid string) error { return n.engine.Release(ctx, uid) }

// SetUnmanaged makes the node show that it does not manage its pods, for a reason; nil: it does.
func (n *Node) SetUnmanaged(reason error) {
	n.unmanaged.Store(&reason)
	if n.publisher != nil {
		n.publisher.Changed()
	}
}

func (n *Node) view() publication.View {
	v := publication.View{State: n.engine.State(), Listing: n.listing.Load()}
	if reason := n.unmanaged.Load(); reason != nil {
		v.Unmanaged = *reason
	}
	return v
}

func (n *Node) count(r handover.Reason) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.outcomes[r]++
}

// memory is a disk that is always there.
type memory struct{}

// Write is engine.Store's.
func (memory) Write([]byte) error { return nil }

// counter is publication.Observer.
type counter struct{ n *Node }

// Published is publication.Observer's.
func (c counter) Published(_ time.Duration, err error) {
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	if err != nil {
		c.n.failed++
	} else {
		c.n.published++
	}
}

// observers passes on what the engine does.
type observers struct{ n *Node }

// Decided is engine.Observer's.
func (o observers) Decided(d engine.Decision) {
	for _, to := range o.all() {
		to.Decided(d)
	}
}

// Wrote is engine.Observer's.
func (o observers) Wrote(w engine.Write) {
	for _, to := range o.all() {
		to.Wrote(w)
	}
}

// Released is engine.Observer's.
func (o observers) Released(uid string) {
	for _, to := range o.all() {
		to.Released(uid)
	}
}

func (o observers) all() []engine.Observer {
	all := []engine.Observer{o.n.intake}
	if o.n.publisher != nil {
		all = append(all, o.n.publisher)
	}
	if o.n.config.Observer != nil {
		all = append(all, o.n.config.Observer)
	}
	return all
}
