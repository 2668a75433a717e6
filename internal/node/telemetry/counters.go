package telemetry

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/rejection"
)

// other is the value of a label for all values that have no series of their own.
const other = "Other"

// The values of labels (docs/rules/api-metrics.md, section 6).
const (
	scopeContainer = "container"
	scopePod       = "pod"

	boundaryNUMA     = "numa_node"
	boundaryPhysical = "physical_cpu"
	boundaryUncore   = "uncore_cache"

	resourceCPU    = "cpu"
	resourceMemory = "memory"

	sourcePod  = "pod"
	sourceNode = "node"

	nodeExclusive = "node_exclusive"
	podExclusive  = "pod_exclusive"
	podShared     = "pod_shared"

	resized    = "resized"
	notWritten = "not_written"
)

var (
	apiVersions = []string{"v1", "v1alpha1"}
	endpoints   = []string{"List", "Get", "GetAllocatableResources"}
	reasons     = []string{
		string(rejection.TopologyAffinityError), string(rejection.SMTAlignmentError), string(rejection.EmptyPodSharedPoolError),
		string(rejection.UnexpectedAdmissionError), string(rejection.PodLevelResourcesNotSupported), string(rejection.TopologySearchLimit),
		string(rejection.TooManyContainers),
	}
	resizes = []string{resized, notWritten, string(rejection.Infeasible), string(rejection.Deferred)}
)

// known returns value if it is one of values, and other otherwise. So no input becomes a new label
// value.
func known(value string, values []string) string {
	if slices.Contains(values, value) {
		return value
	}
	return other
}

// counters has all counters. Those that the configuration does not need are counted too, but not
// shown.
type counters struct {
	cpu, memory managerCounters

	admissions, admissionErrors prometheus.Counter
	milliseconds, seconds       prometheus.Histogram
	aligned, unaligned          *prometheus.CounterVec // scope, boundary
	rejections                  *prometheus.CounterVec // reason
	allocations, allocErrors    *prometheus.CounterVec // resource_name, source
	assignments                 *prometheus.CounterVec // resource_name, assignment_type

	shared  *prometheus.CounterVec // why
	limited prometheus.Counter

	estimated prometheus.Counter

	resizes *prometheus.CounterVec // outcome

	writes, writeErrors, released prometheus.Counter
	writeSeconds                  prometheus.Histogram
	lastWrite, stateBytes         prometheus.Gauge

	podResources podResourcesCounters
}

type managerCounters struct{ requests, errors prometheus.Counter }

type podResourcesCounters struct {
	requests  *prometheus.CounterVec // server_api_version
	endpoints map[string]endpointCounters
	limited   *prometheus.CounterVec // endpoint, server_api_version
}

type endpointCounters struct{ requests, errors *prometheus.CounterVec } // server_api_version

// registrar creates metrics and registers them, or does not register them if it has no registry.
type registrar struct{ promauto.Factory }

func (r registrar) counter(name, help string) prometheus.Counter {
	return r.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

func (r registrar) gauge(name, help string) prometheus.Gauge {
	return r.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

func (r registrar) histogram(name, help string, buckets []float64) prometheus.Histogram {
	return r.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
}

// vector returns a counter with a series for each combination of values. values has one list per
// label.
func (r registrar) vector(name, help string, labels []string, values ...[]string) *prometheus.CounterVec {
	v := r.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	begin(v, nil, values)
	return v
}

func begin(v *prometheus.CounterVec, head []string, values [][]string) {
	if len(values) == 0 {
		v.WithLabelValues(head...)
		return
	}
	for _, value := range values[0] {
		begin(v, append(slices.Clone(head), value), values[1:])
	}
}

func newCounters(registry *prometheus.Registry, policy node.Policy) counters {
	r := registrar{promauto.With(registry)}
	c := counters{
		cpu: managerCounters{
			r.counter("kubelet_cpu_manager_pinning_requests_total", "Requests for exclusive CPUs: containers, and pools of pods."),
			r.counter("kubelet_cpu_manager_pinning_errors_total", "Requests for exclusive CPUs that failed."),
		},
		memory: managerCounters{
			r.counter("kubelet_memory_manager_pinning_requests_total", "Requests for pinned memory: containers, and pools of pods."),
			r.counter("kubelet_memory_manager_pinning_errors_total", "Requests for pinned memory that failed."),
		},
		rejections: r.vector("kubelet_admission_rejections_total", "Pods that were not admitted, by reason.",
			[]string{"reason"}, append(slices.Clone(reasons), other)),
		podResources: newPodResourcesCounters(r),
	}
	c.addPodLevel(registry, policy)
	c.addOwn(r)
	// The alignment metrics have the series of R-MET-31.
	c.admissions = r.counter("kubelet_topology_manager_admission_requests_total", "Requests to admit a pod.")
	c.admissionErrors = r.counter("kubelet_topology_manager_admission_errors_total", "Admissions that were rejected under a topology policy other than none.")
	c.milliseconds = r.histogram("kubelet_topology_manager_admission_duration_ms",
		"Time of an admission in whole milliseconds, deciding and writing.", prometheus.ExponentialBuckets(0.05, 2, 15))
	labels, scopes := []string{"scope", "boundary"}, []string{scopeContainer, scopePod}
	c.aligned = r.vector("kubelet_container_aligned_compute_resources_count", "Allocations that are aligned to a boundary.",
		labels, scopes, []string{boundaryNUMA})
	c.unaligned = r.vector("kubelet_container_aligned_compute_resources_failure_count", "Allocations that could not be aligned to a boundary.",
		labels, scopes, []string{boundaryNUMA})
	if policy.StaticCPU {
		c.aligned.WithLabelValues(scopeContainer, boundaryPhysical)
		c.aligned.WithLabelValues(scopeContainer, boundaryUncore)
		c.unaligned.WithLabelValues(scopeContainer, boundaryPhysical)
	}
	return c
}

// addPodLevel adds the metrics of pod-level managers, which are shown only if these are on
// (R-MET-1).
func (c *counters) addPodLevel(registry *prometheus.Registry, policy node.Policy) {
	r := registrar{promauto.With(nil)}
	if policy.PodLevelManagers {
		r = registrar{promauto.With(registry)}
	}
	labels, resources, sources := []string{"resource_name", "source"}, []string{resourceCPU, resourceMemory}, []string{sourcePod, sourceNode}
	c.allocations = r.vector("resource_manager_allocations_total", "Containers that were assigned exclusive resources, from the node or from their pod's pool.",
		labels, resources, sources)
	c.allocErrors = r.vector("resource_manager_allocation_errors_total", "Exclusive allocations that failed, from the node or from a pod's pool.",
		labels, resources, sources)
	c.assignments = r.vector("resource_manager_container_assignments", "Containers that were assigned CPUs or memory since this process started, by kind; it never falls. paddock_container_assignments is how many have them now.",
		[]string{"resource_name", "assignment_type"}, resources, []string{nodeExclusive, podExclusive, podShared})
}

// addOwn adds the metrics that the reference does not have.
func (c *counters) addOwn(r registrar) {
	c.seconds = r.histogram("paddock_admission_duration_seconds", "Time of an admission, deciding and writing.",
		prometheus.ExponentialBuckets(10e-6, 2, 20))
	c.shared = r.vector("paddock_shared_containers_total", "Containers of Guaranteed pods that were admitted without CPUs of their own, by cause.",
		[]string{"why"}, whys)
	c.estimated = r.counter("paddock_estimated_pods_total", "Pods that were admitted with a request that was estimated from cgroup numbers.")
	c.resizes = r.vector("paddock_resizes_total", "Decisions about resizes of pods: resized, not written, or the reason of the rejection.",
		[]string{"outcome"}, append(slices.Clone(resizes), other))
	c.limited = r.counter("paddock_alignments_limited_total", "Searches for NUMA nodes that ended at their limit of steps.")
	c.writes = r.counter("paddock_state_writes_total", "Attempts to write the state.")
	c.writeErrors = r.counter("paddock_state_write_errors_total", "Attempts to write the state that failed.")
	c.writeSeconds = r.histogram("paddock_state_write_duration_seconds", "Time of one attempt to write the state.",
		prometheus.ExponentialBuckets(50e-6, 2, 16))
	c.lastWrite = r.gauge("paddock_state_last_write_timestamp_seconds", "When the state was last written; 0 before this process wrote it.")
	c.stateBytes = r.gauge("paddock_state_bytes", "Size of the state that was last written; 0 before this process wrote it.")
	c.released = r.counter("paddock_pods_released_total", "Pods whose assignments were released.")
}

func newPodResourcesCounters(r registrar) podResourcesCounters {
	const prefix = "kubelet_pod_resources_endpoint_"
	version, v1 := []string{"server_api_version"}, []string{"v1"}
	endpoint := func(name, method string) endpointCounters {
		return endpointCounters{
			r.vector(prefix+"requests_"+name, "Calls of "+method+".", version, v1),
			r.vector(prefix+"errors_"+name, "Calls of "+method+" that ended with an error.", version, v1),
		}
	}
	withOther := func(values []string) []string { return append(slices.Clone(values), other) }
	return podResourcesCounters{
		requests: r.vector(prefix+"requests_total", "Calls to the PodResources server that were answered.", version, withOther(apiVersions)),
		endpoints: map[string]endpointCounters{
			"List":                    endpoint("list", "List"),
			"Get":                     endpoint("get", "Get"),
			"GetAllocatableResources": endpoint("get_allocatable", "GetAllocatableResources"),
		},
		limited: r.vector("paddock_pod_resources_limited_total", "Calls to the PodResources server that the rate limit rejected.",
			[]string{"endpoint", "server_api_version"}, withOther(endpoints), withOther(apiVersions)),
	}
}
