package quirk

import (
	"cmp"
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
)

// packer takes CPUs in the steps of R-CPU-43, as the kubelet does on machines with cores or sockets
// of several sizes: a core or a socket counts as free when as many CPUs are free as an average one
// has, and all its CPUs are then taken, free or not. It is meant for such machines alone, so
// that it is simple rather than fast.
type packer struct {
	m           *machine.Machine
	o           cpu.Options
	free, taken cpuset.Set
	need        int
}

// of is the unit of a CPU: its NUMA node, socket, uncore cache or core.
type of func(machine.CPU) int

func nodeOf(c machine.CPU) int   { return c.Node }
func socketOf(c machine.CPU) int { return c.Socket }
func uncoreOf(c machine.CPU) int { return c.Uncore }
func coreOf(c machine.CPU) int   { return c.Core }

func (p *packer) pack() {
	nodes := func() { p.whole(nodeOf, p.nodeOrder(), 0) }
	sockets := func() { p.whole(socketOf, p.socketOrder(), max(1, p.m.CPUsPerSocket())) }
	steps := []func(){nodes, sockets}
	if !p.numaFirst() {
		slices.Reverse(steps)
	}
	if p.o.PreferUncore {
		steps = append(steps, p.uncores)
	}
	if p.o.DistributeAcrossCores {
		steps = append(steps, func() {
			for _, s := range p.socketOrder() {
				p.singles(p.cpus(socketOf, s, true).IDs())
			}
		})
	} else {
		cores := func() { p.whole(coreOf, p.coreOrder(), max(1, p.m.CPUsPerCore())) }
		threads := func() {
			var order []int
			for _, c := range p.coreOrder() {
				order = append(order, p.cpus(coreOf, c, true).IDs()...)
			}
			p.singles(order)
		}
		steps = append(steps, cores, threads)
	}
	for _, step := range steps {
		if p.need > 0 {
			step()
		}
	}
}

func (p *packer) numaFirst() bool { return p.m.NumSockets() >= len(p.m.CPUNodes()) }

// cpus are the CPUs of a unit, all or the free ones.
func (p *packer) cpus(of of, unit int, free bool) cpuset.Set {
	var b cpuset.Builder
	for _, c := range p.m.CPUs() {
		if of(c) == unit && (!free || p.free.Has(c.ID)) {
			b.Add(c.ID)
		}
	}
	return b.Set()
}

// take takes CPUs and counts them all, also those that were not free.
func (p *packer) take(set cpuset.Set) {
	p.taken, p.free = p.taken.Union(set), p.free.Difference(set)
	p.need -= set.Len()
}

// sorted are the units with free CPUs inside one outer unit, or all, those with the fewest first
// (R-CPU-41).
func (p *packer) sorted(of, outer of, in int) []int {
	var units []int
	for _, c := range p.m.CPUs() {
		if p.free.Has(c.ID) && (outer == nil || outer(c) == in) && !slices.Contains(units, of(c)) {
			units = append(units, of(c))
		}
	}
	slices.SortFunc(units, func(a, b int) int {
		return cmp.Or(cmp.Compare(p.cpus(of, a, true).Len(), p.cpus(of, b, true).Len()), cmp.Compare(a, b))
	})
	return units
}

func (p *packer) within(of, outer of, outers []int) []int {
	var list []int
	for _, unit := range outers {
		for _, u := range p.sorted(of, outer, unit) {
			if !slices.Contains(list, u) {
				list = append(list, u)
			}
		}
	}
	return list
}

func (p *packer) nodeOrder() []int {
	if p.numaFirst() {
		return p.sorted(nodeOf, nil, 0)
	}
	return p.within(nodeOf, socketOf, p.socketOrder())
}

func (p *packer) socketOrder() []int {
	if p.numaFirst() {
		return p.within(socketOf, nodeOf, p.nodeOrder())
	}
	return p.sorted(socketOf, nil, 0)
}

func (p *packer) coreOrder() []int {
	if p.numaFirst() {
		return p.within(coreOf, socketOf, p.socketOrder())
	}
	return p.within(coreOf, nodeOf, p.nodeOrder())
}

// whole takes the units that count as free: size CPUs are, or with size 0 all of them.
func (p *packer) whole(of of, units []int, size int) {
	var free []int
	for _, u := range units {
		want := size
		if want == 0 {
			want = p.cpus(of, u, false).Len()
		}
		if p.cpus(of, u, true).Len() == want {
			free = append(free, u)
		}
	}
	for _, u := range free {
		if all := p.cpus(of, u, false); all.Len() <= p.need {
			p.take(all)
		}
	}
}

func (p *packer) singles(ids []int) {
	for _, id := range ids {
		if p.need > 0 {
			p.take(cpuset.Of(id))
		}
	}
}

// uncores is R-CPU-61.
func (p *packer) uncores() {
	for _, u := range p.within(uncoreOf, nodeOf, p.nodeOrder()) {
		if p.need >= p.m.CPUsPerUncore() {
			p.whole(uncoreOf, p.within(uncoreOf, nodeOf, p.nodeOrder()), 0)
		}
		if p.need > 0 {
			p.part(u)
		}
		if p.need <= 0 {
			return
		}
	}
}

// part is R-CPU-62.
func (p *packer) part(uncore int) {
	perCore := max(1, p.m.CPUsPerCore())
	var cores []int
	for id := range p.cpus(uncoreOf, uncore, true).All() {
		c, _ := p.m.CPU(id)
		if !slices.Contains(cores, c.Core) {
			cores = append(cores, c.Core)
		}
	}
	slices.Sort(cores)
	var chosen cpuset.Set
	for _, c := range cores[:min(len(cores), (p.need+perCore-1)/perCore)] {
		chosen = chosen.Union(p.cpus(coreOf, c, true))
	}
	if p.need%2 == 1 && perCore > 1 && chosen.Len() > p.need {
		chosen = chosen.Difference(cpuset.Of(chosen.Highest()))
	}
	if chosen.Len() == p.need {
		p.take(chosen)
	}
}
