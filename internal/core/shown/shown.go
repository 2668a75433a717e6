// Package shown builds the state of a node from what a cluster shows of it: its machine, its policy
// and its devices, the grants that the node published, and those in the annotations of the pods
// that are bound to it. A published grant wins over the annotation of its pod, and Settle defines
// the order of precedence of grants of different pods that contradict each other. A pod without a
// grant is planned.
//
// Whatever builds a state from objects does it here, so that the scheduler, the fleet and package
// predict agree about who has a CPU.
package shown

import (
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/core/annotation"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Node is what a node shows.
type Node struct {
	Name      string
	Machine   *machine.Machine
	Policy    node.Policy
	Inventory *device.Inventory
	// Revision is the revision of the node's state.
	Revision uint64
	// Published are the grants that the node published, by UID.
	Published map[string]*node.Grant
	// Kubelet is set where a kubelet decides. The policy has its behavior, and annotations of pods
	// have no effect.
	Kubelet *Kubelet
}

// Kubelet is what a kubelet has beside its grants.
type Kubelet struct {
	// Shared is the shared pool of its state file, and Memory is its accounting of memory for the
	// NUMA nodes of the machine.
	Shared cpuset.Set
	Memory []memory.NodeUsage
}

// Bound is a pod that is bound to a node and has not terminated.
type Bound struct {
	// Pod is what the pod asks for. Its UID is the one by which the node knows the pod.
	Pod request.Pod
	// Annotation is the text of the pod's annotation. It is empty for static pods and mirror pods,
	// whose annotations are ignored.
	Annotation string
}

// Built is a state that was built from what a cluster shows.
type Built struct {
	State *node.State
	// Provisional has the UIDs of the pods that are planned here until the node publishes their
	// grants. They have no usable annotation, or their grant contradicts those of other pods.
	Provisional []string
	// Missing has the UIDs of bound pods without a grant that do not fit: the node will reject
	// them, or it knows more.
	Missing []string
	// Findings describe published grants and annotations that could not be kept unchanged.
	Findings []node.Finding
}

// State returns the state of the node with the pods that are bound to it. The error is about the
// node's machine, policy and devices, never about a pod.
func (n *Node) State(bound []Bound) (*Built, error) {
	here := make(map[string]bool, len(bound))
	known := make([]Known, 0, len(n.Published)+len(bound))
	for _, b := range bound {
		here[b.Pod.UID] = true
		if g := n.grant(b); g != nil && n.Kubelet == nil {
			known = append(known, Known{Annotated, true, g})
		}
	}
	for uid, g := range n.Published {
		known = append(known, Known{Published, here[uid], g})
	}
	state, findings, err := n.Adopt(Settle(known))
	if err != nil {
		return nil, err
	}
	out := &Built{State: state.Resume(n.Revision), Findings: findings}
	for _, b := range bound {
		if _, known := out.State.Grant(b.Pod.UID); known {
			continue
		}
		plan := out.State.Plan(b.Pod)
		next, err := out.State.Apply(plan)
		if err != nil || plan.Grant == nil {
			out.Missing = append(out.Missing, b.Pod.UID)
			continue
		}
		out.State = next
		if plan.Grant.OwnsAnything() {
			out.Provisional = append(out.Provisional, b.Pod.UID)
		}
	}
	return out, nil
}

// Adopt returns the state of the node in which pods have these grants. Where a kubelet decides, it
// also has what the kubelet has beside them. The findings and the error are those of node.Adopt.
func (n *Node) Adopt(grants []*node.Grant) (*node.State, []node.Finding, error) {
	state, findings, err := node.Adopt(n.Machine, n.Policy.As(node.Behavior{}), n.Inventory, grants)
	if err != nil || n.Kubelet == nil {
		return state, findings, err
	}
	return state.As(n.Policy.Behavior).Found(n.Kubelet.Shared, n.Kubelet.Memory), findings, nil
}

// grant returns the grant in a pod's annotation. It returns nil if the node has published a grant
// for the pod, or if there is no annotation that the node would apply.
func (n *Node) grant(b Bound) *node.Grant {
	if b.Annotation == "" || n.Published[b.Pod.UID] != nil {
		return nil
	}
	t, err := annotation.Decode(b.Annotation)
	if err != nil || t.Node != n.Name {
		return nil
	}
	g, err := t.For(b.Pod)
	if err != nil {
		return nil
	}
	return g
}

// Accounted is what the accounting of a kubelet has of one NUMA node. See the object PaddockNode.
type Accounted struct {
	NUMANode    int
	Together    []int
	Assignments int
	Assigned    map[string]int64
}

// Account returns the accounting of all NUMA nodes of a machine with this capacity. The error names
// what the machine does not have.
func Account(c *memory.Capacity, list []Accounted) ([]memory.NodeUsage, error) {
	all := memory.NewUsage(c).Nodes()
	index := func(id int) int {
		return slices.IndexFunc(all, func(n memory.NodeUsage) bool { return n.ID == id })
	}
	for _, x := range list {
		i := index(x.NUMANode)
		if i < 0 {
			return nil, fmt.Errorf("the machine has no NUMA node %d", x.NUMANode)
		}
		n := &all[i]
		n.Assignments = x.Assignments
		for k, id := range x.Together {
			if index(id) < 0 {
				return nil, fmt.Errorf("the machine has no NUMA node %d", id)
			}
			if k == 0 {
				n.Group = 0
			}
			n.Group = n.Group.With(id)
		}
		for name, bytes := range x.Assigned {
			t := slices.Index(c.Types(), name)
			if t < 0 || bytes < 0 || bytes > c.Nodes()[i].Types[t].Allocatable {
				return nil, fmt.Errorf("%d bytes of %s are assigned on NUMA node %d, which does not have them", bytes, name, n.ID)
			}
			n.Reserved[t] = bytes
		}
	}
	return all, nil
}
