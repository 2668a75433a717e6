package cpu

import (
	"fmt"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
)

// Parts are the two parts of a pool whose shared part has no isolated CPU (R-CPU-135): the CPUs
// from which its exclusive containers get their slices, and the others.
type Parts struct{ Exclusive, Shared int }

// isolatedCPUs is hint.Need.Which for CPUs that are isolated.
const isolatedCPUs = "isolated"

// HintsApart is Hints for a pool in parts. A mask must have enough CPUs for both parts, and for the
// shared part enough that are not isolated. free are the CPUs that are free for pods, isolated or
// not. have are the CPUs that the pool has already, which a mask must contain.
func HintsApart(m *machine.Machine, o Options, free, have cpuset.Set, parts Parts) hint.Set {
	isolated, nodes := o.IsolatedCPUs(m), m.CPUNodes()
	all := free.Union(have)
	others := all.Difference(isolated)
	first, amount := all, parts.Exclusive+parts.Shared // IsolatedFirst: any CPU serves for the exclusive part.
	which := ""
	if o.Isolated == IsolatedOnly {
		first, amount, which = all.Intersection(isolated), parts.Exclusive, isolatedCPUs
	}
	offers := [2][]int64{make([]int64, nodes[len(nodes)-1].ID+1), make([]int64, nodes[len(nodes)-1].ID+1)}
	sizes := make([][2]int, len(nodes))
	var candidates mask.Mask
	for i, n := range nodes {
		candidates = candidates.With(n.ID)
		offers[0][n.ID], offers[1][n.ID] = int64(first.IntersectionLen(n.CPUs)), int64(others.IntersectionLen(n.CPUs))
		inside := isolated.IntersectionLen(n.CPUs)
		if sizes[i] = [2]int{n.Size, n.Size - inside}; o.Isolated == IsolatedOnly {
			sizes[i][0] = inside
		}
	}
	needs := []hint.Need{
		{Resource: resource, Which: which, Amount: int64(amount), Offer: offers[0]},
		{Resource: resource, Which: "not isolated", Amount: int64(parts.Shared), Offer: offers[1]},
	}
	if first.Len() < amount || others.Len() < parts.Shared {
		return hint.Set{Resource: resource, Kind: hint.None, Why: scarceApart(o, parts, first.Len(), others.Len()), Needs: needs}
	}
	preferred := fewest(sizes, [2]int{amount, parts.Shared})
	return hint.Set{
		Resource: resource, Kind: hint.Fits, Candidates: candidates, Required: m.NodesOf(have),
		Needs: needs, Preferred: preferred, Sockets: socketRule(m, o, preferred),
	}
}

func scarceApart(o Options, parts Parts, first, others int) string {
	if o.Isolated == IsolatedOnly {
		return fmt.Sprintf("the pool needs %s; free are %d isolated %s and %d %s", parts.Words(o),
			first, form(first, "CPU", "CPUs"), others, form(others, "other", "others"))
	}
	return fmt.Sprintf("the pool needs %s; free are %d %s, %d of them not isolated", parts.Words(o), first, form(first, "CPU", "CPUs"), others)
}

// Words describes what a pool in parts needs.
func (p Parts) Words(o Options) string {
	switch {
	case p.Exclusive == 0:
		return fmt.Sprintf("%d %s not isolated", p.Shared, form(p.Shared, "CPU that is", "CPUs that are"))
	case o.Isolated == IsolatedOnly:
		return fmt.Sprintf("%d isolated %s and %d %s not isolated", p.Exclusive, form(p.Exclusive, "CPU", "CPUs"), p.Shared, form(p.Shared, "that is", "that are"))
	}
	return fmt.Sprintf("%d CPUs with %d that %s not isolated", p.Exclusive+p.Shared, p.Shared, form(p.Shared, "is", "are"))
}

// fewest returns the size of the smallest set of NUMA nodes whose sizes add up to what is wanted in
// both dimensions, or the number of all NUMA nodes if none does. For each number of NUMA nodes and
// each amount of the first dimension, it keeps the largest amount of the second one.
func fewest(sizes [][2]int, want [2]int) int {
	most := make([][]int, len(sizes)+1) // by number of NUMA nodes, then by the amount up to want[0]; -1 is out of reach
	for k := range most {
		most[k] = make([]int, want[0]+1)
		for i := range most[k] {
			most[k][i] = -1
		}
	}
	most[0][0] = 0
	for _, size := range sizes {
		for k := len(sizes) - 1; k >= 0; k-- {
			for amount, second := range most[k] {
				if second < 0 {
					continue
				}
				to := min(want[0], amount+size[0])
				most[k+1][to] = max(most[k+1][to], second+size[1])
			}
		}
	}
	for k := range most {
		if most[k][want[0]] >= want[1] {
			return k
		}
	}
	return len(sizes)
}
