package cpu

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
)

// distribute implements distribute-cpus-across-numa (section 6 of docs/rules/cpu.md). It takes need
// CPUs evenly from the smallest number of NUMA nodes that allows an even split. If there is none,
// it packs them. available must be a subset of the machine's CPUs and have at least need CPUs.
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
	var s scratch
	a := newAllocator(m, available, need, &s)
	nodes := a.nodeOrder()
	free := make([]int, len(nodes))
	for i, n := range nodes {
		free[i] = int(a.nodes[n])
	}
	// R-CPU-51: use at least as many NUMA nodes as the request needs on the empty machine.
	machineGroups := ceilDiv(ceilDiv(len(m.CPUs()), group), len(m.CPUNodes()))
	groups := need / group
	for k := ceilDiv(groups, machineGroups); k <= min(groups, len(nodes)); k++ {
		split := split{free: free, group: group, k: k, even: groups / k * group, rest: groups % k}
		shares := split.best()
		if shares == nil {
			continue
		}
		// Pack each part of a share on the CPUs that the parts before it left (R-CPU-58).
		var taken cpuset.Builder
		for _, s := range shares {
			local := available.Intersection(m.CPUNodes()[nodes[s.node]].CPUs)
			for _, n := range s.parts() {
				part := pack(m, packed, local, n)
				local = local.Difference(part)
				taken.AddSet(part)
			}
		}
		return taken.Set()
	}
	return pack(m, packed, available, need)
}

// share is the contribution of one NUMA node: an even part, equal for all NUMA nodes, and some
// groups of the remainder, which are taken one by one.
type share struct {
	node  int // index in the order of NUMA nodes
	even  int // CPUs
	extra int // groups
	group int // CPUs in a group
}

func (s share) parts() []int {
	return append([]int{s.even}, slices.Repeat([]int{s.group}, s.extra)...)
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
