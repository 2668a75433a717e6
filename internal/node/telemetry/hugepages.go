package telemetry

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// HugePages are huge pages of a NUMA node that a kubelet's Memory Manager counts as free, and that
// are in use.
type HugePages struct {
	NUMANode int
	// Resource is for example "hugepages-2Mi".
	Resource string
	Bytes    int64
}

var takenHugePages = describe("paddock_hugepages_taken_bytes",
	"Huge pages that the kubelet's Memory Manager counts as free and that are in use, by NUMA node: by pods that it does not count (KEP-5759), or by the host.",
	"numa_node", "resource")

// NewHugePages adds the huge pages that are taken. Each scrape calls taken, which must not block.
// NewHugePages must be called at most once.
func (t *Telemetry) NewHugePages(taken func() []HugePages) {
	t.registry.MustRegister(takenPages(taken))
}

type takenPages func() []HugePages

// Describe implements prometheus.Collector.
func (takenPages) Describe(to chan<- *prometheus.Desc) { to <- takenHugePages }

// Collect implements prometheus.Collector.
func (t takenPages) Collect(to chan<- prometheus.Metric) {
	for _, p := range t() {
		to <- prometheus.MustNewConstMetric(takenHugePages, prometheus.GaugeValue, float64(p.Bytes), strconv.Itoa(p.NUMANode), p.Resource)
	}
}
