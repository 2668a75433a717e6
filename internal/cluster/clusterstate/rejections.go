package clusterstate

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/paddock-project/paddock/api/v1alpha1"
)

// Rejections counts the pods of one class that nodes of one group rejected for one cause.
type Rejections struct {
	Group, Class, Cause string
	Pods                int64
	Nodes               int
}

// Rejection is one pod that a node rejected.
type Rejection struct {
	Node, Group string
	v1alpha1.Rejection
}

// counters are the counts of one node.
type counters struct {
	group  string
	uid    types.UID // of the PaddockNode
	counts []v1alpha1.RejectionCount
}

// count collects what nodes rejected, including nodes that are no longer managed.
func (c *Cluster) count(m *Moment) {
	m.Last, m.counters = nil, map[string]counters{}
	for _, name := range slices.Sorted(maps.Keys(c.nodes)) {
		n := c.nodes[name]
		if n.object == nil || n.paddock == nil {
			continue
		}
		group := c.groups.of(n.object, n.paddock)
		m.counters[name] = counters{group, n.paddock.UID, n.paddock.Status.Rejections.Counts}
		for _, r := range n.paddock.Status.Rejections.Last {
			m.Last = append(m.Last, Rejection{name, group, r})
		}
	}
	m.Rejections = sum(m.counters)
	slices.SortStableFunc(m.Last, func(a, b Rejection) int { return b.Time.Compare(a.Time.Time) })
}

// Since returns what the nodes rejected after an earlier moment of the same cluster.
func (m *Moment) Since(before *Moment) []Rejections {
	grown := make(map[string]counters, len(m.counters))
	for name, now := range m.counters {
		if then, there := before.counters[name]; there && then.uid == now.uid {
			now.counts = Grown(then.counts, now.counts)
		}
		grown[name] = now
	}
	return sum(grown)
}

// sum adds counters up and sorts the sums, the most frequent first.
func sum(all map[string]counters) []Rejections {
	sums := map[Rejections]Rejections{}
	for _, n := range all {
		for _, r := range n.counts {
			key := Rejections{Group: n.group, Class: r.Class, Cause: r.Cause}
			s, there := sums[key]
			if !there {
				s = key
			}
			s.Pods += max(0, r.Count)
			s.Nodes++
			sums[key] = s
		}
	}
	return slices.SortedFunc(maps.Values(sums), func(a, b Rejections) int {
		return cmp.Or(cmp.Compare(b.Pods, a.Pods), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Class, b.Class), cmp.Compare(a.Cause, b.Cause))
	})
}

// Grown returns by how much counters grew. Counters start at zero when an agent starts, so a
// counter that is smaller than before counts in full.
func Grown(before, now []v1alpha1.RejectionCount) []v1alpha1.RejectionCount {
	type key struct{ class, cause string }
	had := make(map[key]int64, len(before))
	for _, n := range before {
		had[key{n.Class, n.Cause}] = n.Count
	}
	var out []v1alpha1.RejectionCount
	for _, n := range now {
		if old := had[key{n.Class, n.Cause}]; n.Count >= old {
			n.Count -= old
		}
		if n.Count > 0 {
			out = append(out, n)
		}
	}
	return out
}

func sameRejection(a, b v1alpha1.Rejection) bool {
	return a.UID == b.UID && a.Time.Equal(&b.Time) && a.Cause == b.Cause && a.Message == b.Message
}
