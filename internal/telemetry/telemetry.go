package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/engine"
)

// Config is what telemetry tells of.
type Config struct {
	// Policy is how the node decides; it does not change while the process lives, and is there also
	// when the state is not.
	Policy node.Policy
	// Snapshot is the state as it is now. It must not wait and may be called at any time by
	// several goroutines. While it returns nil, because there is no usable state, there
	// are no gauges of one.
	Snapshot func() *engine.Snapshot
	// Checks say whether the node is ready. All must be.
	Checks []Check
	Build  Build
}

// Check is one condition for being ready. Ready must not wait and may be called at any time by
// several goroutines; its error says what is wrong, for people.
type Check struct {
	Name  string
	Ready func() error
}

// Build is what this program was made of.
type Build struct{ Version, Revision, GoVersion string }

// Telemetry observes the engine and the PodResources server, and shows what it saw. It is safe
// for use by several goroutines.
type Telemetry struct {
	config   Config
	registry *prometheus.Registry
	counters counters
}

var _ engine.Observer = (*Telemetry)(nil)

// New makes a Telemetry with a registry of its own, in which every series exists.
func New(c Config) *Telemetry {
	t := &Telemetry{config: c, registry: prometheus.NewRegistry()}
	t.counters = newCounters(t.registry, c.Policy)
	t.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		gauges{snapshot: c.Snapshot, checks: c.Checks},
	)
	build := promauto.With(t.registry).NewGaugeVec(prometheus.GaugeOpts{
		Name: "paddock_build_info", Help: "What this program was made of; always 1.",
	}, []string{"version", "revision", "go_version"})
	build.WithLabelValues(c.Build.Version, c.Build.Revision, c.Build.GoVersion).Set(1)
	return t
}

// Wrote is engine.Observer's: one write of the state.
func (t *Telemetry) Wrote(w engine.Write) {
	c := &t.counters
	c.writes.Inc()
	c.writeSeconds.Observe(w.Took.Seconds())
	if w.Err != nil {
		c.writeErrors.Inc()
		return
	}
	c.lastWrite.Set(float64(w.At.UnixNano()) / 1e9)
	c.stateBytes.Set(float64(w.Bytes))
}

// Released is engine.Observer's: a pod gave back what it held.
func (t *Telemetry) Released(string) { t.counters.released.Inc() }

// Served is the PodResources server's: a call that was answered. Endpoint is the method's name,
// version "v1" or "v1alpha1" (R-MET-40).
func (t *Telemetry) Served(endpoint, version string, err error) {
	version = known(version, apiVersions)
	c := &t.counters.podResources
	c.requests.WithLabelValues(version).Inc()
	e, counted := c.endpoints[endpoint]
	if !counted || version != "v1" {
		return
	}
	e.requests.WithLabelValues(version).Inc()
	if err != nil {
		e.errors.WithLabelValues(version).Inc()
	}
}

// Limited is the PodResources server's: a call that was turned away unanswered. The reference
// counts it nowhere (R-API-3).
func (t *Telemetry) Limited(endpoint, version string) {
	t.counters.podResources.limited.WithLabelValues(known(endpoint, endpoints), known(version, apiVersions)).Inc()
}
