// Package telemetry tells what the node does: metrics for Prometheus, health and readiness over
// HTTP, and the logger.
//
// The names, types, labels and meanings of docs/rules/api-metrics.md are kept, with the prefix
// kubelet_ where it is said there, so that dashboards and alerts made for the kubelet work.
// What Paddock adds begins with paddock_. Gauges are computed from the snapshot at the time of the
// scrape, so they always are what the state is; counters count decisions. Every series
// exists from the start with the value 0, so that the first increment is seen, and every label has
// a fixed set of values: what is not in it is counted as "Other".
//
// Where the reference counts in a way that its own descriptions do not mean, or that follows from a
// fault that Paddock does not have, this package differs:
//
//   - kubelet_cpu_manager_allocation_per_numa has every NUMA node with CPUs, also with 0, and
//     knows pools of pods (Q-13, R-MET-13).
//   - What a refused pod had got before it was refused is no allocation, no assignment and no
//     alignment: nobody ever had it (Q-12, R-MET-10). Requests are counted up to where the
//     refusal came.
//   - A pod-level pod's pool is one request of each manager, and each slice one more. The reference
//     counts the pool for memory only, so that its CPU errors can exceed its requests, and
//     counts init containers that share as requests for memory (Q-24, R-MET-11, R-MET-21).
//   - A container that shares asks for no memory: it is no request and no assignment outside of
//     a pool (Q-3, R-MET-20).
//   - resource_manager_allocations_total counts containers that got something exclusive, once for
//     each manager, as KEP-5526 describes it. The reference counts sharing containers of a pool
//     too, and memory on the node's level once for each type (Q-24, R-MET-11, R-MET-20).
//   - resource_manager_container_assignments is the counter that the kubelet has under this name: it
//     begins with 0 at each start and never falls, whatever KEP-5526 says of a gauge and of a
//     real-time view. paddock_container_assignments is that gauge.
//   - A pod that is known asks again and counts as a request and as aligned, but is
//     not given anything again, so that no allocation and no assignment is counted.
//   - kubelet_admission_rejections_total has SMTAlignmentError, EmptyPodSharedPoolError and
//     TopologySearchLimit as reasons of their own, not as "Other".
//   - kubelet_pod_resources_endpoint_errors_list and _errors_get_allocatable move (Q-24, R-MET-40).
//
// A pod that was granted what it wants and could not be written is not admitted: it counts as a
// rejection with UnexpectedAdmissionError, but as no error of the CPU or memory manager.
//
// kubelet_topology_manager_admission_duration_ms is in whole milliseconds as in the reference, which
// for most admissions is 0; paddock_admission_duration_seconds has the same admissions in
// seconds. Both are the time for deciding and for the write that made the answer durable.
package telemetry
