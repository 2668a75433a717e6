package cpu

import (
	"maps"
	"math"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
)

// maxSearched is the largest number of NUMA nodes for which the kubelet's search is reproduced. The
// search looks at each subset of the NUMA nodes and at all subsets of each of these. With 10 NUMA
// nodes, that is 59,049 evaluations. On larger machines the result is that of distribute.
const maxSearched = 10

// Searches reports whether Behavior.SharedSubsets takes effect on the machine, which requires at
// most maxSearched NUMA nodes with CPUs.
func Searches(m *machine.Machine) bool { return len(m.CPUNodes()) <= maxSearched }

// subsets implements distribute-cpus-across-numa as a kubelet does (R-CPU-50…58). It visits all
// subsets in lexicographic order, in lists that share memory. It is separate from split,
// which finds the same sets without a search, because the fault is in the search.
type subsets struct {
	m       *machine.Machine
	o       Options // the options for one part, which is packed
	free    []int   // free CPUs by index of CPUNodes
	nodes   []int   // indexes, in the order of R-CPU-42
	group   int
	need    int
	endless bool
}

// distributeBySubsets is distribute with Behavior.SharedSubsets. The error is ErrEndless or
// ErrAccounting.
func distributeBySubsets(m *machine.Machine, o Options, available cpuset.Set, need int) (cpuset.Set, error) {
	if !Searches(m) {
		return distribute(m, o, available, need), nil
	}
	s := &subsets{m: m, o: o, group: 1, need: need}
	s.o.DistributeAcrossNUMA, s.o.PreferUncore = false, false
	if o.FullPCPUsOnly {
		s.group = coreSize(m)
	}
	if need%s.group != 0 {
		return pack(m, s.o, available, need), nil
	}
	var memory scratch
	a := newAllocator(m, available, need, &memory)
	for _, n := range a.nodeOrder() {
		s.nodes = append(s.nodes, int(n))
	}
	s.free = make([]int, len(a.nodes))
	for i, n := range a.nodes {
		s.free[i] = int(n)
	}
	fewest := ceilDiv(need/s.group, ceilDiv(ceilDiv(len(m.CPUs()), s.group), len(m.CPUNodes())))
	for k := max(1, fewest); k <= min(need/s.group, len(s.nodes)); k++ {
		x, z := s.search(k)
		switch {
		case s.endless:
			return cpuset.Set{}, ErrEndless
		case x != nil:
			return s.take(available, x, z)
		}
	}
	return pack(m, s.o, available, need), nil
}

// search finds the NUMA nodes X for the even parts and Z for the remainder. The lists include
// whatever later subsets wrote into them.
func (s *subsets) search(k int) (x, z []int) {
	best := math.Inf(1)
	s.visit(s.nodes, k, func(list []int) bool {
		if best == 0 {
			return false
		}
		if score, rest := s.score(list); score < best {
			best, x, z = score, list, rest
		}
		return !s.endless
	})
	return x, z
}

// score returns the deviation of the free CPUs after X gave its parts, together with the best Z.
// The deviation is infinite if X does not have enough CPUs.
func (s *subsets) score(x []int) (float64, []int) {
	sum, groups := 0, 0
	even := s.need / len(x) / s.group * s.group
	after := map[int]int{}
	for _, u := range s.nodes {
		after[u] = s.free[u]
	}
	for _, u := range x {
		if s.free[u] < even {
			return math.Inf(1), nil
		}
		sum += s.free[u]
		groups += s.free[u] / s.group
		after[u] -= even
	}
	if sum < s.need || groups*s.group < s.need {
		return math.Inf(1), nil
	}
	rest := s.need - even*len(x)
	if rest == 0 {
		return s.deviation(after), nil
	}
	return s.remainder(x, after, rest)
}

// remainder finds Z. It tries larger subsets first.
func (s *subsets) remainder(x []int, after map[int]int, rest int) (best float64, z []int) {
	var can []int
	for _, u := range x {
		if after[u] >= s.group {
			can = append(can, u)
		}
	}
	best = math.Inf(1)
	for k := len(can); k >= 1; k-- {
		s.visit(can, k, func(list []int) bool {
			left, ok := s.cycle(list, after, rest)
			if s.endless {
				return false
			}
			if ok {
				if score := s.deviation(left); score < best {
					best, z = score, list
				}
			}
			return true
		})
	}
	return best, z
}

// cycle takes the remainder in cycles over list. It returns false if the sum of the free CPUs is
// too small or if no NUMA node can give another group. In the second case,
// Behavior.EndlessRemainder makes the search endless.
func (s *subsets) cycle(list []int, after map[int]int, rest int) (map[int]int, bool) {
	left, sum := maps.Clone(after), 0
	for _, u := range list {
		sum += left[u]
	}
	if sum < rest {
		return nil, false
	}
	for rest > 0 {
		before := rest
		for _, u := range list {
			if rest > 0 && left[u] >= s.group {
				left[u] -= s.group
				rest -= s.group
			}
		}
		if rest == before {
			s.endless = s.o.Behavior.EndlessRemainder
			return nil, false
		}
	}
	return left, true
}

// take packs the even parts on X and the groups of the remainder on Z.
func (s *subsets) take(available cpuset.Set, x, z []int) (cpuset.Set, error) {
	var taken cpuset.Set
	part := func(u, n int) bool {
		local := available.Intersection(s.m.CPUNodes()[u].CPUs).Difference(taken)
		if local.Len() < n {
			return false
		}
		taken = taken.Union(pack(s.m, s.o, local, n))
		return true
	}
	even := s.need / len(x) / s.group * s.group
	for _, u := range x {
		part(u, even)
	}
	for left := s.need - even*len(x); left > 0; {
		before := left
		for _, u := range z {
			if left > 0 && part(u, s.group) {
				left -= s.group
			}
		}
		switch {
		case left < before:
		case s.o.Behavior.EndlessRemainder:
			return cpuset.Set{}, ErrEndless
		default:
			left = 0
		}
	}
	if taken.Len() < s.need {
		return cpuset.Set{}, ErrAccounting
	}
	return taken, nil
}

// deviation implements R-CPU-56.
func (s *subsets) deviation(free map[int]int) float64 {
	thousandths := func(x float64) float64 { return math.Round(x*1000) / 1000 }
	sum := 0.0
	for _, n := range free {
		sum += float64(n)
	}
	mean := thousandths(sum / float64(len(free)))
	squares := 0.0
	for _, u := range s.nodes {
		squares += (float64(free[u]) - mean) * (float64(free[u]) - mean)
	}
	return thousandths(math.Sqrt(squares / float64(len(free))))
}

// visit calls visit with the subsets of k elements in lexicographic order until it returns false. A
// list grows in place while its memory has room, as in the kubelet, which allocates memory for 1,
// 2, 4, 8 elements and so on. So a list that was already visited changes when its siblings are
// visited.
func (s *subsets) visit(all []int, k int, visit func([]int) bool) {
	var walk func(from, left int, list []int) bool
	walk = func(from, left int, list []int) bool {
		if left == 0 {
			return visit(list)
		}
		for i := from; i <= len(all)-left; i++ {
			longer := list
			if len(list) == cap(list) {
				longer = make([]int, len(list), max(1, 2*len(list)))
				copy(longer, list)
			}
			if !walk(i+1, left-1, append(longer, all[i])) {
				return false
			}
		}
		return true
	}
	walk(0, k, nil)
}
