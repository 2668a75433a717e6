package cpu

import "github.com/paddock-project/paddock/internal/core/cpuset"

// takeUncores is the step of prefer-align-cpus-by-uncorecache: whole free caches as long
// as the need is at least the size of an average one, and a part of one cache that meets
// all that is left (R-CPU-61). It may take nothing (R-CPU-64).
func (t *taker) takeUncores() {
	average := t.m.CPUsPerUncore()
	for _, u := range t.uncoreOrder() {
		if t.need >= average {
			t.takeWhole(t.uncoreOrder(), t.m.Uncores(), t.uncores, ownSize)
		}
		if t.need == 0 {
			return
		}
		if t.takeFromUncore(u); t.need == 0 {
			return
		}
	}
}

// takeFromUncore takes the whole need from the lowest cores of uncore u that have a free
// CPU, or nothing: a half used core among them spoils it, even if the cache has enough
// free CPUs elsewhere (R-CPU-62, Q-15).
func (t *taker) takeFromUncore(u int32) {
	perCore := coreSize(t.m)
	cores := (t.need + perCore - 1) / perCore
	var chosen cpuset.Builder
	size, highest := 0, -1
	for _, c := range t.at.UncoreCores[u] {
		if cores == 0 {
			break
		}
		if t.cores[c] == 0 {
			continue
		}
		cores--
		for id := range t.m.Cores()[c].CPUs.All() {
			if t.free.Has(id) {
				chosen.Add(id)
				size++
				highest = max(highest, id)
			}
		}
	}
	if t.need%2 == 1 && perCore > 1 && size > t.need {
		chosen.Remove(highest)
		size--
	}
	if size == t.need {
		t.takeFree(chosen.Set())
	}
}
