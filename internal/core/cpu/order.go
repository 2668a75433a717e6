package cpu

import (
	"cmp"
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
)

// nodeOrder lists the NUMA nodes with free CPUs in the order of R-CPU-42.
func (t *taker) nodeOrder() []int32 {
	if t.numaFirst {
		return fullestFirst(t.nodes)
	}
	return t.within(fullestFirst(t.sockets), t.at.SocketNodes, t.nodes)
}

// socketOrder lists the sockets with free CPUs in the order of R-CPU-42.
func (t *taker) socketOrder() []int32 {
	if !t.numaFirst {
		return fullestFirst(t.sockets)
	}
	return t.within(fullestFirst(t.nodes), t.at.NodeSockets, t.sockets)
}

// uncoreOrder lists the uncore caches with free CPUs in the order of R-CPU-60.
func (t *taker) uncoreOrder() []int32 {
	return t.within(t.nodeOrder(), t.at.NodeUncores, t.uncores)
}

// coreGroups lists the cores by the units of the second level, in the order of these;
// in a group the cores ascend by id and are still to be sorted by what is free of them.
func (t *taker) coreGroups() [][]int32 {
	outer, cores := t.socketOrder, t.at.SocketCores
	if !t.numaFirst {
		outer, cores = t.nodeOrder, t.at.NodeCores
	}
	order := outer()
	groups := make([][]int32, len(order))
	for i, u := range order {
		groups[i] = cores[u]
	}
	return groups
}

// fullestFirst lists the units with free CPUs, those with the fewest first, then by id
// (R-CPU-41).
func fullestFirst(free []int32) []int32 {
	list := make([]int32, 0, len(free))
	for i, n := range free {
		if n > 0 {
			list = append(list, int32(i))
		}
	}
	sortByFree(list, free)
	return list
}

func sortByFree(list, free []int32) {
	slices.SortFunc(list, func(a, b int32) int {
		return cmp.Or(cmp.Compare(free[a], free[b]), cmp.Compare(a, b))
	})
}

// within lists, for each outer unit in turn, the inner units of which it has a free CPU,
// fullest first by all their free CPUs. A unit that several outer ones share stands where
// it comes first, so that no search meets it twice.
func (t *taker) within(outer []int32, parts [][]machine.Part, free []int32) []int32 {
	list := make([]int32, 0, len(free))
	for _, o := range outer {
		start := len(list)
		for _, p := range parts[o] {
			if free[p.Unit] > 0 && t.hasFree(p.CPUs) && !slices.Contains(list, p.Unit) {
				list = append(list, p.Unit)
			}
		}
		sortByFree(list[start:], free)
	}
	return list
}

func (t *taker) hasFree(set cpuset.Set) bool {
	for id := range set.All() {
		if t.free.Has(id) {
			return true
		}
	}
	return false
}
