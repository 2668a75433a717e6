package fleet

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/node"
)

// ErrUnknown is wrapped by errors about a node that is not part of the fleet.
var ErrUnknown = errors.New("there is no such node in the fleet")

// Node is a node as it joins a fleet.
type Node struct {
	// Name is unique in the fleet.
	Name string
	// Kind names the hardware and the policy together, for reports; nodes of a kind share them.
	Kind string
	// State is the node with the pods that it has. Pods that it admits need no entry in Used.
	State *node.State
	// Allocatable is what the pods of the node may request together; Used is what they request
	// already.
	Allocatable, Used Amounts
}

// Fleet is a set of nodes with their pods. The zero value is not usable; see New.
type Fleet struct {
	scoring Scoring
	ranking *Ranking
	members []*View // ascending by name
	byName  map[string]int
	classes map[string]*Class
	rules   Rules // nil: none
	// changes lists the members that changed, in order; a member may be in it many times.
	changes []int32
}

// New makes a fleet of nodes, which need not be in order. The error names two nodes of one name or
// a node without a state.
func New(scoring Scoring, nodes []Node) (*Fleet, error) {
	f := &Fleet{scoring: scoring, byName: make(map[string]int, len(nodes)), classes: map[string]*Class{}}
	for i := range nodes {
		if nodes[i].State == nil {
			return nil, fmt.Errorf("node %s has no state", nodes[i].Name)
		}
		f.members = append(f.members, &View{Node: nodes[i]})
	}
	slices.SortStableFunc(f.members, func(a, b *View) int { return strings.Compare(a.Name, b.Name) })
	for i, m := range f.members {
		if _, twice := f.byName[m.Name]; twice {
			return nil, fmt.Errorf("two nodes have the name %s", m.Name)
		}
		f.byName[m.Name] = i
	}
	f.Weigh(nil)
	return f, nil
}

// Node is a node as it is now.
func (f *Fleet) Node(name string) (Node, bool) {
	i, ok := f.byName[name]
	if !ok {
		return Node{}, false
	}
	return f.members[i].Node, true
}

// Place puts a pod on a node by the node's own planner. A plan that rejects the pod changes
// nothing; the amounts are not compared, as a kubelet compares them for itself. The error is
// ErrUnknown, one of node.State.Apply, or one of the fleet's rules.
func (f *Fleet) Place(name string, pod Pod) (*node.Plan, error) {
	i, ok := f.byName[name]
	if !ok {
		return nil, fmt.Errorf("%s: %w", name, ErrUnknown)
	}
	v, plan, err := f.members[i].Place(pod)
	if v == f.members[i] {
		return plan, err
	}
	f.changed(i, v)
	if f.rules != nil && err == nil {
		if err = f.rules.Placed(&pod, &v.Node); err != nil {
			err = fmt.Errorf("pod %s on node %s: %w", pod.ID(), name, err)
		}
	}
	return plan, err
}

// changed gives a member its next view, which all classes will see.
func (f *Fleet) changed(i int, next *View) {
	f.members[i] = next
	f.changes = append(f.changes, int32(i))
}

// Weigh sets which requests are typical, see NewRanking.
func (f *Fleet) Weigh(shapes []Shape) {
	f.ranking = NewRanking(f.scoring, shapes)
	for i, m := range f.members {
		f.members[i] = f.ranking.View(m.Node)
	}
	clear(f.classes)
}

// Placement is what became of one pod.
type Placement struct {
	// Node is where it is; empty: nowhere.
	Node  string
	Grant *node.Grant
	// Why counts the nodes that did not take it, by reason; nil where it was placed.
	Why []Count
}

// FitOf places a pod of a class on the best node.
func (f *Fleet) FitOf(c *Class, pod Pod) (Placement, error) {
	name, found, why, err := f.best(c, &pod)
	if err != nil || !found {
		return Placement{Why: why}, err
	}
	plan, err := f.Place(name, pod)
	if err != nil {
		return Placement{}, err
	}
	if plan.Rejection != nil { // An answer was kept beyond the change that made it wrong.
		return Placement{}, fmt.Errorf("node %s rejects pod %s, which it was to take: %w", name, pod.ID(), plan.Rejection)
	}
	return Placement{Node: name, Grant: plan.Grant}, nil
}
