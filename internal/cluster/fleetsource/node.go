package fleetsource

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/codec/objects"
	"github.com/paddock-project/paddock/internal/core/behavior"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/shown"
)

// Node is the content of a PaddockNode. It is immutable.
type Node struct {
	// Here identifies the node in the texts of annotations: its name and the digests of its machine
	// and policy.
	Here      handover.Here
	Machine   *machine.Machine
	Policy    node.Policy
	Inventory *device.Inventory
	// Revision is the revision of the node's state.
	Revision uint64
	// Published are the grants that the node published, by UID.
	Published map[string]*node.Grant
	// Managing is true if the agent decides about pods. Complete is true if Published has every
	// grant that is in no annotation. Unless both are true, no pod that needs CPUs, memory or
	// devices of its own fits on the node.
	Managing, Complete bool
	// Kubelet is set where a kubelet decides and the agent observes it. Managing is false there,
	// the policy has the behavior of that kubelet, and annotations of pods have no effect.
	Kubelet *Kubelet
}

// Kubelet is what a PaddockNode shows of a kubelet that decides, beside its policy and its grants.
type Kubelet struct {
	// Version is the release whose rules it follows.
	Version behavior.Version
	shown.Kubelet
	// Certainty is how surely the node shows what the kubelet has. It is unsure if this program
	// does not know the rules by which the agent read the files.
	Certainty v1alpha1.Certainty
}

// Read parses a PaddockNode. machines returns the machine of a digest. The error names the object
// and what is not usable. No pod that needs resources of its own fits on such a node.
func Read(o *v1alpha1.PaddockNode, machines func(digest string) (*machine.Machine, error)) (*Node, error) {
	m, err := machines(o.Status.Machine)
	if err != nil {
		return nil, fmt.Errorf("PaddockNode %s: %w", o.Name, err)
	}
	policy, err := objects.ReadPolicy(o)
	if err != nil {
		return nil, err
	}
	inventory, err := objects.ReadDevices(m, o)
	if err != nil {
		return nil, err
	}
	n := &Node{
		Here:    handover.Here{Node: o.Name, Machine: o.Status.Machine, Policy: o.Status.PolicyDigest},
		Machine: m, Policy: policy, Inventory: inventory, Revision: uint64(max(0, o.Status.Revision)),
		Published: make(map[string]*node.Grant, len(o.Status.Grants)),
		Managing:  is(o, v1alpha1.ConditionManaging), Complete: is(o, v1alpha1.ConditionComplete),
	}
	for _, p := range o.Status.Grants {
		g, err := objects.ReadGrant(p)
		if err != nil {
			return nil, fmt.Errorf("PaddockNode %s: %w", o.Name, err)
		}
		n.Published[p.UID] = g
	}
	if o.Status.DecidedBy != nil {
		if err := n.readKubelet(o); err != nil {
			return nil, fmt.Errorf("PaddockNode %s: decidedBy: %w", o.Name, err)
		}
	}
	return n, nil
}

// readKubelet adds the kubelet that decides. A kubelet that is not known here decides by the rules
// of Paddock, and is unsure.
func (n *Node) readKubelet(o *v1alpha1.PaddockNode) error {
	d := o.Status.DecidedBy
	if d.Manager != v1alpha1.ManagerKubelet {
		return fmt.Errorf("manager %q is not known to this version of Paddock", d.Manager)
	}
	k := &Kubelet{Certainty: v1alpha1.Certainty{Answer: v1alpha1.CertaintyUnsure, Reasons: []string{"the agent has not published how surely it knows the kubelet"}}}
	if o.Status.Certainty != nil {
		k.Certainty = *o.Status.Certainty.DeepCopy()
	}
	version, rules, doubts := behavior.Published(d.Version, d.RulesDigest)
	if k.Version = version; len(doubts) > 0 {
		k.Certainty.Answer = v1alpha1.CertaintyUnsure
		k.Certainty.Reasons = append(k.Certainty.Reasons, doubts...)
	}
	var err error
	if k.Shared, err = objects.ReadShared(d); err != nil {
		return err
	}
	capacity, err := memory.NewCapacity(n.Machine, n.Policy.ReservedMemory)
	if err != nil {
		return err
	}
	if k.Memory, err = objects.ReadAccountedMemory(capacity, d.Memory); err != nil {
		return err
	}
	n.Kubelet, n.Policy = k, n.Policy.As(rules)
	return nil
}

func is(o *v1alpha1.PaddockNode, condition string) bool {
	c := meta.FindStatusCondition(o.Status.Conditions, condition)
	return c != nil && c.Status == metav1.ConditionTrue
}

// State returns the state of the node with the pods that are bound to it. The error is about the
// node's machine, policy and devices, never about a pod.
func (n *Node) State(bound []shown.Bound) (*shown.Built, error) { return n.shown().State(bound) }

// Adopt returns the state of the node in which pods have these grants. Where a kubelet decides, it
// also has what the kubelet has beside them. The findings and the error are those of node.Adopt.
func (n *Node) Adopt(grants []*node.Grant) (*node.State, []node.Finding, error) {
	return n.shown().Adopt(grants)
}

func (n *Node) shown() *shown.Node {
	out := &shown.Node{
		Name: n.Here.Node, Machine: n.Machine, Policy: n.Policy, Inventory: n.Inventory, Revision: n.Revision, Published: n.Published,
	}
	if n.Kubelet != nil {
		out.Kubelet = &n.Kubelet.Kubelet
	}
	return out
}
