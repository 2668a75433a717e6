package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Moves has the metrics of moves of running pods.
type Moves struct {
	begun, done, returned prometheus.Counter
	bytes                 prometheus.Counter
	waited, capped        prometheus.Counter
}

// NewMoves adds the metrics. moving returns the number of pods that are being moved now. waiting
// returns the number of pods that are not being moved yet because they asked for that.
func (t *Telemetry) NewMoves(moving, waiting func() int) *Moves {
	r := registrar{promauto.With(t.registry)}
	r.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "paddock_moving_pods", Help: "Running pods that are being moved to other CPUs or NUMA nodes; they have the old and the new ones.",
	}, func() float64 { return float64(moving()) })
	r.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "paddock_left_alone_pods", Help: "Running pods that ask not to be moved while a move waits for them.",
	}, func() float64 { return float64(waiting()) })
	asked := r.vector("paddock_leave_alone_requests_total",
		"Requests of pods not to be moved: those that made a move wait, and those that were longer than the limit.", []string{"outcome"}, []string{"waited", "capped"})
	outcomes := r.vector("paddock_moves_total", "Moves of running pods: begun, done, and returned to the old CPUs and memory nodes.", []string{"outcome"}, []string{"begun", "done", "returned"})
	return &Moves{
		waited: asked.WithLabelValues("waited"), capped: asked.WithLabelValues("capped"),
		begun: outcomes.WithLabelValues("begun"), done: outcomes.WithLabelValues("done"), returned: outcomes.WithLabelValues("returned"),
		bytes: r.counter("paddock_moved_memory_bytes_total", "Memory of running pods that was moved to other NUMA nodes, as the pods request it."),
	}
}

// Begun counts one move that began.
func (m *Moves) Begun() { m.begun.Inc() }

// Ended counts one move that ended. bytes is the memory that it moved.
func (m *Moves) Ended(done bool, bytes int64) {
	if !done {
		m.returned.Inc()
		return
	}
	m.done.Inc()
	m.bytes.Add(float64(bytes))
}

// LeftAlone counts one move that begins to wait because the pod asked for that. If capped is true,
// it counts one move that no longer waits because of the limit.
func (m *Moves) LeftAlone(capped bool) {
	if capped {
		m.capped.Inc()
		return
	}
	m.waited.Inc()
}
