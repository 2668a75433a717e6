package cpu

import (
	"cmp"
	"slices"

	"github.com/paddock-project/paddock/internal/core/machine"
)

// nodeOrder lists the NUMA nodes with free CPUs in the order of R-CPU-42.
func (a *allocator) nodeOrder() []int32 {
	if a.numaFirst {
		return fullestFirst(a.nodes)
	}
	return a.within(fullestFirst(a.sockets), a.at.SocketNodes, a.nodes)
}

// socketOrder lists the sockets with free CPUs in the order of R-CPU-42.
func (a *allocator) socketOrder() []int32 {
	if !a.numaFirst {
		return fullestFirst(a.sockets)
	}
	return a.within(fullestFirst(a.nodes), a.at.NodeSockets, a.sockets)
}

// uncoreOrder lists the uncore caches with free CPUs in the order of R-CPU-60.
func (a *allocator) uncoreOrder() []int32 {
	return a.within(a.nodeOrder(), a.at.NodeUncores, a.uncores)
}

// coreGroups lists the cores of each unit of the second level, in the order of these units. In a
// group the cores ascend by id; the caller sorts them by their free CPUs.
func (a *allocator) coreGroups() [][]int32 {
	outer, cores := a.socketOrder, a.at.SocketCores
	if !a.numaFirst {
		outer, cores = a.nodeOrder, a.at.NodeCores
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

// within lists, for each outer unit, the inner units that have a free CPU in it, those with the
// fewest free CPUs of their own first. A unit in several outer ones is listed once, with the
// first one.
func (a *allocator) within(outer []int32, parts [][]machine.Part, free []int32) []int32 {
	list := make([]int32, 0, len(free))
	for _, o := range outer {
		start := len(list)
		for _, p := range parts[o] {
			if free[p.Unit] > 0 && a.free.Intersects(p.CPUs) && !slices.Contains(list, p.Unit) {
				list = append(list, p.Unit)
			}
		}
		sortByFree(list[start:], free)
	}
	return list
}
