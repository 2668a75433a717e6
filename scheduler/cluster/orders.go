package cluster

import (
	"cmp"
	"iter"
	"slices"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/cluster/fleet/memo"
	"github.com/paddock-project/paddock/internal/cluster/fleetsource"
)

// maxOrders is the number of pods up to which every order is planned in which a kubelet can decide
// about them. With more of them, the node takes no other pod until it has decided.
const maxOrders = 3

// order plans the pods about which the kubelet of the node has not decided in every order, and shows
// the nodes that differ in what is free.
func (m *member) order() {
	at := m.at.Load()
	if m.base == nil || at.View == nil {
		return
	}
	waiting := m.undecided()
	next := &At{View: at.View, Problem: at.Problem, Unsure: at.Unsure, Gates: at.Gates}
	switch {
	case len(waiting) > maxOrders:
		next.Problem = cmp.Or(next.Problem, manyUndecided)
	case len(waiting) > 1:
		for order := range permutations(waiting) {
			view := m.base
			for _, pod := range order {
				if placed, _, err := view.Place(pod); err == nil {
					view = placed
				}
			}
			same := func(o *memo.Node) bool {
				return o.State.SharedCPUs().Equal(view.State.SharedCPUs()) && o.State.Memory().Equal(view.State.Memory()) && len(view.State.Devices().Inventory().Resources()) == 0
			}
			if !same(at.View) && !slices.ContainsFunc(next.Others, same) {
				next.Others = append(next.Others, view.With(m.allocatable, m.used))
			}
		}
	}
	if len(next.Others) > 0 || len(at.Others) > 0 || next.Problem != at.Problem {
		m.set(next)
	}
}

// undecided returns the pods about which the kubelet has not decided, bound and reserved. A pod that
// gets nothing of its own is none of them: its grant is never published.
func (m *member) undecided() []fleet.Pod {
	var waiting []fleet.Pod
	for _, h := range m.pods {
		switch {
		case h.origin == fleetsource.Published || h.grant != nil && !h.grant.OwnsAnything():
		case h.asks != nil:
			waiting = append(waiting, fleet.Pod{Pod: *h.asks})
		case h.reported != nil:
			waiting = append(waiting, fleet.Pod{Pod: h.reported.Pod})
		}
	}
	return waiting
}

// manyUndecided is the problem of a node whose kubelet has more than maxOrders pods to decide about.
const manyUndecided = "its kubelet has not decided about the pods that are bound to it yet"

// permutations yields every order of the pods. The list is only valid until the next one.
func permutations(pods []fleet.Pod) iter.Seq[[]fleet.Pod] {
	return func(yield func([]fleet.Pod) bool) {
		var from func(i int) bool
		from = func(i int) bool {
			if i == len(pods) {
				return yield(pods)
			}
			for k := i; k < len(pods); k++ {
				pods[i], pods[k] = pods[k], pods[i]
				if !from(i + 1) {
					return false
				}
				pods[i], pods[k] = pods[k], pods[i]
			}
			return true
		}
		from(0)
	}
}
