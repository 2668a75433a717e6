package cpu

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
)

// distribute takes need CPUs evenly from as few NUMA nodes as can give them evenly
// (distribute-cpus-across-numa, section 6), and packed where that is not possible.
// available is a subset of the machine's CPUs and holds at least need of them.
func distribute(m *machine.Machine, o Options, available cpuset.Set, need int) cpuset.Set {
	packed := o
	packed.PreferUncore = false
	group := 1
	if o.FullPCPUsOnly {
		group = coreSize(m)
	}
	if need%group != 0 {
		return pack(m, packed, available, need)
	}
	t := newTaker(m, available, need)
	nodes := t.nodeOrder()
	free := make([]int, len(nodes))
	for i, n := range nodes {
		free[i] = int(t.nodes[n])
	}
	// R-CPU-51: no fewer NUMA nodes than would do on the empty machine.
	machineGroups := ceilDiv(ceilDiv(len(m.CPUs()), group), len(m.CPUNodes()))
	groups := need / group
	for k := ceilDiv(groups, machineGroups); k <= min(groups, len(nodes)); k++ {
		shares := newDivision(free, group, groups, k).best()
		if shares == nil {
			continue
		}
		return takeShares(m, packed, available, nodes, shares)
	}
	return pack(m, packed, available, need)
}

// takeShares takes from each NUMA node its share, each part of the share packed on what
// the parts before it have left (R-CPU-58).
func takeShares(m *machine.Machine, o Options, available cpuset.Set, nodes []int32, shares []share) cpuset.Set {
	var taken cpuset.Builder
	for _, s := range shares {
		local := available.Intersection(m.CPUNodes()[nodes[s.node]].CPUs)
		for _, n := range s.parts() {
			part := pack(m, o, local, n)
			local = local.Difference(part)
			taken.AddSet(part)
		}
	}
	return taken.Set()
}

// share is what one NUMA node gives: an even part, the same for all, and some groups of
// the remainder, handed out one by one.
type share struct {
	node  int // position in the node order
	even  int // CPUs
	extra int // groups
	group int // CPUs in a group
}

func (s share) parts() []int {
	return append([]int{s.even}, slices.Repeat([]int{s.group}, s.extra)...)
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
