package fleet

import (
	"github.com/paddock-project/paddock/internal/core/request"
)

// Pod is a pod as a fleet sees it.
type Pod struct {
	request.Pod
	// Asks is what the scheduler counts of it.
	Asks Amounts
	// Allowed reports on which nodes the pod may run on: its node selector, its affinity, and the
	// taints that it tolerates; nil: all. Constraint names the function: pods with the same
	// Constraint have the same Allowed. It must not change its answers.
	Allowed    func(n *Node) bool
	Constraint string
	// Excluded explains to a person why the pod may not run on a node, and what would change that;
	// nil: that is not known.
	Excluded func(n *Node) (why, remedy string)
	// Origin is what the pod was made of, for Rules; the fleet does not look at it.
	Origin any
}

// Class is the pods that get the same answer from every node, because they differ in nothing but
// their names. It belongs to one fleet.
type Class struct {
	pod Pod
	// read is how many of the fleet's changes the answers take account of.
	read    int
	answers []answer // parallel to the fleet's members
	best    tree
	none    none
}

// Class is the class of a pod.
func (f *Fleet) Class(pod Pod) *Class {
	key := pod.Key()
	if c, ok := f.classes[key]; ok {
		return c
	}
	pod.Pod, pod.Origin = request.Pod{Ask: pod.Ask}, nil
	c := &Class{pod: pod, answers: make([]answer, len(f.members)), best: newTree(len(f.members))}
	for i := range f.members {
		f.bound(c, i)
	}
	c.read = len(f.changes)
	f.classes[key] = c
	return c
}

// Key is a text that two pods share exactly if every node gives them the same answer: the key of
// the request, the amounts and the constraint.
func (pod *Pod) Key() string {
	var buffer [512]byte // Enough for most pods.
	return string(append(pod.Asks.appendKey(pod.AppendKey(buffer[:0])), pod.Constraint...))
}

// refresh replaces the answers of nodes that changed since the class last asked by bounds.
func (f *Fleet) refresh(c *Class) {
	for _, i := range f.changes[c.read:] {
		f.bound(c, int(i))
	}
	c.read = len(f.changes)
}
