// Package telemetry provides metrics for Prometheus, health and readiness over HTTP, and the
// logger.
//
// The metrics have the names, types, labels and meanings of docs/rules/api-metrics.md, with the
// prefix kubelet_ where that document has it, so dashboards and alerts for the kubelet work.
// Metrics that Paddock adds begin with paddock_. Gauges are computed from the snapshot at each
// scrape, so they always show the present state. Counters count decisions. Every series exists from
// the start with the value 0, so that the first increment is visible. Every label has a fixed set
// of values, and any other value is counted as "Other".
//
// The reference sometimes counts in a way that contradicts its own descriptions, or that follows
// from a fault that Paddock does not have. In these cases this package differs:
//
//   - kubelet_cpu_manager_allocation_per_numa has every NUMA node with CPUs, even if the value is 0, and
//     includes pools of pods (Q-13, R-MET-13).
//   - Resources that were planned for a pod before it was rejected do not count as allocation, assignment
//     or alignment, because no pod ever had them (Q-12, R-MET-10). Requests are counted up to the
//     rejection.
//   - The pool of a pod-level pod is one request of each manager, and each slice is one more. The
//     reference counts the pool for memory only, so that its CPU errors can exceed its requests, and
//     counts init containers that share as requests for memory (Q-24, R-MET-11, R-MET-21).
//   - A container that shares requests no memory. Outside a pool it counts neither as a request nor as an
//     assignment (Q-3, R-MET-20).
//   - resource_manager_allocations_total counts containers with exclusive resources, once for each
//     manager, as KEP-5526 describes it. The reference also counts sharing containers of a pool, and
//     memory at node level once for each type (Q-24, R-MET-11, R-MET-20).
//   - resource_manager_container_assignments is a counter, as in the kubelet: it begins with 0 at each
//     start and never falls, although KEP-5526 describes a gauge and a real-time view.
//     paddock_container_assignments is that gauge.
//   - A known pod that is admitted again counts as a request and as aligned. It gets no new assignments,
//     so no allocation and no assignment is counted.
//   - kubelet_admission_rejections_total has SMTAlignmentError, EmptyPodSharedPoolError,
//     TopologySearchLimit and TooManyContainers as separate reasons, not as "Other".
//   - kubelet_pod_resources_endpoint_errors_list and _errors_get_allocatable are incremented (Q-24,
//     R-MET-40).
//
// A pod that fits but whose state could not be written is not admitted. It counts as a rejection
// with UnexpectedAdmissionError, but not as an error of the CPU or memory manager.
//
// kubelet_topology_manager_admission_duration_ms is in whole milliseconds, as in the reference, so
// it is 0 for most admissions. paddock_admission_duration_seconds has the same admissions in
// seconds. Both include the decision and the write that made the answer durable.
package telemetry
