package cpu_test

import (
	"cmp"
	"math"
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
)

// literal implements the rules of sections 5 to 7 word for word and without regard to speed. The
// tests compare the package with it.
type literal struct {
	m    *machine.Machine
	o    cpu.Options
	free map[int]bool
	got  []int
	d    int
}

type kind func(machine.CPU) int

func node(c machine.CPU) int   { return c.Node }
func socket(c machine.CPU) int { return c.Socket }
func uncore(c machine.CPU) int { return c.Uncore }
func core(c machine.CPU) int   { return c.Core }

func newLiteral(m *machine.Machine, o cpu.Options, available []int, n int) *literal {
	l := &literal{m: m, o: o, free: map[int]bool{}, d: n}
	for _, id := range available {
		l.free[id] = true
	}
	return l
}

// cpus returns the free CPUs of a unit in ascending order.
func (l *literal) cpus(of kind, unit int) []int {
	var ids []int
	for _, c := range l.m.CPUs() {
		if l.free[c.ID] && of(c) == unit {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

func (l *literal) total(of kind, unit int) int {
	n := 0
	for _, c := range l.m.CPUs() {
		if of(c) == unit {
			n++
		}
	}
	return n
}

// sorted returns the units of a kind that have free CPUs, in the order of R-CPU-41. If outer is not
// nil, it looks only at CPUs in that outer unit.
func (l *literal) sorted(of, outer kind, in int) []int {
	var units []int
	for _, c := range l.m.CPUs() {
		if l.free[c.ID] && (outer == nil || outer(c) == in) && !slices.Contains(units, of(c)) {
			units = append(units, of(c))
		}
	}
	slices.SortFunc(units, func(a, b int) int {
		return cmp.Or(cmp.Compare(len(l.cpus(of, a)), len(l.cpus(of, b))), cmp.Compare(a, b))
	})
	return units
}

func (l *literal) nested(of, outer kind, outers []int) []int {
	var list []int
	for _, unit := range outers {
		for _, u := range l.sorted(of, outer, unit) {
			if !slices.Contains(list, u) {
				list = append(list, u)
			}
		}
	}
	return list
}

func (l *literal) numaFirst() bool { return l.m.NumSockets() >= len(l.m.CPUNodes()) }

func (l *literal) nodes() []int {
	if l.numaFirst() {
		return l.sorted(node, nil, 0)
	}
	return l.nested(node, socket, l.sockets())
}

func (l *literal) sockets() []int {
	if l.numaFirst() {
		return l.nested(socket, node, l.nodes())
	}
	return l.sorted(socket, nil, 0)
}

func (l *literal) cores() []int {
	if l.numaFirst() {
		return l.nested(core, socket, l.sockets())
	}
	return l.nested(core, node, l.nodes())
}

func (l *literal) uncores() []int { return l.nested(uncore, node, l.nodes()) }

func (l *literal) take(ids ...int) {
	for _, id := range ids {
		delete(l.free, id)
		l.got = append(l.got, id)
		l.d--
	}
}

// full implements R-CPU-44. A size of 0 means the unit's own size.
func (l *literal) full(list []int, of kind, size int) {
	var whole []int
	for _, u := range list {
		if n := len(l.cpus(of, u)); n == l.total(of, u) && (size == 0 || n == size) {
			whole = append(whole, u)
		}
	}
	for _, u := range whole {
		if l.d >= l.total(of, u) {
			l.take(l.cpus(of, u)...)
		}
	}
}

// pack implements R-CPU-43. It simply runs step after step, because every step does nothing once d
// is 0.
func (l *literal) pack(preferUncore bool) []int {
	perSocket := func() { l.full(l.sockets(), socket, l.m.CPUsPerSocket()) }
	perNode := func() { l.full(l.nodes(), node, 0) }
	if l.numaFirst() {
		perNode()
		perSocket()
	} else {
		perSocket()
		perNode()
	}
	if preferUncore {
		l.uncoreStep()
	}
	if l.o.DistributeAcrossCores {
		for _, s := range l.sockets() {
			l.singles(l.cpus(socket, s))
		}
		return l.got
	}
	l.full(l.cores(), core, l.m.CPUsPerCore())
	var ids []int
	for _, c := range l.cores() {
		ids = append(ids, l.cpus(core, c)...)
	}
	l.singles(ids)
	return l.got
}

func (l *literal) singles(ids []int) {
	for _, id := range ids {
		if l.d > 0 {
			l.take(id)
		}
	}
}

// uncoreStep implements R-CPU-61.
func (l *literal) uncoreStep() {
	for _, u := range l.uncores() {
		if l.d == 0 {
			return
		}
		if l.d >= l.m.CPUsPerUncore() {
			l.full(l.uncores(), uncore, 0)
		}
		if l.d > 0 {
			l.partial(u)
		}
	}
}

// partial implements R-CPU-62.
func (l *literal) partial(u int) {
	perCore := l.m.CPUsPerCore()
	q := (l.d + perCore - 1) / perCore
	var cores []int
	for _, id := range l.cpus(uncore, u) {
		c, _ := l.m.CPU(id)
		if !slices.Contains(cores, c.Core) {
			cores = append(cores, c.Core)
		}
	}
	slices.Sort(cores)
	if len(cores) > q {
		cores = cores[:q]
	}
	var p []int
	for _, c := range cores {
		p = append(p, l.cpus(core, c)...)
	}
	slices.Sort(p)
	if l.d%2 == 1 && perCore > 1 && len(p) > l.d {
		p = p[:len(p)-1]
	}
	if len(p) == l.d {
		l.take(p...)
	}
}

// literalTake is the counterpart of Take for n from 1 to len(available).
func literalTake(m *machine.Machine, o cpu.Options, available []int, n int) cpuset.Set {
	if o.DistributeAcrossNUMA {
		g := 1
		if o.FullPCPUsOnly {
			g = m.CPUsPerCore()
		}
		if got := literalDistribute(m, o, available, n, g); got != nil {
			return cpuset.Of(got...)
		}
		return cpuset.Of(newLiteral(m, o, available, n).pack(false)...)
	}
	return cpuset.Of(newLiteral(m, o, available, n).pack(o.PreferUncore)...)
}

// literalDistribute implements R-CPU-50…58. It returns nil if the CPUs must be packed.
func literalDistribute(m *machine.Machine, o cpu.Options, available []int, n, g int) []int {
	if n%g != 0 {
		return nil
	}
	l := newLiteral(m, o, available, n)
	nodes := l.nodes()
	free := make([]int, len(nodes))
	for i, u := range nodes {
		free[i] = len(l.cpus(node, u))
	}
	up := func(a, b int) int { return int(math.Ceil(float64(a) / float64(b))) }
	kmin := up(up(n, g), up(up(len(m.CPUs()), g), len(m.CPUNodes())))
	for k := kmin; k <= min(up(n, g), len(nodes)); k++ {
		x, z := literalSearch(free, n, k, g)
		if x == nil {
			continue
		}
		e := n / k / g * g
		some := func(i, n int) {
			got := newLiteral(m, o, l.cpus(node, nodes[i]), n).pack(false)
			l.take(got...)
		}
		for _, i := range x {
			some(i, e)
		}
		for l.d > 0 {
			for _, i := range z {
				if l.d > 0 && len(l.cpus(node, nodes[i])) >= g {
					some(i, g)
				}
			}
		}
		return l.got
	}
	return nil
}

// literalSearch implements R-CPU-52…57 by enumeration. It returns X and Z as positions in free.
func literalSearch(free []int, n, k, g int) (bestX, bestZ []int) {
	best := math.Inf(1)
	e := n / k / g * g
	subsets(len(free), k, func(x []int) bool {
		sum, groups, even := 0, 0, true
		after := slices.Clone(free)
		for _, i := range x {
			sum += free[i]
			groups += free[i] / g
			even = even && free[i] >= e
			after[i] -= e
		}
		if sum < n || groups*g < n || !even {
			return true
		}
		score, z, ok := literalRemainder(after, x, n-e*k, g)
		if ok && score < best {
			best, bestX, bestZ = score, slices.Clone(x), z
		}
		return best != 0
	})
	return bestX, bestZ
}

func literalRemainder(after, x []int, r, g int) (best float64, bestZ []int, ok bool) {
	if r == 0 {
		return deviation(after), nil, true
	}
	best = math.Inf(1)
	var y []int
	for _, i := range x {
		if after[i] >= g {
			y = append(y, i)
		}
	}
	for j := len(y); j >= 1; j-- {
		subsets(len(y), j, func(at []int) bool {
			left, r, can := slices.Clone(after), r, 0
			for _, i := range at {
				can += after[y[i]] / g * g // whole groups only
			}
			if can < r {
				return true
			}
			for r > 0 {
				for _, i := range at {
					if r > 0 && left[y[i]] >= g {
						left[y[i]] -= g
						r -= g
					}
				}
			}
			if score := deviation(left); score < best {
				best, bestZ = score, nil
				for _, i := range at {
					bestZ = append(bestZ, y[i])
				}
			}
			return true
		})
	}
	return best, bestZ, bestZ != nil
}

// deviation implements R-CPU-56.
func deviation(xs []int) float64 {
	thousandths := func(x float64) float64 { return math.Round(x*1000) / 1000 }
	sum := 0.0
	for _, x := range xs {
		sum += float64(x)
	}
	mean := thousandths(sum / float64(len(xs)))
	sum = 0
	for _, x := range xs {
		sum += (float64(x) - mean) * (float64(x) - mean)
	}
	return thousandths(math.Sqrt(sum / float64(len(xs))))
}

// subsets visits the k-subsets of 0..n-1 in lexicographic order until visit returns false.
func subsets(n, k int, visit func([]int) bool) {
	var walk func(from int, chosen []int) bool
	walk = func(from int, chosen []int) bool {
		if len(chosen) == k {
			return visit(chosen)
		}
		for i := from; i < n; i++ {
			if !walk(i+1, append(slices.Clone(chosen), i)) {
				return false
			}
		}
		return true
	}
	walk(0, nil)
}
