package cpu

import (
	"cmp"
	"slices"

	"github.com/paddock-project/paddock/internal/core/machine"
)

// nodeOrder lists the NUMA nodes with free CPUs in the order of R-CPU-42.
func (a *allocator) nodeOrder() []int32 {
	if a.numaFirst {
		return fullestFirst(a.nodes, a.inner)
	}
	return a.within(fullestFirst(a.sockets, a.outer), a.at.SocketNodes, a.nodes, a.inner)
}

// socketOrder lists the sockets with free CPUs in the order of R-CPU-42.
func (a *allocator) socketOrder() []int32 {
	if !a.numaFirst {
		return fullestFirst(a.sockets, a.inner)
	}
	return a.within(fullestFirst(a.nodes, a.outer), a.at.NodeSockets, a.sockets, a.inner)
}

// uncoreOrder lists the uncore caches with free CPUs in the order of R-CPU-60. The caller owns the
// list.
func (a *allocator) uncoreOrder() []int32 {
	return a.within(a.nodeOrder(), a.at.NodeUncores, a.uncores, make([]int32, len(a.uncores)))
}

// coreGroups lists the units of the second level in their order, and the cores of each unit. The
// cores of a unit ascend by id, not by their number of free CPUs.
func (a *allocator) coreGroups() (order []int32, cores [][]int32) {
	if a.numaFirst {
		return a.socketOrder(), a.at.SocketCores
	}
	return a.nodeOrder(), a.at.NodeCores
}

// fullestFirst lists the units with free CPUs. Those with the fewest free CPUs come first, and ties
// are ordered by id (R-CPU-41). The list uses the memory of into, which must have room for all
// units.
func fullestFirst(free, into []int32) []int32 {
	list := into[:0]
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

// within lists, for each outer unit, the inner units that have a free CPU in it. The inner units
// with the fewest free CPUs of their own come first. A unit that lies in several outer units is
// listed once, with the first of them. The list uses the memory of into, which must have room for
// all inner units.
func (a *allocator) within(outer []int32, parts [][]machine.Part, free, into []int32) []int32 {
	list := into[:0]
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
