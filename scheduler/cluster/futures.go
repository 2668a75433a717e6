package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/bits"
	"slices"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/cluster/fleet/memo"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/core/shown"
)

const (
	// maxUndecided is the number of pods up to which every order is planned in which a kubelet can
	// decide about them. With more of them, the node takes no other pod until it has decided.
	maxUndecided = 3
	// maxFutures is how many orders of decisions and ends are planned. With more of them, the node
	// takes no other pod until its files show more.
	maxFutures = 64
	// maxSteps is how many decisions are planned for one reservation.
	maxSteps = 512
)

// Undecided is the reason why a pod is not reserved on a node whose kubelet has not decided about
// others: there is an order of its decisions in which one of them would be rejected.
type Undecided struct{ err error }

func (u *Undecided) Error() string { return u.err.Error() }

func (u *Undecided) Unwrap() error { return u.err }

// manyUndecided is the problem of a node whose kubelet has too many pods to decide about.
const manyUndecided = "its kubelet has not decided about the pods that are bound to it yet"

// futures makes what a node can be whose kubelet has not decided about all pods: it can decide in
// any order, between the ends of pods that its files still have, and before or after the init
// containers of a pod have given back their memory (R-MEM-63).
type futures struct {
	member *member
	count  int
	found  []*memo.Node // without equal ones
}

// undecided is a pod about which the kubelet has not decided.
type undecided struct {
	pod   fleet.Pod
	since uint64
}

// gone is something of a published grant that the kubelet releases: a pod that is not bound any
// more, or is deleted, or the memory of its init containers. When the kubelet decides about a pod
// that was reserved after the object was gone, it has released what that pod had: an object is
// removed after the containers have ended. Only a pod that was deleted by force can still run.
type gone struct {
	uid  string
	left uint64 // math.MaxUint64 means that it can be released at any time
	// inits is the last container of a pod of which only the memory of the init containers is
	// released. If empty, the whole pod is.
	inits string
}

// order plans what the kubelet of the node can make of the pods about which it has not decided, and
// shows the nodes that differ in what is free.
func (m *member) order() {
	at := m.at.Load()
	if m.base == nil || at.View == nil || at.Unsure != "" {
		return
	}
	waiting, ended := m.undecided(), m.gone()
	f := futures{member: m, found: []*memo.Node{at.View}}
	next := &At{View: at.View, Problem: at.Problem, Unsure: at.Unsure, Gates: at.Gates}
	if len(waiting) > maxUndecided || !f.decide(m.base, waiting, nil) || len(ended) > 0 && !f.decide(m.base, waiting, ended) {
		next.Problem = cmp.Or(next.Problem, manyUndecided)
	} else {
		for _, view := range f.found[1:] {
			next.Others = append(next.Others, view.With(m.allocatable, m.used))
		}
	}
	if len(next.Others) > 0 || len(at.Others) > 0 || next.Problem != at.Problem {
		m.set(next)
	}
}

// decide decides about the pods that wait in every order, and releases what ended pods had at every
// time at which they can have ended. It reports false if there are too many futures.
func (f *futures) decide(view *memo.Node, waiting []undecided, ended []gone) bool {
	if len(waiting) == 0 {
		f.add(f.release(view, ended))
		f.count++
		return f.count <= maxFutures
	}
	for i, next := range waiting {
		rest := slices.Delete(slices.Clone(waiting), i, i+1)
		for released, left := range splits(next, ended) {
			after, _ := place(f.release(view, released), next.pod)
			for after := range f.started(after, after, next.pod) {
				if !f.decide(after, rest, left) {
					return false
				}
			}
		}
	}
	return true
}

// splits yields the sets of pods that can have ended when the kubelet decides about a pod, each with
// the other ones. If there are more than maxFutures sets, it yields only the first, which are one too
// many for a view. A reservation is planned with these: many pods can be deleted and end after an
// hour, and the node must not be closed for that long.
func splits(next undecided, ended []gone) iter.Seq2[[]gone, []gone] {
	return func(yield func(released, left []gone) bool) {
		var certain, open []gone
		for _, g := range ended {
			if g.left <= next.since {
				certain = append(certain, g)
			} else {
				open = append(open, g)
			}
		}
		for set := range 1 << min(len(open), bits.Len(maxFutures)) {
			released, left := slices.Clone(certain), []gone(nil)
			for k, g := range open {
				if set>>k&1 == 1 {
					released = append(released, g)
				} else {
					left = append(left, g)
				}
			}
			if !yield(released, left) {
				return
			}
		}
	}
}

// inEveryOrder returns an Undecided if there is an order in which the kubelet rejects the pod, or, with
// it, another pod about which it has not decided and that it admits without it.
func (m *member) inEveryOrder(pod fleet.Pod) error {
	waiting, ended := m.undecided(), m.gone()
	if m.base == nil || len(waiting) == 0 && len(ended) == 0 {
		return nil
	}
	f := futures{member: m}
	next := undecided{pod, m.comparisons}
	err := f.with(m.base, m.base, waiting, &next, nil)
	if err == nil && len(ended) > 0 {
		err = f.with(m.base, m.base, waiting, &next, ended)
	}
	if err != nil {
		return &Undecided{err}
	}
	return nil
}

// with is decide with another pod among those that wait. without is the node without that pod. next
// is nil once it has been decided about.
func (f *futures) with(view, without *memo.Node, waiting []undecided, next *undecided, ended []gone) error {
	if f.count++; f.count > maxSteps {
		return errors.New(manyUndecided)
	}
	if next != nil {
		for released, left := range splits(*next, ended) {
			placed, err := place(f.release(view, released), next.pod)
			if err != nil {
				return fmt.Errorf("if its kubelet decides in another order about the pods that wait: %w", err)
			}
			for placed := range f.started(placed, placed, next.pod) {
				if err := f.with(placed, f.release(without, released), waiting, nil, left); err != nil {
					return err
				}
			}
		}
	}
	for i, p := range waiting {
		rest := slices.Delete(slices.Clone(waiting), i, i+1)
		for released, left := range splits(p, ended) {
			after, err := place(f.release(view, released), p.pod)
			afterWithout, before := place(f.release(without, released), p.pod)
			if err != nil && before == nil {
				return fmt.Errorf("its kubelet has not decided about pod %s yet, for which there would be no room if it decided later: %w", p.pod.Pod.ID(), err)
			}
			for after, afterWithout := range f.started(after, afterWithout, p.pod) {
				if err := f.with(after, afterWithout, rest, next, left); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// place returns the node after the kubelet has decided about a pod. The error is its rejection, which
// leaves the node as it is.
func place(view *memo.Node, pod fleet.Pod) (*memo.Node, error) {
	next, plan, err := view.Place(pod)
	if err == nil && plan.Rejection != nil {
		err = plan.Rejection
	}
	return next, err
}

// started yields two views in which a pod was decided about, and, if its init containers have memory
// there that they will give back, both without it.
func (f *futures) started(a, b *memo.Node, pod fleet.Pod) iter.Seq2[*memo.Node, *memo.Node] {
	return func(yield func(a, b *memo.Node) bool) {
		if !yield(a, b) || len(pod.Containers) == 0 {
			return
		}
		ends := []gone{{uid: pod.UID, inits: pod.Containers[len(pod.Containers)-1].Name}}
		endA, endB := f.release(a, ends), f.release(b, ends)
		if endA != a || endB != b {
			yield(endA, endB)
		}
	}
}

// release returns the view without what is gone.
func (f *futures) release(view *memo.Node, all []gone) *memo.Node {
	state := view.State
	for _, g := range all {
		if g.inits == "" {
			state = state.Release(g.uid)
		} else {
			state = state.ContainerCreated(g.uid, g.inits)
		}
	}
	if state == view.State {
		return view
	}
	return view.Next(state, f.member.used)
}

// add adds a future, unless one with the same that is free is there.
func (f *futures) add(view *memo.Node) {
	if !slices.ContainsFunc(f.found, func(o *memo.Node) bool {
		return o.State.Devices().Equal(view.State.Devices()) && o.State.SharedCPUs().Equal(view.State.SharedCPUs()) && o.State.Memory().SameNodes(view.State.Memory())
	}) {
		f.found = append(f.found, view)
	}
}

// undecided returns the pods about which the kubelet has not decided, bound and reserved. A pod that
// gets nothing of its own is none of them: its grant is never published.
func (m *member) undecided() []undecided {
	var waiting []undecided
	for _, h := range m.pods {
		switch {
		case h.origin == shown.Published || h.grant != nil && !h.grant.OwnsAnything():
		case h.asks != nil:
			waiting = append(waiting, undecided{fleet.Pod{Pod: *h.asks}, h.since})
		case h.reported != nil:
			waiting = append(waiting, undecided{fleet.Pod{Pod: h.reported.Pod}, h.since})
		}
	}
	return waiting
}

// gone returns the pods that have a published grant and are not bound any more, those that are
// deleted, which can end before any decision, and those whose init containers still have memory.
func (m *member) gone() []gone {
	var all []gone
	for uid, h := range m.pods {
		switch {
		case h.origin != shown.Published:
		case h.left > 0:
			all = append(all, gone{uid: uid, left: h.left})
		case h.ending:
			all = append(all, gone{uid: uid, left: math.MaxUint64})
		case h.grant != nil && initsHaveMemory(h.grant):
			all = append(all, gone{uid, math.MaxUint64, h.grant.Pod.Containers[len(h.grant.Pod.Containers)-1].Name})
		}
	}
	return all
}

// initsHaveMemory reports whether the init containers of a pod have memory that they give back once
// the others start.
func initsHaveMemory(g *node.Grant) bool {
	for i := range g.Containers {
		if g.Pod.Containers[i].Type == request.Init && len(g.Containers[i].Memory) > 0 {
			return true
		}
	}
	return false
}
