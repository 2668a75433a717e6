package clusterstate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/cluster/capacity"
	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/cluster/fleetsource"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	corenode "github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/shown"
	kubeletcfg "github.com/paddock-project/paddock/internal/kubelet/config"
)

// node has what the objects show of one node.
type node struct {
	object  *v1.Node              // nil: none
	paddock *v1alpha1.PaddockNode // nil: none
	pods    map[string]*pod

	// shown is the content of the PaddockNode, if it was read.
	shown *fleetsource.Node
	wrong error
	read  bool

	// built is the node that can be planned for. If nil, problem describes why it cannot.
	built         *Node
	problem, note string
}

// Node is a node that can be planned for. It never changes. Only the goroutine that changes the
// Cluster may call Bound and Empty.
type Node struct {
	// Kind has only this node, with its pods.
	capacity.Kind
	// Object has the fields that selectors and tolerations use.
	Object *v1.Node
	// Policy is a description of the node's policy.
	Policy string

	own, others []*pod
}

// build rebuilds the node from its objects.
func (c *Cluster) build(name string, n *node) {
	n.built, n.problem, n.note = nil, "", ""
	if n.paddock == nil {
		return
	}
	if !n.read {
		n.shown, n.wrong = fleetsource.Read(n.paddock, c.machines)
		n.read = true
	}
	if n.problem = n.unusable(); n.problem == "" {
		if err := c.make(name, n); err != nil {
			n.built, n.problem = nil, err.Error()
		}
	}
}

// unusable returns why the node cannot be planned for, or the empty string if it can.
func (n *node) unusable() string {
	switch {
	case n.object == nil:
		return "there is no Node of that name"
	case n.stale():
		return "its PaddockNode is of an earlier Node of that name; the agent of the new one has not published yet"
	case n.wrong != nil:
		return n.wrong.Error()
	case !n.shown.Managing && n.shown.Kubelet == nil:
		return fmt.Sprintf("its agent does not decide about pods (%s)", cmp.Or(n.paddock.Status.Summary.Condition, "condition Managing is not true"))
	case !n.shown.Complete:
		return "its PaddockNode has not everything that is assigned there"
	}
	return ""
}

// policy describes the policy of the node, or is empty if the PaddockNode cannot be read.
func (n *node) policy() string {
	if n.wrong != nil || n.shown == nil {
		return ""
	}
	text := kubeletcfg.Describe(n.shown.Policy)
	if k := n.shown.Kubelet; k != nil {
		text = k.Version.Name() + " decides: " + text
	}
	return text
}

// stale reports whether the PaddockNode belongs to another Node of the same name. The garbage
// collector will remove it.
func (n *node) stale() bool {
	for _, o := range n.paddock.OwnerReferences {
		if o.Kind == "Node" && n.object.UID != "" && o.UID != n.object.UID {
			return true
		}
	}
	return false
}

// make sets the node with its pods. The error is about the node.
func (c *Cluster) make(name string, n *node) error {
	out := &Node{
		Kind:   capacity.Kind{Name: name, Count: 1, Group: c.groups.of(n.object, n.paddock), Allocatable: Amounts(n.object.Status.Allocatable)},
		Object: n.object, Policy: n.policy(),
	}
	var notes []string
	if k := n.shown.Kubelet; k != nil {
		if k.Certainty.Answer == v1alpha1.CertaintyUnsure {
			notes = append(notes, "it is unsure what its kubelet has: "+strings.Join(k.Certainty.Reasons, ", "))
		}
	}
	gates := podspec.GatesOf(n.shown.Policy)
	pods := slices.SortedFunc(maps.Values(n.pods), older)
	bound := make([]shown.Bound, 0, len(pods))
	for _, p := range pods {
		out.Used = plus(out.Used, p.spec.under(gates).asks)
		if p.own {
			out.own = append(out.own, p)
		} else {
			out.others = append(out.others, p)
		}
		b, err := p.bound(gates)
		if err != nil {
			notes = append(notes, fmt.Sprintf("pod %s/%s counts as one that requests nothing: %v", p.namespace, p.name, err))
			continue
		}
		bound = append(bound, b)
	}
	built, err := n.shown.State(bound)
	if err != nil {
		return err
	}
	if len(built.Missing) > 0 {
		notes = append(notes, fmt.Sprintf("%d of its pods do not fit there by its policy; it rejects them, or they wait for a decision", len(built.Missing)))
	}
	out.State, n.built, n.note = built.State, out, strings.Join(notes, "; ")
	return nil
}

// Bound returns the pods of the node that do not belong to it, as pods to place.
func (n *Node) Bound() []*v1.Pod {
	out := make([]*v1.Pod, 0, len(n.others))
	for _, p := range n.others {
		out = append(out, p.object())
	}
	return out
}

// Pods returns the pods that belong to the node or, if all is true, all of its pods.
func (n *Node) Pods(all bool) []*v1.Pod {
	var out []*v1.Pod
	for _, p := range n.own {
		out = append(out, p.object())
	}
	if all {
		out = append(out, n.Bound()...)
	}
	return out
}

// Own returns the number of pods that belong to the node: static pods and pods of DaemonSets.
func (n *Node) Own() int { return len(n.own) }

// Empty returns the node with only the pods that belong to it.
func (n *Node) Empty() (capacity.Kind, error) {
	k := n.Kind
	k.Used = fleet.Amounts{}
	s, err := corenode.New(k.State.Machine(), k.State.Policy())
	if err != nil {
		return k, err
	}
	if s, err = s.WithDevices(k.State.Devices().Inventory()); err != nil {
		return k, err
	}
	gates := podspec.GatesOf(s.Policy())
	for _, p := range n.own {
		k.Used = plus(k.Used, p.spec.under(gates).asks)
		b, err := p.bound(gates)
		if err != nil {
			continue // The node has a note about it.
		}
		if s, err = s.Apply(s.Plan(b.Pod)); err != nil { // A plan without a grant changes nothing.
			return k, err
		}
	}
	k.State = s
	return k, nil
}
