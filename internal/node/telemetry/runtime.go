package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// hooks are the requests of a runtime, which are the values of the label hook.
var hooks = []string{
	"Synchronize", "RunPodSandbox", "UpdatePodSandbox", "StopPodSandbox", "RemovePodSandbox",
	"CreateContainer", "StartContainer", "UpdateContainer", "StopContainer", "RemoveContainer",
}

// Runtime has the metrics of a container runtime that asks before it acts.
type Runtime struct {
	seconds   *prometheus.HistogramVec // hook
	errors    *prometheus.CounterVec   // hook
	asked     prometheus.Histogram
	connected prometheus.Gauge
	away      prometheus.Counter
	repaired  prometheus.Counter
	vetoes    prometheus.Gauge
	slow      *prometheus.CounterVec // event

	unverified, unsettled prometheus.Gauge
}

// NewRuntime adds the metrics of a runtime. It must be called at most once.
func (t *Telemetry) NewRuntime() *Runtime {
	r := registrar{promauto.With(t.registry)}
	// By default, a runtime waits 2 s before it disconnects a plugin.
	buckets := []float64{50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 0.1, 0.25, 0.5, 1, 2, 5}
	out := &Runtime{
		seconds: r.NewHistogramVec(prometheus.HistogramOpts{
			Name: "paddock_runtime_hook_duration_seconds", Help: "Time to answer a request of the container runtime.", Buckets: buckets,
		}, []string{"hook"}),
		asked:     r.histogram("paddock_pod_lookup_duration_seconds", "Time for which an answer waited for the kubelet to report a pod.", buckets),
		errors:    r.vector("paddock_runtime_hook_errors_total", "Requests of the container runtime that were answered with an error, rejections among them.", []string{"hook"}, hooks),
		connected: r.gauge("paddock_runtime_connected", "1 while the container runtime asks before it starts a pod."),
		away:      r.counter("paddock_runtime_away_seconds_total", "Time in which the container runtime could start pods without asking the agent."),
		repaired:  r.counter("paddock_runtime_repaired_containers_total", "Containers that ran on the wrong CPUs or NUMA nodes, and were updated."),
		slow:      r.vector("paddock_event_loop_slow_events_total", "Events that took the control loop longer than 100 ms, by name.", []string{"event"}, hooks),
		vetoes:    r.gauge("paddock_runtime_resize_veto", "0 while the container runtime does not ask before a pod is resized; 1: it does, as far as is known."),
	}
	out.unverified = r.gauge("paddock_unverified_containers", "Running containers that did not have the CPUs, memory nodes or quota of their assignment, twice in a row.")
	out.unsettled = r.gauge("paddock_unsettled_containers", "Containers whose CPUs, memory nodes or quota change, or wait for a request of a container runtime that takes no other updates.")
	out.Vetoes(true)
	for _, hook := range hooks {
		out.seconds.WithLabelValues(hook)
	}
	return out
}

// Hook counts one request and the time until its answer.
func (r *Runtime) Hook(name string, took time.Duration, err error) {
	name = known(name, hooks)
	r.seconds.WithLabelValues(name).Observe(took.Seconds())
	if err != nil {
		r.errors.WithLabelValues(name).Inc()
	}
}

// Asked adds the time for which an answer waited for the source of pods.
func (r *Runtime) Asked(took time.Duration) { r.asked.Observe(took.Seconds()) }

// Connected records whether the runtime asks before it acts.
func (r *Runtime) Connected(yes bool) {
	r.connected.Set(0)
	if yes {
		r.connected.Set(1)
	}
}

// Away adds time during which the runtime did not ask.
func (r *Runtime) Away(d time.Duration) { r.away.Add(d.Seconds()) }

// Vetoes records whether the runtime asks before a pod is resized.
func (r *Runtime) Vetoes(yes bool) {
	r.vetoes.Set(0)
	if yes {
		r.vetoes.Set(1)
	}
}

// Repaired adds containers that were updated.
func (r *Runtime) Repaired(containers int) { r.repaired.Add(float64(containers)) }

// Slow counts an event that took the control loop longer than its limit. The names of events are
// constants of the program.
func (r *Runtime) Slow(event string, _ time.Duration) { r.slow.WithLabelValues(event).Inc() }

// Unverified records how many running containers do not have the settings that they should have.
func (r *Runtime) Unverified(containers int) { r.unverified.Set(float64(containers)) }

// Unsettled records how many containers wait for an update, or are being changed or created.
func (r *Runtime) Unsettled(containers int) { r.unsettled.Set(float64(containers)) }
