package fleet

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

// verdict is the state of a question to a node.
type verdict uint8

const (
	bounded  verdict = iota // the amounts fit, the node has not planned, and the cost is a bound
	fits                    // the node would admit the pod at this cost
	rejected                // the node would reject the pod for the reason in the answer
)

// answer is the answer of a node to a class at the node's current revision.
type answer struct {
	verdict verdict
	cost    Cost
	why     Why
	// admits is set if the node is known to take the pod although it has not planned.
	admits bool
}

// Why is the reason why a node does not take a pod.
type Why struct {
	// NotAllowed is true if the pod may not run on the node (node selector, affinity, taints).
	NotAllowed bool
	// Rule is what bars the pod from the node, see Rule.Bars. If it is set, the node would
	// otherwise take the pod.
	Rule string
	// PerNode is true if the node has as many pods of the workload as its limit allows. The node
	// would otherwise take the pod.
	PerNode bool
	// Amounts is true if the sum of all requests for Resource would exceed what is allocatable.
	Amounts bool
	// Cause and Reason come from the node's own rejection. They are zero otherwise.
	Cause  rejection.Cause
	Reason rejection.Reason
	// Resource is the resource that is short, if the reason is an amount.
	Resource request.Resource
}

// none has the reasons why no node takes a pod. It is valid while the number of changes and the
// rule are the same.
type none struct {
	changes int
	rule    Rule
	why     []Count
}

// Count is the number of nodes that do not take a pod for one reason.
type Count struct {
	Why
	Nodes int
	// First is the first of these nodes by name.
	First string
}

// bound returns the answer of a member, as far as possible without a plan. like is i, or the
// position of a member with the same costs that has an answer of verdict bounded: nodes without
// pods are often equal, and a bound of the cost takes longer than all else.
func (f *Fleet) bound(c *Class, i, like int) answer {
	m := f.members[i]
	pod := c.pod.On(&m.Node)
	a := answer{verdict: rejected}
	if c.pod.Allowed != nil && !c.pod.Allowed(&m.Node) {
		a.why = Why{NotAllowed: true}
	} else if short := m.Allocatable.Short(m.Used, pod.Asks); short != "" {
		a.why = Why{Amounts: true, Resource: short}
	} else if like != i {
		a = answer{verdict: bounded, cost: c.answers[like].cost}
	} else {
		a = answer{verdict: bounded, cost: m.leastCost(pod, c)}
	}
	return a
}

// fewAsked is how many members a class remembers that have planned. Nodes that are equal are often
// asked one after the other: they have the same bound.
const fewAsked = 8

// ask answers with a plan, or with that of an equal member.
func (f *Fleet) ask(c *Class, i int) {
	if c.like != nil {
		f.ask(c.like, i)
		c.follow()
		return
	}
	m := f.members[i]
	for _, k := range c.asked {
		if f.members[k].costsLike(m) && c.answers[k].verdict != bounded {
			c.set(i, c.answers[k])
			return
		}
	}
	if a := m.Ask(&c.pod); a.Fits {
		c.set(i, answer{verdict: fits, cost: a.Cost})
	} else {
		c.set(i, answer{verdict: rejected, why: a.Why})
	}
	if len(c.asked) == fewAsked {
		c.asked = slices.Delete(c.asked, 0, 1)
	}
	c.asked = append(c.asked, int32(i))
}

// Best returns the best node for a pod. If no node takes the pod, why counts the reasons of all
// nodes, the most frequent first. The error comes from the rules that the fleet obeys.
func (f *Fleet) Best(pod Pod) (name string, found bool, why []Count, err error) {
	return f.best(f.Class(pod), &pod)
}

func (f *Fleet) best(c *Class, pod *Pod) (name string, found bool, why []Count, err error) {
	rule, err := f.Rule(pod)
	if err != nil {
		return "", false, nil, err
	}
	f.refresh(c)
	if c.none.why != nil && c.none.changes == len(f.changes) && c.none.rule == rule {
		return "", false, c.none.why, nil
	}
	out := barred{}
	defer out.free(c)
	for {
		i, err := out.next(f, c, rule)
		switch {
		case err != nil:
			return "", false, nil, fmt.Errorf("pod %s on node %s: %w", pod.ID(), f.members[i].Name, err)
		case i < 0:
			c.none = none{len(f.changes), rule, f.rejections(c, out)}
			return "", false, c.none.why, nil
		case c.answers[i].verdict == fits:
			return f.members[i].Name, true, nil, nil
		}
		f.ask(c, i)
	}
}

// rejections counts the reasons why no node takes a pod. The reason of a node that would take it
// without a rule is the rule, and that of a node that would take it without a limit is the limit.
func (f *Fleet) rejections(c *Class, out barred) []Count {
	counts := map[Why]*Count{}
	for i := range c.answers {
		switch { // A rule or a limit barred the node before it was asked.
		case c.answers[i].verdict != bounded:
		case c.full(i):
			f.admit(c.like, i)
		default:
			f.ask(c, i)
		}
		why := c.answers[i].why
		switch {
		case c.answers[i].verdict == rejected:
		case c.full(i):
			why = Why{PerNode: true}
		default:
			why = Why{Rule: out[i]}
		}
		if counts[why] == nil {
			counts[why] = &Count{Why: why, First: f.members[i].Name}
		}
		counts[why].Nodes++
	}
	all := make([]Count, 0, len(counts))
	for _, n := range counts {
		all = append(all, *n)
	}
	slices.SortFunc(all, func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Cause, b.Cause), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Rule, b.Rule))
	})
	return all
}

// Rejecting returns a node that rejects a pod for this reason. If the nodes have too little of a
// resource, it returns the one with the most left. Of equal nodes, it returns the first by name.
func (f *Fleet) Rejecting(pod Pod, why Why) (Node, bool) {
	c := f.Class(pod)
	f.refresh(c)
	best := -1
	for i := range c.answers {
		if c.answers[i].verdict == rejected && c.answers[i].why == why && (best < 0 || why.Amounts && f.left(i, why.Resource) > f.left(best, why.Resource)) {
			best = i
		}
	}
	if best < 0 {
		return Node{}, false
	}
	return f.members[best].Node, true
}

func (f *Fleet) left(i int, resource request.Resource) int64 {
	return f.members[i].Allocatable.Of(resource) - f.members[i].Used.Of(resource)
}
