// Package hollow implements a node without a runtime, for simulations of clusters. It has the
// handover, the engine and the publication of the agent. The caller plays the kubelet and the
// runtime.
//
// The caller lists pods (List, Unlist), starts them (RunPodSandbox) and ends them (End), as a
// kubelet does. The code of the agent decides what a pod gets, what is counted and what is
// published. The state is kept in memory. To simulate a restart of a node, create a new node with
// its grants.
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
	// Name is the name of the Kubernetes node.
	Name      string
	Machine   *machine.Machine
	Policy    node.Policy
	Inventory *device.Inventory
	// Grants and Revision are the grants and the revision of the state before a restart.
	Grants   []*node.Grant
	Revision uint64
	// Client publishes the node's objects. If nil, nothing is published.
	Client *publication.Client
	// Now and After replace the functions of package time.
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
	// Promise is the maximum duration of a promise. If zero, intake.DefaultPromise is used.
	Promise time.Duration
	// Observer is notified of every decision. It may be nil.
	Observer engine.Observer
	Log      *slog.Logger
}

// Node is safe for concurrent use.
type Node struct {
	config    Config
	engine    *engine.Engine
	intake    *intake.Intake
	publisher *publication.Publisher // nil if nothing is published
	listing   atomic.Pointer[handover.Listing]
	unmanaged atomic.Pointer[error]

	mu        sync.Mutex // guards the fields below, and changes of listing
	outcomes  map[handover.Reason]int
	published int
	failed    int
}

// New returns a node. It fails if the machine, the policy or the inventory is invalid.
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

// Run publishes the node's objects until ctx ends.
func (n *Node) Run(ctx context.Context) error {
	if n.publisher == nil {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return n.publisher.Run(ctx)
}

// State returns the state as an agent shows it.
func (n *Node) State() *node.State { return n.engine.State() }

// Outcomes returns how many pods were decided about with each reason.
func (n *Node) Outcomes() map[handover.Reason]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.outcomes)
}

// Published returns how often the node wrote its objects, and how often it failed to.
func (n *Node) Published() (written, failed int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.published, n.failed
}

// List makes the kubelet list a pod in its present form. A pod that has ended is not listed. If the
// pod's specification is invalid, List returns an error and the pod is not listed either.
func (n *Node) List(pod *v1.Pod) error {
	bound, err := fleetsource.ReadBound(pod, n.config.Policy)
	if err != nil || fleetsource.Ended(pod) {
		n.Unlist(fleetsource.UID(pod))
		return err
	}
	n.relist(func(pods map[string]handover.Bound) { pods[bound.Pod.UID] = bound })
	return nil
}

// Unlist removes a pod from the kubelet's list. The pod keeps its assignments until End.
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

// RunPodSandbox decides about a listed pod. text is its annotation and replaces the one in the
// list, because a runtime passes on the annotations that the kubelet had when it created the
// sandbox. The plan has a grant or a rejection.
func (n *Node) RunPodSandbox(ctx context.Context, uid, text string) (*node.Plan, error) {
	b, listed := n.listing.Load().Pods[uid]
	if !listed {
		return nil, fmt.Errorf("node %s, pod %s: %w", n.config.Name, uid, ErrNotListed)
	}
	d := n.engine.AdmitAll(ctx, []engine.Candidate{{Pod: b.Pod, Handed: text}})[0]
	return d.Plan, d.Err
}

// reserve implements engine.Config.Reserve.
func (n *Node) reserve(s *node.State) *node.State {
	return s.WithReservations(n.intake.Reservations(s))
}

// Created records that a container was created.
func (n *Node) Created(uid, container string) {
	n.engine.ContainerCreated(uid, container)
	if n.publisher != nil {
		n.publisher.Changed()
	}
}

// End releases the assignments of a pod whose sandbox is gone.
func (n *Node) End(ctx context.Context, uid string) error { return n.engine.Release(ctx, uid) }

// SetUnmanaged makes the node show that it does not manage its pods, with the reason. If reason is
// nil, the node manages its pods again.
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

// memory is a store that always succeeds and keeps nothing.
type memory struct{}

// Write implements engine.Store.
func (memory) Write([]byte) error { return nil }

// counter implements publication.Observer.
type counter struct{ n *Node }

// Published implements publication.Observer.
func (c counter) Published(_ time.Duration, err error) {
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	if err != nil {
		c.n.failed++
	} else {
		c.n.published++
	}
}

// observers forwards the events of the engine.
type observers struct{ n *Node }

// Decided implements engine.Observer.
func (o observers) Decided(d engine.Decision) {
	for _, to := range o.all() {
		to.Decided(d)
	}
}

// Wrote implements engine.Observer.
func (o observers) Wrote(w engine.Write) {
	for _, to := range o.all() {
		to.Wrote(w)
	}
}

// Released implements engine.Observer.
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
