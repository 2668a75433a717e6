package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// maxSets bounds how many sets of pods are looked at before they are planned.
const maxSets = 100_000

// victim is a pod that might go.
type victim struct {
	grant *node.Grant
	// kind tells apart what it holds where. Of pods that hold the same, one is as good as the
	// other, so that the first to go is the one that can be spared best.
	kind string
	// freed is what it holds of the resource that was short, by NUMA node.
	freed []int64
	// sooner is how many pods of its kind can be spared sooner.
	sooner int
}

// spare looks for the fewest pods whose absence admits the pod; among equally many those of the
// lowest priority, and then the youngest: no other set of that size would spare a pod that
// matters more.
func (x *search) spare() ([]Proposal, string) {
	x.what, x.limit = "the absence of pods", maxPodPlans
	victims := x.victims()
	if len(victims) == 0 {
		return nil, "no pod holds anything"
	}
	everybody := x.state
	for _, v := range victims {
		everybody = everybody.Release(v.grant.Pod.UID)
	}
	if x.plan(everybody, x.pod) == nil {
		return nil, "even the empty node refuses it"
	}
	for size := 1; size <= len(victims); size++ {
		found, complete := x.ofSize(victims, size)
		if found != nil {
			return []Proposal{x.without(found)}, fmt.Sprintf("%s less would admit it, and no fewer", countText(size, "pod"))
		}
		if !complete {
			break
		}
	}
	found := x.greedy(victims)
	if found == nil {
		return nil, "only of more pods than the bound of the search allows"
	}
	return []Proposal{x.without(found)}, fmt.Sprintf("%s less would admit it; fewer may, the search for them reached its bound", countText(len(found), "pod"))
}

// victims are the pods that hold anything, the one to spare first first.
func (x *search) victims() []victim {
	var out []victim
	for _, g := range x.state.Grants() {
		kind := x.kindOf(g)
		if kind != "" {
			out = append(out, victim{grant: g, kind: kind, freed: x.freed(g)})
		}
	}
	slices.SortFunc(out, func(a, b victim) int {
		p, q := a.grant.Pod, b.grant.Pod
		return cmp.Or(cmp.Compare(p.Priority, q.Priority), cmp.Compare(q.Created, p.Created),
			cmp.Compare(b.grant.Sequence, a.grant.Sequence), strings.Compare(p.UID, q.UID))
	})
	kinds := map[string]int{}
	for i := range out {
		out[i].sooner = kinds[out[i].kind]
		kinds[out[i].kind]++
	}
	return out
}

// kindOf is empty for a pod that holds nothing.
func (x *search) kindOf(g *node.Grant) string {
	var b strings.Builder
	for _, n := range x.state.Machine().CPUNodes() {
		if k := g.CPUs().IntersectionLen(n.CPUs); k > 0 {
			fmt.Fprintf(&b, "cpu %d on %d;", k, n.ID)
		}
	}
	for _, m := range blocksOf(g) {
		fmt.Fprintf(&b, "%s %d on %d;", m.Type, m.Size, m.Nodes)
	}
	for _, h := range g.Devices() {
		for _, id := range h.IDs {
			d, _ := x.state.Devices().Inventory().Device(h.Resource, id)
			fmt.Fprintf(&b, "%s on %d;", h.Resource, d.Nodes)
		}
	}
	return b.String()
}

// freed is how much of what was short the pod gives back on each NUMA node; bytes of a group
// count on each of its NUMA nodes.
func (x *search) freed(g *node.Grant) []int64 {
	out := make([]int64, mask.MaxNode+1)
	if x.refusal.Resource == request.CPU {
		for _, n := range x.state.Machine().CPUNodes() {
			out[n.ID] = int64(g.CPUs().IntersectionLen(n.CPUs))
		}
		return out
	}
	for _, m := range blocksOf(g) {
		for n := range m.Nodes.All() {
			if m.Type == x.refusal.Resource {
				out[n] += m.Size
			}
		}
	}
	return out
}

// enough is a condition that every answer meets: after the pods are gone, as many NUMA nodes as
// the policy allows have together what was short. It spares most of the plans.
type enough struct {
	free  []int64
	nodes int
	want  int64
}

// threshold is nil where nothing can be said before planning: about devices, about refusals that
// name no amount, and where CPUs or memory of init containers are reused.
func (x *search) threshold() *enough {
	r, policy := x.refusal, x.state.Policy()
	if r.Resource != request.CPU && !isMemory(r.Resource) || len(r.Nodes) == 0 {
		return nil
	}
	if slices.ContainsFunc(x.pod.Containers, func(c request.Container) bool { return c.Lane == request.Init }) {
		return nil
	}
	e := &enough{free: make([]int64, mask.MaxNode+1), nodes: len(r.Nodes), want: r.Wanted}
	switch {
	case policy.Topology == node.TopologySingleNUMANode:
		e.nodes = 1
	case policy.Topology == node.TopologyRestricted && !policy.CPU.AlignBySocket:
		for _, a := range x.state.Plan(x.pod).Trace.Alignments {
			for _, f := range a.Families {
				if a.Container == r.Container && f.Resource == r.Resource && f.Preferred > 0 {
					e.nodes = f.Preferred
				}
			}
		}
	}
	if r.Resource == request.CPU {
		for _, n := range x.state.Machine().CPUNodes() {
			e.free[n.ID] = int64(x.state.AvailableCPUs().IntersectionLen(n.CPUs))
		}
		return e
	}
	t := x.state.Machine().MemoryType(r.Resource)
	for _, n := range x.state.Memory().Nodes() {
		for other := range n.Group.All() {
			if t >= 0 {
				e.free[other] += n.Free[t] // As in freed: a group's bytes are anywhere in it.
			}
		}
	}
	return e
}

func (e *enough) met(gone []victim) bool {
	if e == nil {
		return true
	}
	var have [mask.MaxNode + 1]int64
	copy(have[:], e.free)
	for _, v := range gone {
		for n, k := range v.freed {
			have[n] += k
		}
	}
	slices.Sort(have[:])
	var sum int64
	for i := range e.nodes {
		sum += have[len(have)-1-i]
	}
	return sum >= e.want
}

// ofSize tries the sets of that many pods, those first whose most precious pod matters least.
// complete tells whether all were tried.
func (x *search) ofSize(victims []victim, size int) (found []victim, complete bool) {
	threshold, seen := x.threshold(), 0
	var walk func(gone []victim, below int) bool
	walk = func(gone []victim, below int) bool {
		if len(gone) == size {
			seen++
			if seen > maxSets || x.spent() {
				return true
			}
			if !dominated(gone) && threshold.met(gone) && x.admits(gone) {
				found = slices.Clone(gone)
				return true
			}
			return false
		}
		// The last one chosen is the most precious; the others are chosen below it.
		missing := size - len(gone)
		for i := missing - 1; i < below; i++ {
			if victims[i].sooner >= missing {
				continue // Not all pods of its kind before it can be chosen: see dominated.
			}
			if walk(append(slices.Clone(gone), victims[i]), i) {
				return true
			}
		}
		return false
	}
	ended := walk(nil, len(victims))
	return found, !ended
}

// dominated tells whether one of the chosen could be exchanged for a pod of its kind that can be
// spared sooner: the set with that one is looked at, too.
func dominated(gone []victim) bool {
	return slices.ContainsFunc(gone, func(v victim) bool {
		sooner := 0
		for _, w := range gone {
			if w.kind == v.kind && w.sooner < v.sooner {
				sooner++
			}
		}
		return sooner < v.sooner
	})
}

func (x *search) admits(gone []victim) bool {
	s := x.state
	for _, v := range gone {
		s = s.Release(v.grant.Pod.UID)
	}
	return x.plan(s, x.pod) != nil
}

// greedy lets pods go until the pod is admitted, and takes back whoever need not.
func (x *search) greedy(victims []victim) []victim {
	x.limit += maxPodPlans
	low, high := 1, len(victims)
	for low < high {
		if middle := (low + high) / 2; x.admits(victims[:middle]) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	gone := slices.Clone(victims[:high])
	if !x.admits(gone) {
		return nil
	}
	for i := len(gone) - 1; i >= 0; i-- {
		fewer := slices.Delete(slices.Clone(gone), i, i+1)
		if x.admits(fewer) {
			gone = fewer
		}
	}
	return gone
}

func (x *search) without(gone []victim) Proposal {
	p := Proposal{Kind: Pods}
	s := x.state
	var names []string
	for _, v := range gone {
		pod := v.grant.Pod
		p.Without = append(p.Without, Absent{pod.ID(), pod.UID, pod.Priority})
		names = append(names, pod.ID())
		s = s.Release(pod.UID)
	}
	p.Text = "without " + strings.Join(names, ", ")
	x.plans++
	if plan := s.Plan(x.pod); plan.Grant != nil {
		p.Outcome = outcome(s, plan)
	}
	return p
}
