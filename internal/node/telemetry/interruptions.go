package telemetry

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"
)

// Interruptions has how often the exclusive CPUs of a container were interrupted by one class of
// sources. Pod and Container are empty for all containers without series of their own.
type Interruptions struct {
	Pod, Container, Source string
	Count                  uint64
}

var interrupted = describe("paddock_cpu_interruptions_total",
	"Interrupts and softirqs on the exclusive CPUs of a container since the agent first saw it there, by the class of their source.", "pod", "container", "source")

// NewInterruptions adds the counters. sample returns them, with names that occur once, and must not
// block. Its caller bounds their number. NewInterruptions must be called at most once.
func (t *Telemetry) NewInterruptions(sample func() []Interruptions) {
	t.registry.MustRegister(interruptions(sample))
}

// interruptions is a collector of what a sample returns.
type interruptions func() []Interruptions

// Describe implements prometheus.Collector.
func (interruptions) Describe(to chan<- *prometheus.Desc) { to <- interrupted }

// Collect implements prometheus.Collector.
func (sample interruptions) Collect(to chan<- prometheus.Metric) {
	for _, s := range sample() {
		to <- prometheus.MustNewConstMetric(interrupted, prometheus.CounterValue, float64(s.Count), cmp.Or(s.Pod, other), cmp.Or(s.Container, other), s.Source)
	}
}
