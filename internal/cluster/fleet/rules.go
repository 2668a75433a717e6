package fleet

import "fmt"

// Rules judge pods by the pods on all nodes together, as topology spread and pod affinity do. Their
// answers are not kept for a class, because each placement can change them for every node.
type Rules interface {
	// For returns the rule for a pod at this moment. Nil means that every node may take it. Between
	// two placements, pods that the rules cannot distinguish get the same value. The error is about
	// the pod.
	For(pod *Pod) (Rule, error)
	// Placed is called after a pod was placed on a node of the fleet.
	Placed(pod *Pod, n *Node) error
}

// Rule judges one pod.
type Rule interface {
	// Bars describes in a few words what bars the pod from the node. If empty, nothing does.
	Bars(n *Node) (what string, err error)
	// Explain returns a sentence about why the node is barred, and a change of the pod that would
	// avoid it. Each may be empty.
	Explain(n *Node) (detail, remedy string)
}

// Obey makes the fleet apply rules from now on. The rules must know the pods on its nodes.
func (f *Fleet) Obey(rules Rules) { f.rules = rules }

// Rule returns the rule for a pod at this moment, or nil if there is none. The error names the pod.
func (f *Fleet) Rule(pod *Pod) (Rule, error) {
	if f.rules == nil {
		return nil, nil
	}
	r, err := f.rules.For(pod)
	if err != nil {
		return nil, fmt.Errorf("pod %s: %w", pod.ID(), err)
	}
	return r, nil
}

// barred has the nodes that a rule bars from a pod, by position. They are excluded from the class's
// tournament for one question.
type barred map[int]string

// next returns the best answer of the class that the rule does not bar, or -1 if there is none.
func (b barred) next(f *Fleet, c *Class, rule Rule) (int, error) {
	for {
		i := c.best.first()
		if i < 0 || rule == nil {
			return i, nil
		}
		what, err := rule.Bars(&f.members[i].Node)
		if err != nil || what == "" {
			return i, err
		}
		b[i] = what
		c.best.remove(i, c.answers)
	}
}

// free returns the nodes to the tournament.
func (b barred) free(c *Class) {
	for i := range b {
		c.update(i)
	}
}
