package fleet

import "fmt"

// Rules judge pods by the pods that all nodes have together, as topology spread and pod affinity
// do. No answer of theirs is kept for a class: each placement can change it for every node.
type Rules interface {
	// For is the rule for a pod at this moment; nil: every node may have it. Between two
	// placements, pods that the rules cannot distinguish get the same value. The error is about the
	// pod.
	For(pod *Pod) (Rule, error)
	// Placed is called when a node of the fleet has got a pod.
	Placed(pod *Pod, n *Node) error
}

// Rule judges one pod.
type Rule interface {
	// Bars is what keeps the pod from the node, in a few words; empty: nothing.
	Bars(n *Node) (what string, err error)
	// Explain is a sentence about why the node is barred, and a change of the pod with which it is
	// not. Each may be empty.
	Explain(n *Node) (detail, remedy string)
}

// Obey makes the fleet place pods by rules from now on. They know the pods that its nodes have.
func (f *Fleet) Obey(rules Rules) { f.rules = rules }

// Rule is the rule for a pod at this moment; nil: none. The error names the pod.
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

// barred are the nodes that a rule bars from a pod, by position. They are out of the class's
// tournament for one question.
type barred map[int]string

// next is the best answer of the class that the rule does not bar, -1 if there is none.
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

// free takes the nodes into the tournament again.
func (b barred) free(c *Class) {
	for i := range b {
		c.best.update(i, c.answers)
	}
}
