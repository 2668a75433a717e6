package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/node/engine"
)

// Config configures a Telemetry.
type Config struct {
	// Policy is the node's policy. It does not change while the process runs, and does not depend
	// on the state.
	Policy node.Policy
	// Snapshot returns the present state. It must not block, and may be called concurrently at any
	// time. While it returns nil, because there is no usable state, there are no gauges of the
	// state.
	Snapshot func() *engine.Snapshot
	// Stranded returns the stranded CPUs by NUMA node. It may be nil.
	Stranded func(*node.State) map[int]float64
	// Checks are the conditions for being ready. All of them must be met.
	Checks []Check
	Build  Build
}

// Check is one condition for being ready. Ready must not block, and may be called concurrently at
// any time. Its error is for people.
type Check struct {
	Name  string
	Ready func() error
	// Limits returns what is missing although the check succeeds, each with its consequence. It may
	// be nil.
	Limits func() []string
}

// Build is the version of this program.
type Build struct{ Version, Revision, GoVersion string }

// Telemetry observes the engine and the PodResources server, and serves metrics. It is safe for
// concurrent use.
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
		gauges{snapshot: c.Snapshot, stranded: c.Stranded, checks: c.Checks},
	)
	build := promauto.With(t.registry).NewGaugeVec(prometheus.GaugeOpts{
		Name: "paddock_build_info", Help: "Build information of this program; always 1.",
	}, []string{"version", "revision", "go_version"})
	build.WithLabelValues(c.Build.Version, c.Build.Revision, c.Build.GoVersion).Set(1)
	return t
}

// NewManifests adds the number of manifest files and directories with errors. unusable returns that
// number. NewManifests must be called at most once.
func (t *Telemetry) NewManifests(unusable func() int) {
	promauto.With(t.registry).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "paddock_unusable_manifests", Help: "Files and directories of manifests with errors. The pods that were read from them before are kept.",
	}, func() float64 { return float64(unusable()) })
}

// NewUse adds the number of reserved CPUs that are idle, which idle returns. It must not block.
// NewUse must be called at most once.
func (t *Telemetry) NewUse(idle func() int) {
	promauto.With(t.registry).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "paddock_idle_reserved_cpus", Help: "CPUs that one container or one pod has and that it did not need in any minute of the last hour.",
	}, func() float64 { return float64(idle()) })
}

// NewPredictions adds the comparisons of predictions with what a kubelet did. count returns the
// number of those with a result, and must not block. NewPredictions must be called at most once.
func (t *Telemetry) NewPredictions(results []string, count func(result string) int) {
	for _, result := range results {
		promauto.With(t.registry).NewCounterFunc(prometheus.CounterOpts{
			Name: "paddock_predictions_total", Help: "Decisions of the kubelet about pods with resources of their own, by how they compare with their prediction.",
			ConstLabels: prometheus.Labels{"result": result},
		}, func() float64 { return float64(count(result)) })
	}
}

// Wrote implements engine.Observer. It counts one write of the state.
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

// Released implements engine.Observer. It counts one pod whose assignments were released.
func (t *Telemetry) Released(string) { t.counters.released.Inc() }

// Served implements podres.Observer. It counts a call that was answered. endpoint is the name of
// the method, and version is "v1" or "v1alpha1" (R-MET-40).
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

// Limited implements podres.Observer. It counts a call that the rate limit rejected. The reference
// does not count these (R-API-3).
func (t *Telemetry) Limited(endpoint, version string) {
	t.counters.podResources.limited.WithLabelValues(known(endpoint, endpoints), known(version, apiVersions)).Inc()
}
