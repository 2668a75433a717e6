package clusterstate

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

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

// Decisions counts what the agents of the nodes of one group decided.
type Decisions struct {
	Group string
	// Policy describes the policy of the group. It is empty if it cannot be read.
	Policy string
	Nodes  int
	// Decided counts the pods and resizes that were admitted or rejected, and Rejected the rejected
	// ones. Uncounted is the number of nodes whose agents publish only rejections: unless it is 0,
	// Decided does not include all of Rejected.
	Decided, Rejected int64
	Uncounted         int
	// From and To are the earliest and the latest time since which an agent counts. They are zero
	// if no agent publishes it.
	From, To time.Time
}

// counters are the counts of one node.
type counters struct {
	group, policy string
	uid           types.UID // of the PaddockNode
	v1alpha1.Rejections
}

// count collects what nodes decided, including nodes that are no longer managed.
func (c *Cluster) count(m *Moment) {
	m.Last, m.counters = nil, map[string]counters{}
	policies := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(c.nodes)) {
		n := c.nodes[name]
		if n.object == nil || n.paddock == nil {
			continue
		}
		group := c.groups.of(n.object, n.paddock)
		policy := policies[group]
		if policy == "" {
			policy = n.policy()
			policies[group] = policy
		}
		m.counters[name] = counters{group, policy, n.paddock.UID, n.paddock.Status.Rejections}
		for _, r := range n.paddock.Status.Rejections.Last {
			m.Last = append(m.Last, Rejection{name, group, r})
		}
	}
	m.Rejections, m.Decisions = sum(m.counters)
	slices.SortStableFunc(m.Last, func(a, b Rejection) int { return b.Time.Compare(a.Time.Time) })
}

// Since returns what the nodes rejected and decided after an earlier moment of the same cluster.
func (m *Moment) Since(before *Moment) ([]Rejections, []Decisions) {
	after := make(map[string]counters, len(m.counters))
	for name, now := range m.counters {
		if then, there := before.counters[name]; there && then.uid == now.uid {
			now.Rejections = grown(then.Rejections, now.Rejections)
		}
		after[name] = now
	}
	return sum(after)
}

// sum adds counters up and sorts the sums, the most frequent first.
func sum(all map[string]counters) ([]Rejections, []Decisions) {
	sums, groups := map[Rejections]Rejections{}, map[string]Decisions{}
	for _, n := range all {
		groups[n.group] = groups[n.group].Plus(n.decisions())
		for _, r := range n.Counts {
			key := Rejections{Group: n.group, Class: r.Class, Cause: r.Cause}
			s, there := sums[key]
			if !there {
				s = key
			}
			s.Pods = counted(s.Pods, r.Count)
			s.Nodes++
			sums[key] = s
		}
	}
	rows := slices.SortedFunc(maps.Values(sums), func(a, b Rejections) int {
		return cmp.Or(cmp.Compare(b.Pods, a.Pods), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Class, b.Class), cmp.Compare(a.Cause, b.Cause))
	})
	return rows, slices.SortedFunc(maps.Values(groups), func(a, b Decisions) int {
		return cmp.Or(cmp.Compare(b.Rejected, a.Rejected), cmp.Compare(a.Group, b.Group))
	})
}

// decisions returns the decisions of one node.
func (n *counters) decisions() Decisions {
	d := Decisions{Group: n.group, Policy: n.policy, Nodes: 1}
	for _, r := range n.Counts {
		d.Rejected = counted(d.Rejected, r.Count)
	}
	if n.Since == nil {
		d.Uncounted = 1
		return d
	}
	// A status can have any numbers. What was rejected was decided.
	d.Decided, d.From, d.To = max(d.Rejected, n.Decided), n.Since.Time, n.Since.Time
	return d
}

// counted adds counters, of which a status can have any. A negative one is 0, and a sum that is too
// large is the largest number.
func counted(a, b int64) int64 {
	if a, b = max(0, a), max(0, b); a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Plus returns the decisions of both. Group and Policy are those of the first that has one.
func (d Decisions) Plus(e Decisions) Decisions {
	d.Group, d.Policy = cmp.Or(d.Group, e.Group), cmp.Or(d.Policy, e.Policy)
	d.Nodes += e.Nodes
	d.Decided = counted(d.Decided, e.Decided)
	d.Rejected = counted(d.Rejected, e.Rejected)
	d.Uncounted += e.Uncounted
	if d.From.IsZero() || !e.From.IsZero() && e.From.Before(d.From) {
		d.From = e.From
	}
	if e.To.After(d.To) {
		d.To = e.To
	}
	return d
}

// grown returns by how much counters grew. Counters start at zero when an agent starts: if the time
// of that differs, they count in full. Agents that do not publish the time may have started again
// as well, so a counter of theirs that is smaller than before counts in full.
func grown(before, now v1alpha1.Rejections) v1alpha1.Rejections {
	if !before.Since.Equal(now.Since) {
		return now
	}
	type key struct{ class, cause string }
	had := make(map[key]int64, len(before.Counts))
	for _, n := range before.Counts {
		had[key{n.Class, n.Cause}] = n.Count
	}
	var counts []v1alpha1.RejectionCount
	for _, n := range now.Counts {
		if old := max(0, had[key{n.Class, n.Cause}]); n.Count >= old {
			n.Count -= old
		}
		if n.Count > 0 {
			counts = append(counts, n)
		}
	}
	now.Counts = counts
	if old := max(0, before.Decided); now.Decided >= old {
		now.Decided -= old
	}
	return now
}

func sameRejection(a, b v1alpha1.Rejection) bool {
	return a.UID == b.UID && a.Time.Equal(&b.Time) && a.Cause == b.Cause && a.Message == b.Message
}
