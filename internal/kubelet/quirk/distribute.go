package quirk

import (
	"errors"
	"math"
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
)

// errAccounting is the kubelet's answer when it could not take all CPUs from the NUMA nodes that it
// chose.
var errAccounting = errors.New("accounting error, not enough CPUs assigned")

// maxSearched bounds the NUMA nodes over which the kubelet's search is repeated, because it looks
// at each of their subsets, and for each at the subsets of that. With 10 of them that is 59,049
// balances.
const maxSearched = 10

// distributor is distribute-cpus-across-numa as the kubelet does it (R-CPU-50…58): all subsets in
// lexicographic order, in lists that share memory.
type distributor struct {
	t     *taker
	nodes []int // ids, in the order of R-CPU-42
	free  map[int]int
	group int
	need  int
}

// distribute takes n CPUs evenly from several NUMA nodes. done is false where they are packed.
func (t *taker) distribute(available cpuset.Set, n int) (set cpuset.Set, done bool, err error) {
	d := &distributor{t: t, free: map[int]int{}, group: 1, need: n}
	if t.o.FullPCPUsOnly {
		d.group = max(1, t.m.CPUsPerCore())
	}
	if n%d.group != 0 {
		return cpuset.Set{}, false, nil
	}
	p := packer{m: t.m, free: available}
	d.nodes = p.nodeOrder()
	for _, u := range d.nodes {
		d.free[u] = p.cpus(nodeOf, u, true).Len()
	}
	if len(d.nodes) > maxSearched {
		t.faults = append(t.faults, fault{id: LastSubset, unsure: true})
		set, err = cpu.Take(t.m, t.o, available, n)
		return set, true, err
	}
	up := func(a, b int) int { return (a + b - 1) / b }
	fewest := up(n/d.group, up(up(len(t.m.CPUs()), d.group), len(t.m.CPUNodes())))
	for k := max(1, fewest); k <= min(n/d.group, len(d.nodes)); k++ {
		x, z := d.search(k)
		if t.endless {
			return cpuset.Set{}, true, nil
		}
		if x == nil {
			continue
		}
		set, err = d.takeFrom(available, x, z)
		return set, true, err
	}
	return cpuset.Set{}, false, nil
}

// subset is a list that the search found. want is what it was then, got what it is at the end.
type subset struct{ want, got []int }

func found(list []int) subset { return subset{slices.Clone(list), list} }

// search finds the NUMA nodes X for the even parts and Z for the remainder.
func (d *distributor) search(k int) (x, z []int) {
	best := math.Inf(1)
	var bestX, bestZ subset
	d.subsets(d.nodes, k, func(x []int) bool {
		if best == 0 {
			return false
		}
		score, z, ok := d.score(x)
		if ok && score < best {
			best, bestX, bestZ = score, found(x), z
		}
		return !d.t.endless
	})
	if bestX.got == nil || d.t.endless {
		return nil, nil
	}
	if !slices.Equal(bestX.want, bestX.got) || !slices.Equal(bestZ.want, bestZ.got) {
		d.t.faults = append(d.t.faults, fault{id: LastSubset})
	}
	return bestX.got, bestZ.got
}

// score is how evenly the free CPUs are balanced once X gave its parts, with the best Z.
func (d *distributor) score(x []int) (float64, subset, bool) {
	sum, groups := 0, 0
	even := d.need / len(x) / d.group * d.group
	after := map[int]int{}
	for _, u := range d.nodes {
		after[u] = d.free[u]
	}
	for _, u := range x {
		if d.free[u] < even {
			return 0, subset{}, false
		}
		sum += d.free[u]
		groups += d.free[u] / d.group
		after[u] -= even
	}
	if sum < d.need || groups*d.group < d.need {
		return 0, subset{}, false
	}
	rest := d.need - even*len(x)
	if rest == 0 {
		return d.deviation(after), subset{}, true
	}
	return d.remainder(x, after, rest)
}

// remainder finds Z, the larger ones first. The kubelet compares the sum of free CPUs with the
// remainder and takes whole groups, so that it can look for them without end.
func (d *distributor) remainder(x []int, after map[int]int, rest int) (float64, subset, bool) {
	var can []int
	for _, u := range x {
		if after[u] >= d.group {
			can = append(can, u)
		}
	}
	best := math.Inf(1)
	var z subset
	for k := len(can); k >= 1; k-- {
		d.subsets(can, k, func(list []int) bool {
			left, ok := d.cycle(list, after, rest)
			if d.t.endless {
				return false
			}
			if ok {
				if score := d.deviation(left); score < best {
					best, z = score, found(list)
				}
			}
			return true
		})
	}
	return best, z, !math.IsInf(best, 1)
}

// cycle takes the remainder in cycles over list.
func (d *distributor) cycle(list []int, after map[int]int, rest int) (map[int]int, bool) {
	left, sum := map[int]int{}, 0
	for u, n := range after {
		left[u] = n
	}
	for _, u := range list {
		sum += left[u]
	}
	if sum < rest {
		return nil, false
	}
	for rest > 0 {
		before := rest
		for _, u := range list {
			if rest > 0 && left[u] >= d.group {
				left[u] -= d.group
				rest -= d.group
			}
		}
		if rest == before {
			d.t.endless = true
			d.t.faults = append(d.t.faults, fault{id: EndlessRemainder})
			return nil, false
		}
	}
	return left, true
}

// takeFrom takes the parts.
func (d *distributor) takeFrom(available cpuset.Set, x, z []int) (cpuset.Set, error) {
	packed := d.t.o
	packed.DistributeAcrossNUMA, packed.PreferUncore = false, false
	var taken cpuset.Set
	part := func(u, n int) bool {
		p := packer{m: d.t.m, free: available.Difference(taken)}
		local := p.cpus(nodeOf, u, true)
		if local.Len() < n {
			return false
		}
		set, err := d.t.pack(packed, local, n)
		taken = taken.Union(set)
		return err == nil
	}
	even := d.need / len(x) / d.group * d.group
	for _, u := range x {
		part(u, even)
	}
	for left := d.need - even*len(x); left > 0; {
		before := left
		for _, u := range z {
			if left > 0 && part(u, d.group) {
				left -= d.group
			}
		}
		if left == before {
			d.t.endless = true
			d.t.faults = append(d.t.faults, fault{id: EndlessRemainder})
			return taken, nil
		}
	}
	if taken.Len() < d.need {
		return cpuset.Set{}, errAccounting
	}
	return taken, nil
}

// deviation is R-CPU-56.
func (d *distributor) deviation(free map[int]int) float64 {
	thousandths := func(x float64) float64 { return math.Round(x*1000) / 1000 }
	sum := 0.0
	for _, n := range free {
		sum += float64(n)
	}
	mean := thousandths(sum / float64(len(free)))
	squares := 0.0
	for _, u := range d.nodes {
		squares += (float64(free[u]) - mean) * (float64(free[u]) - mean)
	}
	return thousandths(math.Sqrt(squares / float64(len(free))))
}

// subsets visits the subsets of k elements in lexicographic order until visit returns false. A list
// grows in place while its memory has room, as the kubelet's lists do: memory for 1, 2, 4, 8 and so
// on. So a list that was visited changes when its siblings are.
func (d *distributor) subsets(all []int, k int, visit func([]int) bool) {
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
