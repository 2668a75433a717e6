package explain

import (
	"cmp"
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

// axis is one amount that can be lowered: of a pool, of the container named who, or, if who is
// empty and there is no pool, of every container that requests more.
type axis struct {
	resource, who string
	pool          bool
	unit          int64
	// values are the amounts at which the answer for the pod can change, the largest first. Between
	// two of them, the answer is that of the larger one. If complete is false, there may be more
	// such amounts.
	values   []int64
	complete bool
}

const (
	// maxSums bounds the number of sums over NUMA nodes. Equal NUMA nodes have equal sums, so even
	// 64 of them remain below the bound while their usage is equal.
	maxSums = 1024
	// maxAskers bounds the number of containers that are considered in all combinations.
	maxAskers = 6
)

// axisOf returns the axis with its values. Admission compares requested amounts with what sets of
// NUMA nodes have free and could ever have. So the answer changes only if the amount, alone or with
// the requests of other containers of the pod, equals such a sum. If several containers take CPUs
// one after the other, every number of CPUs is a value, because the CPUs that one container takes
// determine what the next one finds.
func (x *search) axisOf(pod request.Pod, resource, who string) axis {
	a := axis{resource: resource, who: who, pool: x.pools(resource), unit: x.unit(resource), complete: true}
	want := highest(pod, resource, who, a.pool)
	top := (want - 1) / a.unit * a.unit
	if a.pool {
		top = want // The pod may keep its amount with smaller slices.
	}
	simple := x.simple(pod, resource)
	var values []int64
	switch {
	case request.IsMemory(resource):
		values = a.thresholds(pod, x.memorySums(&a))
	case resource == request.CPU && simple:
		// Use the CPUs that sets of NUMA nodes have free and in total, and the free CPUs on cores
		// without a reserved CPU (R-CPU-71).
		m, free := x.state.Machine(), x.state.AvailableCPUs()
		var local, sizes []int64
		for _, n := range m.CPUNodes() {
			local = append(local, int64(free.IntersectionLen(n.CPUs)))
			size := n.Size
			if x.state.Policy().CPU.Isolated == cpu.IsolatedOnly { // R-CPU-134
				size = x.state.AllocatableCPUs().IntersectionLen(n.CPUs)
			}
			sizes = append(sizes, int64(size))
		}
		physical := x.state.PhysicalCPUs()
		for _, sum := range append(a.subsetSums(local, sizes), int64(free.Len()), int64(physical.Len())) {
			values = append(values, sum/a.unit*a.unit)
		}
	default:
		for n := a.unit; n <= min(top, x.room(resource)) && len(values) < maxSums; n += a.unit {
			values = append(values, n)
		}
		a.complete = int64(len(values)) >= min(top, x.room(resource))/a.unit
	}
	values = append(values, top, top/a.unit*a.unit)
	values = slices.DeleteFunc(values, func(n int64) bool { return n < 1 || n > top })
	slices.SortFunc(values, func(a, b int64) int { return cmp.Compare(b, a) })
	a.values = slices.Compact(values)
	return a
}

// askers returns the amounts of a resource that containers request for themselves.
func askers(pod request.Pod, resource string) []int64 {
	var out []int64
	for i := range pod.Containers {
		if n, ok := asked(&pod.Containers[i], resource); ok && n > 0 {
			out = append(out, n)
		}
	}
	return out
}

// simple reports whether the pod requests only a single amount of a resource.
func (x *search) simple(pod request.Pod, resource string) bool {
	if x.pools(resource) {
		return resource != request.CPU || x.state.IsolatedCPUs().IsEmpty() // A pool may need CPUs of two kinds.
	}
	return len(askers(pod, resource)) == 1
}

// thresholds returns the amounts at which the request reaches one of the sums, and the amounts of
// the containers themselves.
func (a *axis) thresholds(pod request.Pod, sums []int64) []int64 {
	if a.pool {
		return onGrid(sums, a.unit)
	}
	all := askers(pod, a.resource)
	values := slices.Clone(all)
	if len(all) > maxAskers {
		a.complete = false
		all = all[:maxAskers]
	}
	if a.who != "" {
		_, i := pod.Container(a.who)
		own, _ := asked(&pod.Containers[i], a.resource)
		at := slices.Index(all, own)
		if at < 0 {
			return onGrid(append(values, sums...), a.unit)
		}
		others := slices.Delete(slices.Clone(all), at, at+1)
		for set := range 1 << len(others) {
			with := total(others, set)
			for _, sum := range sums {
				values = append(values, sum-with)
			}
		}
		return onGrid(values, a.unit)
	}
	slices.Sort(all)
	for set := 1; set < 1<<len(all); set++ {
		for _, sum := range sums {
			values = append(values, limitFor(all, set, sum))
		}
	}
	return onGrid(values, a.unit)
}

func total(amounts []int64, set int) int64 {
	var sum int64
	for i, n := range amounts {
		if set>>i&1 == 1 {
			sum += n
		}
	}
	return sum
}

// limitFor returns the largest common limit for the amounts in set such that their sum is at most
// sum. The amounts must be in ascending order. It returns 0 if no limit is needed.
func limitFor(amounts []int64, set int, sum int64) int64 {
	left := int64(0)
	for i := range amounts {
		left += int64(set >> i & 1)
	}
	for i, n := range amounts {
		if set>>i&1 == 0 {
			continue
		}
		if n*left > sum {
			return sum / left
		}
		sum -= n
		left--
	}
	return 0
}

func onGrid(values []int64, unit int64) []int64 {
	out := make([]int64, 0, len(values))
	for _, n := range values {
		out = append(out, max(0, n)/unit*unit)
	}
	return out
}

// memorySums returns the numbers of bytes that sets of NUMA nodes have free and could ever have.
func (x *search) memorySums(a *axis) []int64 {
	t := x.state.Machine().MemoryType(a.resource)
	if t < 0 {
		return nil
	}
	usage := x.state.Memory()
	var free, left, capacity []int64
	for i, n := range usage.Nodes() {
		free = append(free, n.Free[t])
		left = append(left, n.Free[t]-usage.Overdrawn(mask.Of(n.ID), a.resource))
		capacity = append(capacity, usage.Capacity().Nodes()[i].Types[t].Allocatable)
	}
	if slices.Equal(free, left) {
		return a.subsetSums(free, capacity)
	}
	return a.subsetSums(free, left, capacity)
}

// subsetSums returns the sums of all subsets of each list. If there are too many, it keeps only
// those of the largest elements, and the axis is not complete.
func (a *axis) subsetSums(lists ...[]int64) []int64 {
	var out []int64
	for _, list := range lists {
		sums := []int64{0}
		for _, n := range list {
			more := make([]int64, len(sums))
			for i, sum := range sums {
				more[i] = sum + n
			}
			sums = append(sums, more...)
			slices.Sort(sums)
			if sums = slices.Compact(sums); len(sums) > maxSums {
				break
			}
		}
		if len(sums) > maxSums {
			a.complete = false
			sums = largestSums(list)
		}
		out = append(out, sums...)
	}
	return out
}

// largestSums returns the sum of the largest element of a list, of the two largest, and so on.
func largestSums(list []int64) []int64 {
	sums := slices.Sorted(slices.Values(list))
	slices.Reverse(sums)
	for i := 1; i < len(sums); i++ {
		sums[i] += sums[i-1]
	}
	return sums
}

// room returns the largest amount of a resource that a pod can have now, on any NUMA nodes.
func (x *search) room(resource string) int64 {
	switch {
	case resource == request.CPU:
		return int64(x.state.FreeCPUs().Len())
	case !request.IsMemory(resource):
		return int64(len(x.state.Devices().Free(resource)))
	}
	t := x.state.Machine().MemoryType(resource)
	if t < 0 {
		return 0
	}
	var sum int64
	for _, n := range x.state.Memory().Nodes() {
		sum += n.Free[t]
	}
	return sum
}

// hopeless reports whether the node has less of some resource than the minimum that the pod's
// containers can request, so that no amounts would be admitted.
func (x *search) hopeless(resources []string) bool {
	if x.trace.Cause == rejection.ResourcesOff || x.trace.Cause == rejection.ContainersAboveBound {
		return true
	}
	for _, resource := range resources {
		if least, ok := x.least(resource); !ok || least > x.room(resource) {
			return true
		}
	}
	return false
}

// least returns a lower bound for the amount that the pod requests, however much its amounts are
// lowered. It returns false if the API server or the division of the pool allows none.
func (x *search) least(resource string) (int64, bool) {
	unit := x.unit(resource)
	if x.pools(resource) {
		a := axis{resource: resource, pool: true, unit: unit}
		low, high := int64(0), budgetOf(x.pod, resource)/unit+1 // in units; high is the budget itself
		amount := func(n int64) int64 { return min(n*unit, budgetOf(x.pod, resource)) }
		for low < high {
			middle := low + (high-low)/2
			if _, ok := x.lower(x.pod, a, amount(middle)); ok {
				high = middle
			} else {
				low = middle + 1
			}
		}
		_, ok := x.lower(x.pod, a, amount(high))
		return amount(high), ok
	}
	var together, one int64
	for i := range x.pod.Containers {
		c := &x.pod.Containers[i]
		n, ok := asked(c, resource)
		if !ok || n == 0 {
			continue
		}
		n = min(n, unit)
		one = max(one, n)
		if c.Type != request.Init {
			together += n
		}
	}
	return max(one, together), true
}
