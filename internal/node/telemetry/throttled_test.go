package telemetry_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/node/telemetry"
)

// TestThrottling checks the sums over cgroups that come and go. Counts from before a cgroup was
// first seen are ignored, also after it is created again, and no sum ever falls.
func TestThrottling(t *testing.T) {
	rig := newRig(emptyNode(t, configs[1]))
	var sample []telemetry.Throttled
	rig.telemetry.NewThrottling(func() []telemetry.Throttled { return sample })
	of := func(name string, pod bool, periods, throttled uint64) telemetry.Throttled {
		return telemetry.Throttled{Cgroup: name, OfPod: pod, Periods: periods, Throttled: throttled, Time: time.Duration(throttled) * time.Second}
	}
	for _, step := range []struct {
		sample []telemetry.Throttled
		want   string
	}{
		{nil, "pod 0 of 0, 0 s; container 0 of 0, 0 s"},
		{[]telemetry.Throttled{of("/a", true, 90, 80), of("/a/1", false, 5, 0)}, "pod 0 of 0, 0 s; container 0 of 0, 0 s"},
		{[]telemetry.Throttled{of("/a", true, 100, 83), of("/a/1", false, 5, 0), of("/b", true, 7, 7)}, "pod 3 of 10, 3 s; container 0 of 0, 0 s"},
		{[]telemetry.Throttled{of("/a/1", false, 15, 4), of("/b", true, 8, 7)}, "pod 3 of 11, 3 s; container 4 of 10, 4 s"},
		{[]telemetry.Throttled{of("/a", true, 100, 83), of("/a/1", false, 2, 1)}, "pod 3 of 11, 3 s; container 4 of 10, 4 s"},
		{[]telemetry.Throttled{of("/a", true, 101, 84), of("/a/1", false, 3, 2)}, "pod 4 of 12, 4 s; container 5 of 11, 5 s"},
	} {
		sample = step.sample
		hintSets := scrape(t, rig.handler)
		value := func(name, level string) float64 {
			for _, m := range hintSets[name].GetMetric() {
				if m.GetLabel()[0].GetValue() == level {
					return m.GetCounter().GetValue()
				}
			}
			t.Fatalf("no %s of a %s", name, level)
			return 0
		}
		text := func(level string) string {
			return fmt.Sprintf("%s %v of %v, %v s", level, value("paddock_exclusive_throttled_periods_total", level),
				value("paddock_exclusive_periods_total", level), value("paddock_exclusive_throttled_seconds_total", level))
		}
		if got := text("pod") + "; " + text("container"); got != step.want {
			t.Errorf("%+v: %s, want %s", step.sample, got, step.want)
		}
	}
}
