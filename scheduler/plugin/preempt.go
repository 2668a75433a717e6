package plugin

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/cluster/fleet/memo"
	"github.com/paddock-project/paddock/internal/cluster/fleetsource"
	"github.com/paddock-project/paddock/scheduler/cluster"
)

// changedNode is a node with other pods than it has: what preemption tries, and pods that are
// nominated. It does not change; AddPod and RemovePod make another one.
type changedNode struct {
	at *cluster.At
	// removed are UIDs of pods that are bound to the node; added are pods that are not, in order.
	removed []string
	added   []fleet.Pod
	// view is the node with these changes.
	view *memo.Node
}

// PreFilterExtensions returns AddPod and RemovePod.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// AddPod puts a pod on a node. One that was removed has the same grant again. One that the node
// does not have is nominated: it is planned, and has no effect while it does not fit.
func (p *Plugin) AddPod(_ context.Context, state fwk.CycleState, _ *v1.Pod, added fwk.PodInfo, info fwk.NodeInfo) *fwk.Status {
	return p.change(state, info, func(n *changedNode) {
		pod := added.GetPod()
		uid := fleetsource.UID(pod)
		if i := slices.Index(n.removed, uid); i >= 0 {
			n.removed = slices.Delete(slices.Clone(n.removed), i, i+1)
			return
		}
		if _, has := n.at.View.State.Grant(uid); has {
			return
		}
		read, err := cluster.Read(pod, n.at.Gates)
		if err == nil && cluster.Concerns(&read.Pod) { // One that cannot be read gets nothing from the node either.
			read.UID = uid
			n.added = append(slices.Clone(n.added), read)
		}
	})
}

// RemovePod takes a pod from a node.
func (p *Plugin) RemovePod(_ context.Context, state fwk.CycleState, _ *v1.Pod, removed fwk.PodInfo, info fwk.NodeInfo) *fwk.Status {
	return p.change(state, info, func(n *changedNode) {
		uid := fleetsource.UID(removed.GetPod())
		if i := slices.IndexFunc(n.added, func(p fleet.Pod) bool { return p.UID == uid }); i >= 0 {
			n.added = slices.Delete(slices.Clone(n.added), i, i+1)
			return
		}
		if !slices.Contains(n.removed, uid) { // Also one that has no grant: it has none if it is added again.
			n.removed = append(slices.Clone(n.removed), uid)
		}
	})
}

// change applies an edit to the cycle's copy of a node.
func (p *Plugin) change(state fwk.CycleState, info fwk.NodeInfo, edit func(n *changedNode)) *fwk.Status {
	c := of(state)
	if c == nil {
		return nil
	}
	name := info.Node().Name
	n, ok := c.changed[name]
	if !ok {
		// Not by the generation: the node has other pods here than in the scheduler's cache.
		if n.at = p.cluster.After(name); n.at == nil || n.at.View == nil {
			return nil
		}
	}
	edit(&n)
	s := n.at.View.State
	for _, uid := range n.removed {
		s = s.Release(uid)
	}
	n.view = n.at.View
	if s != n.view.State {
		n.view = n.view.Next(s, n.view.Used)
	}
	for _, pod := range n.added {
		with, _, err := n.view.Place(pod)
		if err != nil {
			return fwk.AsStatus(err)
		}
		n.view = with
	}
	if c.changed == nil {
		c.changed = map[string]changedNode{}
	}
	c.changed[name] = n
	return nil
}
