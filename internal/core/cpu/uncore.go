package cpu

import "github.com/paddock-project/paddock/internal/core/cpuset"

// takeUncores is the step for prefer-align-cpus-by-uncorecache (R-CPU-61). It takes whole free
// caches while the need is at least the size of an average cache. It then takes the whole rest from
// a part of one cache. It may take nothing (R-CPU-64).
func (a *allocator) takeUncores() {
	// One count is enough: a cache from which CPUs were taken is either used up or the last one.
	a.uncores = make([]int32, len(a.m.Uncores()))
	for id := range a.free.All() {
		a.uncores[a.at.Places[id].Uncore]++
	}
	average := a.m.CPUsPerUncore()
	for _, u := range a.uncoreOrder() {
		if a.need >= average {
			a.takeWhole(a.uncoreOrder(), a.m.Uncores(), ownSize)
		}
		if a.need == 0 {
			return
		}
		if a.takeFromUncore(u); a.need == 0 {
			return
		}
	}
}

// takeFromUncore takes the whole need from the lowest cores of uncore cache u that have a free CPU,
// or nothing. It gives up if one of these cores is only partly free, even if the cache has enough
// free CPUs elsewhere (R-CPU-62, Q-15).
func (a *allocator) takeFromUncore(u int32) {
	perCore := coreSize(a.m)
	cores := (a.need + perCore - 1) / perCore
	if a.wholeCores {
		cores = a.need / perCore
	}
	var chosen cpuset.Builder
	size, highest := 0, -1
	for _, c := range a.at.UncoreCores[u] {
		if cores == 0 {
			break
		}
		cpus := a.m.Cores()[c].CPUs
		if !a.free.Intersects(cpus) {
			continue
		}
		cores--
		for id := range cpus.All() {
			if a.free.Has(id) {
				chosen.Add(id)
				size++
				highest = max(highest, id)
			}
		}
	}
	if a.need%2 == 1 && perCore > 1 && size > a.need {
		chosen.Remove(highest)
		size--
	}
	if size == a.need {
		a.takeFree(chosen.Set())
	}
}
