package telemetry_test

import (
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/node/engine"
	"github.com/paddock-project/paddock/internal/node/telemetry"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

// TestGaugesOfOfflineCPUs checks that offline CPUs are counted separately, and that the other
// gauges of CPUs add up to the online CPUs, as the alert PaddockCPUsLost expects.
func TestGaugesOfOfflineCPUs(t *testing.T) {
	n := scenario.New(nil)
	do := func(name string, args string, input ...string) {
		t.Helper()
		if answer := n.Run(scenario.Command{Name: name, Args: strings.Fields(args), Input: input}); strings.Contains(answer, "error:") {
			t.Fatal(answer)
		}
	}
	do("machine", "sockets=2 cores=4")
	do("config", "topology=restricted scope=pod cpu=static")
	do("pod", "a cpu=3 memory=1Gi", "app own cpu=1 memory=512Mi", "app log")
	do("pod", "b", "app c cpu=2 memory=1Gi")
	do("admit", "a")
	do("admit", "b")
	handler := telemetry.New(telemetry.Config{
		Policy: n.State().Policy(), Snapshot: func() *engine.Snapshot { return &engine.Snapshot{State: n.State()} },
	}).Handler(false)
	for _, c := range []struct {
		command, cpus                           string
		offline, degraded, displaced, exclusive float64
	}{
		{"offline", "7", 0, 0, 0, 5},
		{"offline", "2", 1, 1, 0, 4},
		{"offline", "1,4", 3, 2, 1, 2},
		{"online", "1-2", 1, 1, 0, 4},
		{"online", "4,7", 0, 0, 0, 5},
	} {
		do(c.command, c.cpus)
		got := series(scrape(t, handler))
		for name, want := range map[string]float64{
			"paddock_offline_cpus": c.offline, "paddock_degraded_pods": c.degraded, "paddock_displaced_containers": c.displaced,
			"kubelet_cpu_manager_exclusive_cpu_allocation_count": c.exclusive,
		} {
			if got[name] != want {
				t.Errorf("%s %s: %s is %v, want %v", c.command, c.cpus, name, got[name], want)
			}
		}
		sum := got[`paddock_allocatable_cpus{numa_node="0"}`] + got[`paddock_allocatable_cpus{numa_node="1"}`]
		if parts := got["kubelet_cpu_manager_shared_pool_size_millicores"]/1000 + got["kubelet_cpu_manager_exclusive_cpu_allocation_count"]; sum != parts {
			t.Errorf("%s %s: %v CPUs are allocatable, and %v are free or assigned", c.command, c.cpus, sum, parts)
		}
	}
	if !n.State().Offline().IsEmpty() || n.State().Degraded() != nil {
		t.Errorf("all is online, and %d pods are degraded", len(n.State().Degraded()))
	}
}
