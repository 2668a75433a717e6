package telemetry

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Throttled has the kernel's counts for one cgroup since its creation (cpu.stat).
type Throttled struct {
	// Cgroup is the name of the cgroup. It is unique while the cgroup exists.
	Cgroup string
	// OfPod is true for the cgroup of a pod, and false for the cgroup of a container.
	OfPod              bool
	Periods, Throttled uint64
	Time               time.Duration
}

var (
	throttledPeriods = describe("paddock_exclusive_throttled_periods_total",
		"CFS periods in which containers with exclusive CPUs were throttled, by the quota that throttled them: the container's or its pod's.", "cgroup")
	throttledOf = describe("paddock_exclusive_periods_total",
		"CFS periods with a quota in which something ran, of the same cgroups.", "cgroup")
	throttledSeconds = describe("paddock_exclusive_throttled_seconds_total",
		"Time for which threads were throttled, of the same cgroups; a pod's includes its shared containers.", "cgroup")
)

// NewThrottling adds counters of throttled containers with exclusive CPUs. sample returns the
// present counts of their cgroups and of their pods' cgroups. Each scrape calls it, one goroutine
// at a time. NewThrottling must be called at most once.
//
// Counts from before a cgroup was first seen are ignored, because its quota may have been correct
// at that time. The last periods before a cgroup ends may be missed.
func (t *Telemetry) NewThrottling(sample func() []Throttled) {
	t.registry.MustRegister(&throttling{sample: sample, last: map[string]Throttled{}, sums: map[bool]*Throttled{false: {}, true: {}}})
}

// throttling sums the counts of cgroups that come and go.
type throttling struct {
	sample func() []Throttled

	mu   sync.Mutex
	last map[string]Throttled
	sums map[bool]*Throttled // by OfPod
}

// Describe implements prometheus.Collector.
func (t *throttling) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{throttledPeriods, throttledOf, throttledSeconds} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (t *throttling) Collect(to chan<- prometheus.Metric) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sample := t.sample()
	now := make(map[string]Throttled, len(sample))
	for _, s := range sample {
		now[s.Cgroup] = s
		before, seen := t.last[s.Cgroup]
		if !seen || s.Periods < before.Periods || s.Throttled < before.Throttled || s.Time < before.Time {
			continue // A new cgroup, perhaps with the same name.
		}
		sum := t.sums[s.OfPod]
		sum.Periods += s.Periods - before.Periods
		sum.Throttled += s.Throttled - before.Throttled
		sum.Time += s.Time - before.Time
	}
	t.last = now
	for ofPod, sum := range t.sums {
		level := "container"
		if ofPod {
			level = "pod"
		}
		set := func(d *prometheus.Desc, value float64) {
			to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, value, level)
		}
		set(throttledPeriods, float64(sum.Throttled))
		set(throttledOf, float64(sum.Periods))
		set(throttledSeconds, sum.Time.Seconds())
	}
}
