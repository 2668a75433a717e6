package kueue

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/paddock-project/paddock/internal/cluster/capacity"
)

// kept has where the pods of a workload that is Ready are expected.
type kept struct {
	workload *Workload
	// since is when the workload became Ready.
	since time.Time
	// nodes has the number of pods of each group on each node, parallel to the groups. Nil means
	// that another process has judged the workload, so that they are planned again.
	nodes []map[string]int64
}

// replay places in the room what is kept for a workload and not bound yet, on the nodes on which it
// was expected. It reports whether there was room. If not there, it looks for other places for
// pods that have no domain.
func (g *ground) replay(ctx context.Context, k *kept, world *World) (fits bool, err error) {
	all, err := g.parts(k.workload, world)
	if err != nil {
		return false, nil //nolint:nilerr // It could be read before: a flavor is gone, and its pods do not start.
	}
	bound := g.bound[types.NamespacedName{Namespace: k.workload.Namespace, Name: k.workload.Name}]
	if len(k.nodes) == len(all.groups) {
		joint, err := g.room.Take(ctx, all.on(without(k.nodes, all.podSets, bound)))
		if err != nil || joint.Short == nil {
			return err == nil, err
		}
	}
	joint, err := g.room.Take(ctx, all.less(bound))
	if err != nil || joint.Short != nil {
		return false, err
	}
	k.nodes = nil // The places of pods that are bound are not known among these.
	if len(bound) == 0 {
		k.nodes = joint.Nodes
	}
	return true, nil
}

// without returns the numbers of pods less those that are bound: first those on the same node, and
// then as many of the same pod set on other nodes.
func without(nodes []map[string]int64, podSets []string, bound podCounts) []map[string]int64 {
	left := make([]map[string]int64, len(nodes))
	for i := range nodes {
		left[i] = maps.Clone(nodes[i])
	}
	for set, byNode := range bound {
		elsewhere := int64(0)
		for name, n := range byNode {
			for i := range left {
				if podSets[i] == set {
					n -= take(left[i], name, n)
				}
			}
			elsewhere += n
		}
		for i := range left {
			if podSets[i] != set {
				continue
			}
			for _, name := range slices.Sorted(maps.Keys(left[i])) {
				elsewhere -= take(left[i], name, elsewhere)
			}
		}
	}
	return left
}

// take subtracts at most n from the number of a node, and returns how much it subtracted.
func take(left map[string]int64, name string, n int64) int64 {
	n = min(n, left[name])
	left[name] -= n
	return n
}

// on returns the groups on these nodes alone.
func (p parts) on(nodes []map[string]int64) []capacity.Group {
	var out []capacity.Group
	for i, g := range p.groups {
		for _, name := range slices.Sorted(maps.Keys(nodes[i])) {
			of := g
			of.Node, of.Count = name, nodes[i][name]
			of.Pod.Name, of.Pod.UID = fmt.Sprintf("%s-%s", g.Pod.Name, name), fmt.Sprintf("%s@%s", g.Pod.UID, name)
			out = append(out, of)
		}
	}
	return out
}

// less returns the groups without as many pods as are bound.
func (p parts) less(bound podCounts) []capacity.Group {
	out := slices.Clone(p.groups)
	for set, byNode := range bound {
		n := int64(0)
		for _, k := range byNode {
			n += k
		}
		for i := range out {
			if p.podSets[i] == set {
				fewer := min(n, out[i].Count)
				out[i].Count -= fewer
				n -= fewer
			}
		}
	}
	return out
}
