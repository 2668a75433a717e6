package explain

import (
	"cmp"
	"slices"

	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// bound is a necessary condition for sets of pods whose absence admits the pod: once they are gone,
// the NUMA nodes with the most of the scarce resource, as many as the policy allows, have enough of
// it together. It avoids nearly all plans. Every set meets the zero bound.
type bound struct {
	want  int64
	nodes int // number of NUMA nodes that count
	free  []int64
	// top[i][k] is the amount that those k of the first i pods that free most would free, by NUMA
	// node. total[i][k] is the largest sum that k of the first i pods free. Both are the most that
	// k of these pods can achieve.
	top   [][][]int64
	total [][]int64
}

// erratic reports whether more free resources can be worse for the pod, because its containers are
// served one by one and may then be placed less favorably. Memory or CPUs that an init container
// leaves must be reused where they are. Under best-effort, a container may create a group of NUMA
// nodes that the next container cannot use.
func (x *search) erratic() bool {
	if len(x.pod.Containers) < 2 || x.trace.Demand.Path == node.AsPool {
		return false
	}
	policy := x.state.Policy()
	return policy.StaticMemory && !policy.Strict() ||
		slices.ContainsFunc(x.pod.Containers, func(c request.Container) bool { return c.Type == request.Init })
}

// mostNodes returns the number of NUMA nodes that may provide the scarce resource. Under
// restricted, it is the number that the failed alignment prefers, which does not depend on other
// pods.
func (x *search) mostNodes(alone *node.Plan) int {
	policy := x.state.Policy()
	if policy.Topology == node.TopologySingleNUMANode {
		return 1
	}
	all := len(x.state.Machine().Nodes())
	if !policy.Strict() || policy.CPU.AlignBySocket {
		return all
	}
	for _, a := range alone.Trace.Alignments {
		if a.Container != "" && a.Container != x.rejection.Container {
			continue
		}
		for _, f := range a.HintSets {
			if f.Kind == hint.Fits && slices.ContainsFunc(f.Needs, func(n hint.Need) bool { return n.Resource == x.rejection.Resource }) {
				return f.Preferred
			}
		}
	}
	return all
}

// free returns how much of the scarce resource is free on each NUMA node now. The bytes of a group
// count on each of its NUMA nodes.
func (x *search) free() []int64 {
	m := x.state.Machine()
	out := make([]int64, m.NodeMask().Highest()+1)
	if x.rejection.Resource == request.CPU {
		for _, n := range m.CPUNodes() {
			out[n.ID] = int64(x.state.AvailableCPUs().IntersectionLen(n.CPUs))
		}
		return out
	}
	t := m.MemoryType(x.rejection.Resource)
	for _, n := range x.state.Memory().Nodes() {
		for other := range n.Group.All() {
			if t >= 0 {
				out[other] += n.Free[t]
			}
		}
	}
	return out
}

// sum computes top and total.
func (b *bound) sum(victims []victim) {
	most := min(maxSize, len(victims))
	best := make([][]int64, len(b.free)+1) // largest amounts so far, by NUMA node; the last entry is for the sums
	for i := range len(victims) + 1 {
		tops, totals := make([][]int64, most+1), make([]int64, most+1)
		for k := range tops {
			tops[k] = make([]int64, len(b.free))
		}
		for n := range best {
			var sum int64
			for k, v := range best[n] {
				if sum += v; n < len(b.free) {
					tops[k+1][n] = sum
				} else {
					totals[k+1] = sum
				}
			}
			for k := len(best[n]); k < most; k++ { // There are fewer pods: count all of them.
				if n < len(b.free) {
					tops[k+1][n] = sum
				} else {
					totals[k+1] = sum
				}
			}
		}
		b.top, b.total = append(b.top, tops), append(b.total, totals)
		if i == len(victims) {
			return
		}
		for n := range best {
			v := victims[i].total
			if n < len(b.free) {
				v = victims[i].freed[n]
			}
			at, _ := slices.BinarySearchFunc(best[n], v, func(x, v int64) int { return cmp.Compare(v, x) }) // descending order
			best[n] = slices.Insert(best[n], at, v)
			best[n] = best[n][:min(len(best[n]), most)]
		}
	}
}

// met reports whether more additional pods, out of the first below pods, could still make up for
// what is missing.
func (b *bound) met(gone []victim, more, below int) bool {
	if b.want == 0 {
		return true
	}
	var now, then [mask.MaxNode + 1]int64
	copy(now[:], b.free)
	for _, v := range gone {
		for n, k := range v.freed[:len(b.free)] {
			now[n] += k
		}
	}
	then = now
	for n, k := range b.top[below][more] {
		then[n] += k
	}
	return b.largest(then) >= b.want && b.largest(now)+b.total[below][more] >= b.want
}

// largest returns the sum over the b.nodes NUMA nodes that have most.
func (b *bound) largest(have [mask.MaxNode + 1]int64) int64 {
	list := have[:len(b.free)]
	if b.nodes == 1 {
		return slices.Max(list)
	}
	if b.nodes < len(list) {
		slices.Sort(list)
		list = list[len(list)-b.nodes:]
	}
	var sum int64
	for _, n := range list {
		sum += n
	}
	return sum
}
