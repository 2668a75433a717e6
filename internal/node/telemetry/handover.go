package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Handover has the metrics of grants that a scheduler handed over.
type Handover struct{ decisions *prometheus.CounterVec }

// NewHandover adds the metrics. outcomes are all outcomes of a decision. promises returns the
// number of pods to which something is promised.
func (t *Telemetry) NewHandover(outcomes []string, promises func() int) *Handover {
	r := registrar{promauto.With(t.registry)}
	r.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "paddock_promised_pods", Help: "Pods that are bound to this node with a grant and have not started.",
	}, func() float64 { return float64(promises()) })
	return &Handover{r.vector("paddock_handovers_total",
		"Decisions about pods, by the outcome of the grant in the annotation: applied, absent, or why the node planned by itself.", []string{"outcome"}, outcomes)}
}

// Count counts one decision.
func (h *Handover) Count(outcome string) { h.decisions.WithLabelValues(outcome).Inc() }

// Publication has the metrics of the objects that show the node to the cluster.
type Publication struct {
	writes, errors prometheus.Counter
	seconds        prometheus.Histogram
	last           prometheus.Gauge
}

// NewPublication adds the metrics.
func (t *Telemetry) NewPublication() *Publication {
	r := registrar{promauto.With(t.registry)}
	return &Publication{
		writes: r.counter("paddock_publication_writes_total", "Writes of this node's PaddockNode."),
		errors: r.counter("paddock_publication_errors_total", "Attempts to write this node's objects that failed."),
		seconds: r.histogram("paddock_publication_duration_seconds", "Time of one attempt to write this node's objects.",
			prometheus.ExponentialBuckets(1e-3, 2, 15)),
		last: r.gauge("paddock_publication_last_write_timestamp_seconds", "When this node's PaddockNode was last written; 0 before this process wrote it."),
	}
}

// Published implements publication.Observer.
func (p *Publication) Published(took time.Duration, err error) {
	p.seconds.Observe(took.Seconds())
	if err != nil {
		p.errors.Inc()
		return
	}
	p.writes.Inc()
	p.last.SetToCurrentTime()
}

// Export has the metrics of the NodeResourceTopology of this node.
type Export struct {
	writes, errors prometheus.Counter
	missing        prometheus.Gauge
}

// NewExport adds the metrics.
func (t *Telemetry) NewExport() *Export {
	r := registrar{promauto.With(t.registry)}
	return &Export{
		writes:  r.counter("paddock_node_resource_topology_writes_total", "Writes of this node's NodeResourceTopology."),
		errors:  r.counter("paddock_node_resource_topology_errors_total", "Attempts to write this node's NodeResourceTopology that failed."),
		missing: r.gauge("paddock_node_resource_topology_missing", "1 while the API server has no definition of NodeResourceTopology."),
	}
}

// Exported implements zones.Observer.
func (e *Export) Exported(err error, missing bool) {
	e.missing.Set(0)
	if missing {
		e.missing.Set(1)
	}
	if err != nil {
		e.errors.Inc()
		return
	}
	e.writes.Inc()
}
