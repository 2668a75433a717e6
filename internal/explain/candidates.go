package explain

import (
	"cmp"
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// axis is one amount that can be lowered: of a pool, of the container called who, or, where who is
// empty and there is no pool, of every container that asks for more.
type axis struct {
	resource, who string
	pool          bool
	unit          int64
	// values are the amounts at which the answer to the pod can change, the largest first: between
	// two of them it is that of the larger one. Where complete is false there may be others.
	values   []int64
	complete bool
}

const (
	// maxSums bounds the sums over NUMA nodes that are looked at. Nodes that are alike have the
	// same sums, so that even 64 of them stay below it as long as they are filled alike.
	maxSums = 1024
	// maxAskers bounds how many containers are looked at in all combinations.
	maxAskers = 6
)

// axisOf finds the values. An admission compares what is asked for with what sets of NUMA nodes
// have free and could ever have; so the answer changes only where the amount, alone or with what
// other containers of the pod ask for, is such a sum. Of CPUs that several containers take one
// after the other every number is a value, as which CPUs one takes decides what the next finds.
func (x *search) axisOf(pod request.Pod, resource, who string) axis {
	a := axis{resource: resource, who: who, pool: x.pools(resource), unit: x.unit(resource), complete: true}
	want := highest(pod, resource, who, a.pool)
	top := (want - 1) / a.unit * a.unit
	if a.pool {
		top = want // As much for the pod, but smaller slices.
	}
	simple := x.simple(pod, resource)
	var values []int64
	switch {
	case request.IsMemory(resource):
		values = a.thresholds(pod, x.memorySums(&a))
	case resource == request.CPU && simple:
		// What sets of NUMA nodes have free, and have at all, and what is free on cores without a
		// reserved CPU (R-CPU-71).
		m, free := x.state.Machine(), x.state.AvailableCPUs()
		var local, sizes []int64
		for _, n := range m.CPUNodes() {
			local = append(local, int64(free.IntersectionLen(n.CPUs)))
			sizes = append(sizes, int64(n.Size))
		}
		physical := x.state.SharedCPUs().Difference(cpu.PhysicalOf(m, x.state.Policy().ReservedCPUs))
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

// askers are the amounts that containers ask of a resource for themselves.
func askers(pod request.Pod, resource string) []int64 {
	var out []int64
	for i := range pod.Containers {
		if n, ok := asked(&pod.Containers[i], resource); ok && n > 0 {
			out = append(out, n)
		}
	}
	return out
}

// simple reports whether a single amount is all that the pod asks of a resource.
func (x *search) simple(pod request.Pod, resource string) bool {
	return x.pools(resource) || len(askers(pod, resource)) == 1
}

// thresholds are the amounts at which what is asked for reaches one of the sums, and those of the
// containers themselves.
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

// limitFor is the largest limit on each of the amounts of a set, which ascend, with which they are
// together no more than sum; 0 if they are so without.
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

// memorySums are how many bytes sets of NUMA nodes have free, and could ever have.
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

// subsetSums are the sums over all subsets of each list. Where they are too many only those of the
// largest ones stay, and the axis is not complete.
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

// largestSums are the largest, the two largest, … of a list together.
func largestSums(list []int64) []int64 {
	sums := slices.Sorted(slices.Values(list))
	slices.Reverse(sums)
	for i := 1; i < len(sums); i++ {
		sums[i] += sums[i-1]
	}
	return sums
}

// room is how much of a resource a pod can have at most now, wherever it is.
func (x *search) room(resource string) int64 {
	switch {
	case resource == request.CPU:
		return int64(x.state.AvailableCPUs().Len())
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

// hopeless reports whether the node has too little of one of the resources for the least that the
// pod's containers can ask for, so that no amounts would do.
func (x *search) hopeless(resources []string) bool {
	if x.trace.Cause == node.ResourcesOff || x.trace.Cause == node.ContainersAboveBound {
		return true
	}
	for _, resource := range resources {
		if least, ok := x.least(resource); !ok || least > x.room(resource) {
			return true
		}
	}
	return false
}

// least is less than or equal to what the pod asks for, however much its amounts are lowered; false
// where the API server, or the division of the pool, takes none.
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
