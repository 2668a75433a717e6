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

// Node is a node to add to a fleet.
type Node struct {
	// Name is unique in the fleet.
	Name string
	// Kind names the hardware and the policy together, for reports. Nodes of a kind share them.
	Kind string
	// State is the node with its pods. Used need not include pods that State admits later.
	State *node.State
	// Allocatable is what the pods of the node may request together. Used is what they already
	// request.
	Allocatable, Used Amounts
}

// Fleet is a set of nodes with their pods. The zero value is not usable; see New.
type Fleet struct {
	ranking *Ranking
	members []*View // ascending by name
	byName  map[string]int
	classes map[string]*Class
	rules   Rules // nil: none
	// counts has the number of pods of each workload with a limit per node that the fleet has
	// placed, by the name of the workload, parallel to the members.
	counts map[string][]int64
	// changes lists the members that changed, in order; a member may be in it many times.
	changes []int32
}

// New returns a fleet of nodes, which may be in any order. Fleets can share a ranking: what it has
// computed is not computed again. The error names two nodes with the same name or a node without a
// state.
func New(ranking *Ranking, nodes []Node) (*Fleet, error) {
	f := &Fleet{ranking: ranking, byName: make(map[string]int, len(nodes)), classes: map[string]*Class{}, counts: map[string][]int64{}}
	for i := range nodes {
		if nodes[i].State == nil {
			return nil, fmt.Errorf("node %s has no state", nodes[i].Name)
		}
		f.members = append(f.members, ranking.View(nodes[i]))
	}
	slices.SortStableFunc(f.members, func(a, b *View) int { return strings.Compare(a.Name, b.Name) })
	for i, m := range f.members {
		if _, twice := f.byName[m.Name]; twice {
			return nil, fmt.Errorf("two nodes have the name %s", m.Name)
		}
		f.byName[m.Name] = i
	}
	return f, nil
}

// Copy returns a fleet with the same nodes and pods, which changes apart from f. It obeys no rules:
// those of f know the pods on the nodes of f. It costs a pointer for each node, and a number for
// each node and each workload with a limit.
func (f *Fleet) Copy() *Fleet {
	counts := make(map[string][]int64, len(f.counts))
	for workload, on := range f.counts {
		counts[workload] = slices.Clone(on)
	}
	return &Fleet{ranking: f.ranking, members: slices.Clone(f.members), byName: f.byName, classes: map[string]*Class{}, counts: counts}
}

// Part returns a fleet of the nodes of f with these names, as they are now. Others are left out. It
// changes apart from f, and obeys no rules. For a pod that may run on few nodes, it is much cheaper
// to ask than f, which has an answer of every node for each Constraint.
func (f *Fleet) Part(names []string) *Fleet {
	out := &Fleet{ranking: f.ranking, byName: make(map[string]int, len(names)), classes: map[string]*Class{}, counts: map[string][]int64{}}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		if i, is := f.byName[name]; is {
			out.byName[name] = len(out.members)
			out.members = append(out.members, f.members[i])
		}
	}
	return out
}

// Node returns a node in its current state.
func (f *Fleet) Node(name string) (Node, bool) {
	i, ok := f.byName[name]
	if !ok {
		return Node{}, false
	}
	return f.members[i].Node, true
}

// Place places a pod on a node with the node's own planner. If the plan rejects the pod, nothing
// changes. Place does not compare the amounts, just as a kubelet compares them on its own, nor
// limits per node. The error is ErrUnknown, an error of node.State.Apply, or an error of the
// fleet's rules.
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
	if on := f.onNodes(pod.PerNode); on != nil {
		on[i]++
	}
	if f.rules != nil && err == nil {
		if err = f.rules.Placed(&pod, &v.Node); err != nil {
			err = fmt.Errorf("pod %s on node %s: %w", pod.ID(), name, err)
		}
	}
	return plan, err
}

// changed replaces the view of a member. All classes see the change.
func (f *Fleet) changed(i int, next *View) {
	f.members[i] = next
	f.changes = append(f.changes, int32(i))
}

// Weigh sets the typical requests; see NewRanking.
func (f *Fleet) Weigh(shapes []Shape) {
	f.ranking = NewRanking(f.ranking.scoring, shapes)
	for i, m := range f.members {
		f.members[i] = f.ranking.View(m.Node)
	}
	clear(f.classes)
}

// Placement is the result for one pod.
type Placement struct {
	// Node is the node of the pod. It is empty if the pod is not placed.
	Node  string
	Grant *node.Grant
	// Why counts the nodes that did not take the pod, by reason. It is nil if the pod is placed.
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
	if plan.Rejection != nil { // An answer outlived the change that made it wrong.
		return Placement{}, fmt.Errorf("node %s rejects pod %s, which it was to take: %w", name, pod.ID(), plan.Rejection)
	}
	return Placement{Node: name, Grant: plan.Grant}, nil
}
