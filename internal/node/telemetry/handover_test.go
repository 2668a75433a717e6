package telemetry_test

import (
	"errors"
	"testing"
	"time"
)

// TestExport checks that a missing definition is shown until an attempt finds it.
func TestExport(t *testing.T) {
	rig := newRig(emptyNode(t, configs[1]))
	e := rig.telemetry.NewExport()
	shows := func(writes, failed, missing float64) {
		t.Helper()
		families := scrape(t, rig.handler)
		for name, want := range map[string]float64{
			"paddock_node_resource_topology_writes_total": writes, "paddock_node_resource_topology_errors_total": failed, "paddock_node_resource_topology_missing": missing,
		} {
			m := families[name].GetMetric()[0]
			if got := m.GetGauge().GetValue() + m.GetCounter().GetValue(); got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
	}
	e.Exported(errors.New("not there"), true)
	shows(0, 1, 1)
	e.Exported(nil, false)
	shows(1, 1, 0)
}

// TestHandoverAndPublication checks that counts are shown and that outcomes that did not occur are
// 0.
func TestHandoverAndPublication(t *testing.T) {
	rig := newRig(emptyNode(t, configs[1]))
	h := rig.telemetry.NewHandover([]string{"applied", "cpus"}, func() int { return 3 })
	h.Count("applied")
	p := rig.telemetry.NewPublication()
	p.Published(time.Millisecond, nil)
	p.Published(time.Millisecond, errors.New("away"))
	families := scrape(t, rig.handler)
	for name, want := range map[string]float64{"paddock_promised_pods": 3, "paddock_publication_writes_total": 1, "paddock_publication_errors_total": 1} {
		m := families[name].GetMetric()[0]
		if got := m.GetGauge().GetValue() + m.GetCounter().GetValue(); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	for _, m := range families["paddock_handovers_total"].GetMetric() {
		want := map[string]float64{"applied": 1, "cpus": 0}[m.GetLabel()[0].GetValue()]
		if got := m.GetCounter().GetValue(); got != want {
			t.Errorf("%v is %v", m.GetLabel(), got)
		}
	}
	if families["paddock_publication_last_write_timestamp_seconds"].GetMetric()[0].GetGauge().GetValue() == 0 {
		t.Error("the time of the write is not shown")
	}
}

// TestMoves checks that moves are counted by outcome, and that their memory is counted when they
// are done.
func TestMoves(t *testing.T) {
	rig := newRig(emptyNode(t, configs[1]))
	m := rig.telemetry.NewMoves(func() int { return 1 }, func() int { return 2 })
	m.LeftAlone(false)
	m.Begun()
	m.Begun()
	m.Ended(true, 1<<30)
	m.Ended(false, 1<<20)
	families := scrape(t, rig.handler)
	for _, c := range families["paddock_moves_total"].GetMetric() {
		want := map[string]float64{"begun": 2, "done": 1, "returned": 1}[c.GetLabel()[0].GetValue()]
		if got := c.GetCounter().GetValue(); got != want {
			t.Errorf("%v is %v, want %v", c.GetLabel(), got, want)
		}
	}
	if got := families["paddock_moved_memory_bytes_total"].GetMetric()[0].GetCounter().GetValue(); got != 1<<30 {
		t.Errorf("%v bytes are moved", got)
	}
	for name, want := range map[string]float64{"paddock_moving_pods": 1, "paddock_left_alone_pods": 2} {
		if got := families[name].GetMetric()[0].GetGauge().GetValue(); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	for _, c := range families["paddock_leave_alone_requests_total"].GetMetric() {
		want := map[string]float64{"waited": 1, "capped": 0}[c.GetLabel()[0].GetValue()]
		if got := c.GetCounter().GetValue(); got != want {
			t.Errorf("%v is %v, want %v", c.GetLabel(), got, want)
		}
	}
}

// TestNotices checks that attempts, failed attempts and containers without their notice are
// counted.
func TestNotices(t *testing.T) {
	rig := newRig(emptyNode(t, configs[1]))
	n := rig.telemetry.NewNotices(func() int { return 3 })
	n.Wrote(nil)
	n.Wrote(errors.New("no space left on device"))
	n.Missed()
	families := scrape(t, rig.handler)
	for name, want := range map[string]float64{
		"paddock_noticed_containers": 3, "paddock_notice_writes_total": 2, "paddock_notice_write_errors_total": 1, "paddock_notice_missed_containers_total": 1,
	} {
		m := families[name].GetMetric()[0]
		if got := m.GetGauge().GetValue() + m.GetCounter().GetValue(); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}
