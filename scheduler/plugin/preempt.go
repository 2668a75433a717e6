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

// changedNode is a node whose pods differ from those it has: preemption removes pods on trial, and
// nominated pods are added. It is immutable. AddPod and RemovePod create another one.
type changedNode struct {
	// before is what is known of the node before the first change. Pods that are gone and still
	// published do not count: preemption must not evict others in their place.
	before *cluster.At
	// removed has the UIDs of pods that are bound to the node. added has pods that are not bound to
	// it, in the order in which they were added.
	removed []string
	added   []fleet.Pod
	// after is the node with these changes applied.
	after *cluster.At
}

// PreFilterExtensions returns AddPod and RemovePod.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// AddPod adds a pod to a node. A pod that was removed gets the same grant again. A pod that the
// node does not have is nominated: it is planned, and has no effect while it does not fit.
//
// In an attempt to schedule a pod group, the NodeInfo shows which pods are removed: see gang. Only
// nominated pods are added.
func (p *Plugin) AddPod(_ context.Context, state fwk.CycleState, _ *v1.Pod, added fwk.PodInfo, info fwk.NodeInfo) *fwk.Status {
	pod := added.GetPod()
	if c := of(state); c != nil && c.gangIn(state) != nil && pod.Spec.NodeName != "" {
		return nil
	}
	return p.change(state, info, func(n *changedNode) {
		uid := fleetsource.UID(pod)
		if i := slices.Index(n.removed, uid); i >= 0 {
			n.removed = slices.Delete(slices.Clone(n.removed), i, i+1)
			return
		}
		if _, has := n.before.View.State.Grant(uid); has {
			return
		}
		read, err := cluster.Read(pod, n.before.Gates)
		if err == nil && cluster.Concerns(&read.Pod) { // The node assigns nothing to a pod that cannot be read.
			read.UID = uid
			n.added = append(slices.Clone(n.added), read)
		}
	})
}

// RemovePod removes a pod from a node.
func (p *Plugin) RemovePod(_ context.Context, state fwk.CycleState, _ *v1.Pod, removed fwk.PodInfo, info fwk.NodeInfo) *fwk.Status {
	pod := removed.GetPod()
	if c := of(state); c != nil && c.gangIn(state) != nil && pod.Spec.NodeName != "" {
		return nil
	}
	return p.change(state, info, func(n *changedNode) {
		uid := fleetsource.UID(pod)
		if i := slices.IndexFunc(n.added, func(p fleet.Pod) bool { return p.UID == uid }); i >= 0 {
			n.added = slices.Delete(slices.Clone(n.added), i, i+1)
			return
		}
		if !slices.Contains(n.removed, uid) { // Also if it has no grant: it then has none when it is added again.
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
		var err error
		if n.before, err = p.before(c.gangIn(state), name); err != nil {
			return fwk.AsStatus(err)
		}
		if n.before == nil || n.before.View == nil {
			return nil
		}
	}
	edit(&n)
	if err := p.apply(&n, name); err != nil {
		return fwk.AsStatus(err)
	}
	if c.changed == nil {
		c.changed = map[string]changedNode{}
	}
	c.changed[name] = n
	return nil
}

// apply sets the node with its changes.
func (p *Plugin) apply(n *changedNode, name string) error {
	from := n.before
	if len(from.Others) > 0 && len(n.removed) > 0 {
		// What the kubelet has not decided about can depend on the removed pods.
		if at := p.cluster.Without(name, n.removed); at != nil && at.View != nil {
			from = at
		}
	}
	next := &cluster.At{Hidden: from.Hidden, Problem: from.Problem, Unsure: from.Unsure, Gates: from.Gates}
	var err error
	if next.View, err = n.change(from.View); err != nil {
		return err
	}
	for _, other := range from.Others {
		changed, err := n.change(other)
		if err != nil {
			return err
		}
		next.Others = append(next.Others, changed)
	}
	n.after = next
	return nil
}

// change returns a view of the node with the changes.
func (n *changedNode) change(view *memo.Node) (*memo.Node, error) {
	s := view.State
	for _, uid := range n.removed {
		s = s.Release(uid)
	}
	if s != view.State {
		view = view.Next(s, view.Used)
	}
	for _, pod := range n.added {
		with, _, err := view.Place(pod)
		if err != nil {
			return nil, err
		}
		view = with
	}
	return view, nil
}

// before returns what is known of a node before pods are added to it or removed from it. The
// NodeInfo has the changed pods already, so its generation does not identify the node.
func (p *Plugin) before(g *gang, name string) (*cluster.At, error) {
	if g == nil {
		at := p.cluster.After(name)
		if at == nil {
			return nil, nil
		}
		if soon := at.Soon(); soon != nil {
			return &cluster.At{View: soon.View, Others: soon.Others, Hidden: soon.Hidden, Problem: at.Problem, Gates: at.Gates}, nil
		}
		return at, nil
	}
	info, err := p.handle.SnapshotSharedLister().NodeInfos().Get(name)
	if err != nil {
		return nil, err
	}
	return g.trial.At(g.sight(info)), nil
}
