package telemetry_test

import (
	"maps"
	"testing"

	"github.com/paddock-project/paddock/internal/node/telemetry"
)

// TestInterruptions checks that the containers without series of their own are one, and that a
// series that ends is gone.
func TestInterruptions(t *testing.T) {
	r := newRig(emptyNode(t, configs[1]))
	sample := []telemetry.Interruptions{{Source: "device", Count: 7}, {Pod: "default/web", Container: "app", Source: "timer", Count: 40}}
	r.telemetry.NewInterruptions(func() []telemetry.Interruptions { return sample })
	of := func() map[string]float64 {
		all := series(scrape(t, r.handler))
		maps.DeleteFunc(all, func(name string, _ float64) bool {
			return len(name) < 31 || name[:31] != "paddock_cpu_interruptions_total"
		})
		return all
	}
	want := map[string]float64{
		`paddock_cpu_interruptions_total{container="Other",pod="Other",source="device"}`:    7,
		`paddock_cpu_interruptions_total{container="app",pod="default/web",source="timer"}`: 40,
	}
	if got := of(); !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
	sample = nil
	if got := of(); len(got) != 0 {
		t.Errorf("%v", got)
	}
}
