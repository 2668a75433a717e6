package moves

import (
	"cmp"
	"slices"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Advice describes which pods to delete so that a larger pod fits, on a node that moves no running
// pod. Their controllers create them again.
type Advice struct {
	// Before and After are as in Gain.
	Before, After Room
	// Deleted are the pods, with what they have and what they get when they come again beside the
	// larger pod.
	Deleted []Deletion
	// Plans and Cut are as in Gain.
	Plans int
	Cut   bool
}

// Deletion is a pod that is deleted and comes again.
type Deletion struct{ From, To *node.Grant }

// maxDeletions is the maximum number of pods that are deleted. Three pods can come again in six
// orders.
const maxDeletions = 3

// Advise looks for at most most pods of one NUMA node, and at most three, without which the largest
// pod that fits on one NUMA node has the most CPUs. Of equal results, it prefers the one with the
// fewest pods. The larger pod comes first, and then the deleted ones come again: each of them fits,
// in every order. Terms.Consent decides which pods may be deleted: those that may move to other
// NUMA nodes. Terms.Fits limits the larger pod, because the deleted ones come again. All plans are
// those of the node, which may be a kubelet, so they are the proof.
func Advise(s *node.State, most int, terms Terms) Advice {
	g := newGather(s, min(most, maxDeletions), terms)
	before := g.largest(s)
	best := Advice{Before: before, After: before}
	if !s.Policy().StaticCPU || s.Policy().Topology == node.TopologyNone {
		return best
	}
	for _, set := range g.deletions(before.CPUs) {
		if g.cut || set.cpus <= best.After.CPUs {
			break // They are in descending order.
		}
		if found, is := g.without(set); is {
			best.After, best.Deleted = found.After, found.Deleted
		}
	}
	best.Plans, best.Cut = g.plans, g.cut
	return best
}

// deletion is a set of pods on a NUMA node, with the number of CPUs that are free there without
// them.
type deletion struct {
	pods []*node.Grant
	cpus int
}

// deletions returns the sets without which more than that many CPUs are free on a NUMA node, and
// for which enough CPUs are free elsewhere: those with the most CPUs first, then those with the
// fewest pods.
func (g *gather) deletions(more int) []deletion {
	var all []deletion
	total := g.state.AvailableCPUs()
	for _, unit := range g.state.Machine().CPUNodes() {
		free, elsewhere := total.IntersectionLen(unit.CPUs), total.Difference(unit.CPUs).Len()
		var here []*node.Grant
		for grant := range g.state.AllGrants() {
			if grant.CPUs().IntersectionLen(unit.CPUs) > 0 && g.consent(grant) == request.MoveMemory {
				here = append(here, grant)
			}
		}
		var extend func(from, cpus, spare int, pods []*node.Grant)
		extend = func(from, cpus, spare int, pods []*node.Grant) {
			n := cpus / g.unit * g.unit
			for n > more && !g.takes(n) {
				n -= g.unit
			}
			if n > more && spare >= 0 && len(pods) > 0 && len(all) < mostSets {
				all = append(all, deletion{slices.Clone(pods), n})
			}
			for i := from; i < len(here) && len(pods) < g.most; i++ {
				leaves := here[i].CPUs().IntersectionLen(unit.CPUs)
				extend(i+1, cpus+leaves, spare-leaves, append(pods, here[i]))
			}
		}
		extend(0, free, elsewhere, nil)
	}
	g.cut = g.cut || len(all) == mostSets
	slices.SortStableFunc(all, func(a, b deletion) int {
		return cmp.Or(cmp.Compare(b.cpus, a.cpus), cmp.Compare(len(a.pods), len(b.pods)))
	})
	return all
}

// consent returns how far a pod may be moved.
func (g *gather) consent(grant *node.Grant) request.Consent {
	if g.terms.Consent == nil {
		return grant.Pod.Moves
	}
	return g.terms.Consent(grant)
}

// without plans the larger pod without a set of pods, and then these in every order.
func (g *gather) without(set deletion) (Advice, bool) {
	left := g.state
	for _, grant := range set.pods {
		left = left.Release(grant.Pod.UID)
	}
	left = left.Swept()
	probe, on := g.probe(left, set.cpus)
	if probe == nil {
		return Advice{}, false
	}
	with, err := left.Apply(probe)
	if err != nil {
		return Advice{}, false
	}
	found := Advice{After: Room{set.cpus, on}}
	members := make([]int, len(set.pods))
	for i := range members {
		members[i] = i
	}
	for o, order := range g.sequences(members) {
		s, again := with, make([]Deletion, len(set.pods))
		for _, i := range order {
			plan := g.plan(s, set.pods[i].Pod)
			if plan.Rejection != nil {
				return Advice{}, false
			}
			if s, err = s.Apply(plan); err != nil {
				return Advice{}, false
			}
			again[i] = Deletion{set.pods[i], plan.Grant}
		}
		if o == 0 {
			found.Deleted = again
		}
	}
	return found, true
}
