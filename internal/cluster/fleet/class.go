package fleet

import (
	"strconv"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Pod is a pod with what a fleet needs to know about it.
type Pod struct {
	request.Pod
	// Asks has the amounts that the scheduler counts for the pod.
	Asks Amounts
	// Readings has what the pod asks for on nodes whose feature gates make its manifest another
	// request. It is nil if all nodes read it alike, as they do most pods.
	Readings []Reading
	// Allowed reports whether the pod may run on a node: by its node selector, its affinity, and
	// the taints that it tolerates. Nil means that it may run on all nodes. Constraint names the
	// function: pods with the same Constraint have the same Allowed. Allowed must always give the
	// same answers.
	Allowed    func(n *Node) bool
	Constraint string
	// Excluded explains to people why the pod may not run on a node, and what would change that.
	// Nil means that this is not known.
	Excluded func(n *Node) (why, remedy string)
	// PerNode is how many pods of the workload with this name a node has at most. Workloads without
	// a limit have no name.
	PerNode PerNode
	// Origin is the object from which the pod was made. It is for Rules; the fleet does not use it.
	Origin any
}

// Reading is what a pod asks for on some nodes.
type Reading struct {
	// Reads reports whether nodes with this policy read the pod like this.
	Reads func(node.Policy) bool
	Ask   request.Ask
	Asks  Amounts
}

// On returns the pod as a node reads it.
func (pod *Pod) On(n *Node) *Pod {
	for i := range pod.Readings {
		if r := &pod.Readings[i]; r.Reads(n.State.Policy()) {
			on := *pod
			on.Ask, on.Asks, on.Readings = r.Ask, r.Asks, nil
			return &on
		}
	}
	return pod
}

// With returns the pod with another request, and with amounts that differ as much. It must have no
// readings.
func (pod *Pod) With(other request.Pod) Pod {
	before, after := pod.Totals(), other.Totals()
	out := *pod
	out.Pod = other
	out.Asks.Milli += after.Milli - before.Milli
	out.Asks.Memory += after.Memory - before.Memory
	for _, o := range out.Asks.Others {
		out.Asks.Others = out.Asks.Others.With(o.Resource, o.Value+after.Of(o.Resource)-before.Of(o.Resource))
	}
	return out
}

// Class is a set of pods that get the same answer from every node, because they differ only in
// their names. It belongs to one fleet.
type Class struct {
	pod Pod
	// read is the number of the fleet's changes that the answers take into account.
	read    int
	answers []answer // parallel to the fleet's members
	// asked has the last members that have planned. Members with the same costs give the same
	// answer.
	asked []int32
	best  tree
	none  none
	// takes has what the pod takes of each kind of node, for BestFit.
	takes map[*fitting]taking
	// like is the class of the pods without the limit per node. Both share the answers, and read
	// is then the number of entries of like.log that best takes into account. on has the number of
	// pods of the workload on each member. Both are nil without a limit.
	like *Class
	on   []int64
	// log has the positions of the answers that have changed, in order. It is kept if followed is
	// set.
	log      []int32
	followed bool
}

// Class returns the class of a pod.
func (f *Fleet) Class(pod Pod) *Class {
	key := pod.Key()
	if c, ok := f.classes[key]; ok {
		return c
	}
	if pod.PerNode.Most > 0 {
		c := f.limited(pod)
		f.classes[key] = c
		return c
	}
	pod.Pod, pod.Origin = request.Pod{Ask: pod.Ask}, nil
	c := &Class{pod: pod, answers: make([]answer, len(f.members)), best: newTree(len(f.members)), takes: map[*fitting]taking{}}
	equal := map[*node.State]int{} // the last member with each state
	for i, m := range f.members {
		like := i
		if k, seen := equal[m.State]; seen && f.members[k].costsLike(m) && c.answers[k].verdict == bounded {
			like = k
		}
		c.answers[i] = f.bound(c, i, like)
		equal[m.State] = i
	}
	c.best.playAll(c.answers)
	c.read = len(f.changes)
	f.classes[key] = c
	return c
}

// Key returns a text that is the same for two pods exactly if every node gives them the same
// answer. It consists of the keys of the request and the amounts, in every reading, the constraint
// and the limit per node. The number of readings and the length of the constraint come before them,
// because manifests contain the constraint and the name of the workload. The readings of all pods
// of a fleet are in the same order of nodes.
func (pod *Pod) Key() string {
	var buffer [512]byte // Enough for most pods.
	key := append(strconv.AppendInt(buffer[:0], int64(len(pod.Readings)), 10), ' ')
	key = pod.Asks.AppendKey(pod.AppendKey(key))
	for i := range pod.Readings {
		r := &pod.Readings[i]
		key = r.Asks.AppendKey(r.Ask.AppendKey(key))
	}
	key = append(strconv.AppendInt(key, int64(len(pod.Constraint)), 10), ' ')
	return string(pod.PerNode.appendKey(append(key, pod.Constraint...)))
}

// refresh replaces the answers of nodes that changed since the class last asked with bounds.
func (f *Fleet) refresh(c *Class) {
	if c.like != nil {
		f.refresh(c.like)
		c.follow()
		return
	}
	for _, i := range f.changes[c.read:] {
		c.set(int(i), f.bound(c, int(i), int(i)))
	}
	c.read = len(f.changes)
}

// set changes an answer.
func (c *Class) set(i int, a answer) {
	c.answers[i] = a
	c.update(i)
	if c.followed {
		c.log = append(c.log, int32(i))
	}
}
