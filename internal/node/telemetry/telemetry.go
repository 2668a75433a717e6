package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/node/engine"
)

// Config is the environment of a Telemetry.
type Config struct {
	// Policy is the node's policy. It does not change while the process runs, and does not depend
	// on the state.
	Policy node.Policy
	// Snapshot is the present state. It must not wait, and several goroutines may call it at any
	// time. While it returns nil, because there is no usable state, there are no gauges of a state.
	Snapshot func() *engine.Snapshot
	// Checks are the conditions for being ready. All must be met.
	Checks []Check
	Build  Build
}

// Check is one condition for being ready. Ready must not wait, and several goroutines may call it
// at any time. Its error is for people.
type Check struct {
	Name  string
	Ready func() error
}

// Build is the version of this program.
type Build struct{ Version, Revision, GoVersion string }

// Telemetry observes the engine and the PodResources server, and serves metrics. It is safe for use
// by several goroutines.
type Telemetry struct {
	config   Config
	registry *prometheus.Registry
	counters counters
}

var _ engine.Observer = (*Telemetry)(nil)

// New returns a Telemetry with a registry of its own, in which every series exists.
func New(c Config) *Telemetry {
	t := &Telemetry{config: c, registry: prometheus.NewRegistry()}
	t.counters = newCounters(t.registry, c.Policy)
	t.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		gauges{snapshot: c.Snapshot, checks: c.Checks},
	)
	build := promauto.With(t.registry).NewGaugeVec(prometheus.GaugeOpts{
		Name: "paddock_build_info", Help: "Build information of this program; always 1.",
	}, []string{"version", "revision", "go_version"})
	build.WithLabelValues(c.Build.Version, c.Build.Revision, c.Build.GoVersion).Set(1)
	return t
}

// NewManifests adds the number of files and directories of manifests with errors, which unusable
// returns. It is called once at most.
func (t *Telemetry) NewManifests(unusable func() int) {
	promauto.With(t.registry).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "paddock_unusable_manifests", Help: "Files and directories of manifests with errors. The pods that were read from them before are kept.",
	}, func() float64 { return float64(unusable()) })
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

// Released is engine.Observer's: a pod's assignments were released.
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

// Limited is the PodResources server's: a call that the rate limit rejected. The reference does not
// count it (R-API-3).
func (t *Telemetry) Limited(endpoint, version string) {
	t.counters.podResources.limited.WithLabelValues(known(endpoint, endpoints), known(version, apiVersions)).Inc()
}
