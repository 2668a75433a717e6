package plugin

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// These metrics are served beside the scheduler's own.
var (
	hits = counter("filter_memo_hits_total", "Nodes that Filter answered for without a plan.")
	// A miss is a plan.
	misses         = counter("filter_memo_misses_total", "Nodes that Filter planned the pod for.")
	unknownDevices = counter("unknown_devices_total", "Scheduling cycles of pods with devices that others choose later.")
	unsureNodes    = counter("unsure_nodes_total", "Nodes that Filter let pass, because it is unsure what their kubelet decides.")
	postponed      = counter("postponed_preemptions_total", "Scheduling cycles that preempted no pod, because a node has room that its agent has not published yet.")
	unusedGrants   = counter("unused_grants_total", "Grants of pods or nodes that were not used, because they are damaged or contradict others.")
)

func counter(name, help string) *metrics.Counter {
	return metrics.NewCounter(&metrics.CounterOpts{
		Namespace: "paddock", Subsystem: "scheduler", Name: name, Help: help, StabilityLevel: metrics.ALPHA,
	})
}

// registerMetrics registers the metrics, once per process.
var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(hits, misses, unknownDevices, unsureNodes, postponed, unusedGrants)
})
