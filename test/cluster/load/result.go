package load

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Result is the result of a load.
type Result struct {
	Pods map[types.UID]*Pod
	// Created is the number of pods that were created. Bound is the number of those that a
	// scheduler bound, Ran of those of them that ran, and Lost of those that are bound at the end
	// and do not run.
	Created, Bound, Ran, Lost, Withdrawn, Evicted int
	Took                                          time.Duration
	// Milli is the sum of the requests of the bound pods, in thousandths of a CPU.
	Milli int64
	// ToBind is the time from creation to binding. ToRun is the time from binding to Running.
	ToBind, ToRun Quantiles
	// Woken is the time from the end of a pod to the binding of a pod that had waited for room on
	// its node. Waited is the number of such pods.
	Woken  Quantiles
	Waited int
}

// Quantiles are quantiles of times.
type Quantiles struct{ Half, Most, All time.Duration }

// QuantilesOf returns the median, the 95th percentile and the maximum of some times.
func QuantilesOf(times []time.Duration) Quantiles {
	if len(times) == 0 {
		return Quantiles{}
	}
	slices.Sort(times)
	at := func(percent int) time.Duration {
		return times[min(len(times)*percent/100, len(times)-1)].Round(time.Millisecond)
	}
	return Quantiles{at(50), at(95), at(100)}
}

func (l *Load) result(took time.Duration) *Result {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &Result{Pods: map[types.UID]*Pod{}, Created: l.number, Withdrawn: l.withdrawn, Evicted: l.evicted, Took: took}
	var toBind, toRun, woken []time.Duration
	for _, p := range slices.Concat(l.past, slices.Collect(maps.Values(l.pods))) {
		copied := *p
		r.Pods[p.UID] = &copied
		if p.Bound.IsZero() {
			continue
		}
		r.Bound++
		r.Milli += p.Milli
		if p.Woken > 0 {
			woken = append(woken, p.Woken)
		}
		toBind = append(toBind, p.Bound.Sub(p.Created))
		switch {
		case !p.Running.IsZero():
			r.Ran++
			toRun = append(toRun, p.Running.Sub(p.Bound))
		case !p.Ending:
			r.Lost++
		}
	}
	r.Woken, r.Waited = QuantilesOf(woken), len(woken)
	r.ToBind, r.ToRun = QuantilesOf(toBind), QuantilesOf(toRun)
	return r
}
