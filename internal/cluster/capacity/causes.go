package capacity

import (
	"cmp"
	"slices"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
)

// emptyNode is a node without pods.
type emptyNode struct {
	group string
	view  *fleet.View
}

// reject adds pods of a class to the cause for the nearest of their reasons, and returns its text.
// Pods of a class that is nil are looked at each time.
func (r *run) reject(class *fleet.Class, pod fleet.Pod, why []fleet.Count, pods int64) (string, error) {
	nearest := slices.MinFunc(why, func(a, b fleet.Count) int {
		return cmp.Or(cmp.Compare(distance(a.Why), distance(b.Why)), cmp.Compare(b.Nodes, a.Nodes))
	})
	text := Text(nearest.Why)
	c, ok := r.causes[text]
	if !ok {
		c = &Cause{Nearest: nearest.Why, Nodes: nearest.Nodes, Example: pod}
		c.Rest = slices.DeleteFunc(slices.Clone(why), func(w fleet.Count) bool { return w == nearest })
		if err := r.account(c, nearest); err != nil {
			return "", err
		}
		r.causes[text] = c
	}
	c.Pods += pods
	if nearest.Rule == "" && !nearest.NotAllowed && r.isHomeless(class, &pod) {
		r.Never += pods
		r.NeverMilli += pods * pod.Asks.Milli
		c.Never += pods
	}
	return text, nil
}

// isHomeless reports whether no kind of node takes the pod, however empty it is.
func (r *run) isHomeless(class *fleet.Class, pod *fleet.Pod) bool {
	if class == nil {
		return r.oneMore(pod) == ""
	}
	is, known := r.homeless[class]
	if !known {
		is = r.oneMore(pod) == ""
		r.homeless[class] = is
	}
	return is
}

// account adds the relevant node and further information to a cause. If the reason is a rule, it
// proposes no additional node, because the effect on the pods of other nodes is not known.
func (r *run) account(c *Cause, nearest fleet.Count) (err error) {
	if nearest.PerNode {
		c.Node, _ = r.Fleet.Node(nearest.First)
		c.Detail, c.Remedy = c.Example.PerNode.Explain()
		c.OneMore = r.oneMore(&c.Example)
		return nil
	}
	if nearest.Rule == "" {
		c.Node, c.Takes, err = r.otherwise(c.Example, nearest.Why)
		c.OneMore = r.oneMore(&c.Example)
		return err
	}
	c.Node, _ = r.Fleet.Node(nearest.First)
	rule, err := r.Fleet.Rule(&c.Example)
	if err == nil && rule != nil {
		c.Detail, c.Remedy = rule.Explain(&c.Node)
	}
	return err
}

// otherwise returns the node to report for a rejection. takes reports whether it would take the pod
// if the pod were allowed to run there.
func (r *run) otherwise(pod fleet.Pod, why fleet.Why) (n fleet.Node, takes bool, err error) {
	if why.NotAllowed {
		everywhere := pod
		everywhere.Allowed, everywhere.Constraint = nil, ""
		name, found, _, err := r.Fleet.Best(everywhere)
		if err != nil {
			return n, false, err
		}
		if found {
			n, _ = r.Fleet.Node(name)
			return n, true, nil
		}
	}
	n, _ = r.Fleet.Rejecting(pod, why)
	return n, false, nil
}

// oneMore returns the first group with a kind of which a node without pods would take the pod.
func (r *run) oneMore(pod *fleet.Pod) string {
	if r.empty == nil {
		r.empty = emptyNodes(r.kinds, r.options.Scoring)
	}
	for _, n := range r.empty {
		if n.view.Judge(pod).Fits {
			return n.group
		}
	}
	return ""
}

// emptyNodes returns a node without pods for the first kind of each group.
func emptyNodes(kinds []Kind, scoring fleet.Scoring) []emptyNode {
	nodes, seen, ranking := []emptyNode{}, map[string]bool{}, fleet.NewRanking(scoring, nil)
	for _, k := range kinds {
		group := cmp.Or(k.Group, k.Name)
		if seen[group] {
			continue
		}
		seen[group] = true
		if empty, err := bare(k, k.State.Policy()); err == nil {
			n := fleet.Node{Name: k.Name, Kind: group, State: empty.State, Allocatable: empty.Allocatable}
			nodes = append(nodes, emptyNode{group, ranking.View(n)})
		}
	}
	return nodes
}

// distance returns how far a node with this reason is from taking the pod. Smaller is nearer.
func distance(w fleet.Why) int {
	switch {
	case w.NotAllowed:
		return 3
	case w.Amounts:
		return 2
	case w.Rule == "" && !w.PerNode:
		return 1
	}
	return 0
}
