package telemetry_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

func TestRuntime(t *testing.T) {
	rig := newRig(emptyNode(t, configs[1]))
	r := rig.telemetry.NewRuntime()
	r.Connected(true)
	r.Hook("CreateContainer", 3*time.Millisecond, nil)
	r.Hook("RunPodSandbox", time.Millisecond, errors.New("refused"))
	r.Hook("nobody knows it", time.Millisecond, nil)
	r.Asked(20 * time.Millisecond)
	r.Away(1500 * time.Millisecond)
	r.Repaired(2)
	r.Slow("CreateContainer", time.Second)
	r.Unverified(3)
	r.Unsettled(4)
	text := get(rig.handler, "/metrics").Body.String()
	for _, line := range []string{
		`paddock_runtime_connected 1`,
		`paddock_runtime_away_seconds_total 1.5`,
		`paddock_runtime_repaired_containers_total 2`,
		`paddock_event_loop_slow_events_total{event="CreateContainer"} 1`,
		`paddock_unverified_containers 3`,
		`paddock_unsettled_containers 4`,
		`paddock_runtime_hook_duration_seconds_count{hook="CreateContainer"} 1`,
		`paddock_runtime_hook_duration_seconds_count{hook="StopContainer"} 0`,
		`paddock_runtime_hook_duration_seconds_count{hook="Other"} 1`,
		`paddock_pod_lookup_duration_seconds_bucket{le="0.01"} 0`,
		`paddock_pod_lookup_duration_seconds_bucket{le="0.025"} 1`,
		`paddock_runtime_hook_errors_total{hook="RunPodSandbox"} 1`,
		`paddock_runtime_hook_errors_total{hook="CreateContainer"} 0`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("%s is missing", line)
		}
	}
	r.Connected(false)
	text = get(rig.handler, "/metrics").Body.String()
	if !strings.Contains(text, "paddock_runtime_connected 0\n") {
		t.Error("it still counts as connected")
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "paddock_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}
