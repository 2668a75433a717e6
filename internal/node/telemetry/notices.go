package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Notices has the metrics of notices to containers. It implements notice.Observer.
type Notices struct{ writes, errors, missed prometheus.Counter }

// NewNotices adds the metrics. containers returns the number of containers that have a notice.
func (t *Telemetry) NewNotices(containers func() int) *Notices {
	r := registrar{promauto.With(t.registry)}
	r.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "paddock_noticed_containers", Help: "Containers with a notice: a file that shows what they have.",
	}, func() float64 { return float64(containers()) })
	return &Notices{
		writes: r.counter("paddock_notice_writes_total", "Attempts to write a notice to a container."),
		errors: r.counter("paddock_notice_write_errors_total", "Attempts to write a notice that failed. They are retried."),
		missed: r.counter("paddock_notice_missed_containers_total", "Containers that asked for a notice and started without one."),
	}
}

// Wrote counts one attempt to write a notice.
func (n *Notices) Wrote(err error) {
	n.writes.Inc()
	if err != nil {
		n.errors.Inc()
	}
}

// Missed counts one container that started without the notice that it asked for.
func (n *Notices) Missed() { n.missed.Inc() }
