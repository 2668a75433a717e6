package telemetry_test

import (
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/node/engine"
	"github.com/paddock-project/paddock/internal/node/telemetry"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

// TestGaugesOfDevices checks that a pod counts once, by its farthest device, and that a pod with a
// device without a known NUMA node is counted separately.
func TestGaugesOfDevices(t *testing.T) {
	n := scenario.New(nil)
	do := func(name string, args string, input ...string) {
		t.Helper()
		if answer := n.Run(scenario.Command{Name: name, Args: strings.Fields(args), Input: input}); strings.Contains(answer, "error:") {
			t.Fatal(answer)
		}
	}
	do("machine", "sockets=2 numa=2 cores=4")
	do("given", "", "example.com/nic zero@0 one@1 three@3 lost")
	do("config", "topology=best-effort scope=container cpu=static memory=None")
	handler := telemetry.New(telemetry.Config{
		Policy: n.State().Policy(), Snapshot: func() *engine.Snapshot { return &engine.Snapshot{State: n.State()} },
	}).Handler(false)
	admit := func(pod, cpus string, devices ...string) {
		t.Helper()
		input := []string{"app c cpu=" + cpus + " memory=1Gi"}
		for _, d := range devices {
			input = append(input, "given c example.com/nic="+d)
		}
		do("pod", pod, input...)
		do("admit", pod)
	}
	for _, c := range []struct {
		admit, numaNode, socket, unknown float64
		do                               func()
	}{
		{1, 0, 0, 0, func() { admit("near", "2", "zero") }},
		{2, 0, 0, 1, func() { admit("unknown", "1", "lost") }},
		{3, 1, 0, 1, func() { admit("beside", "1", "zero", "one") }},
		{4, 1, 1, 2, func() { admit("far", "1", "one", "three", "lost") }},
		{3, 0, 1, 2, func() { do("remove", "beside") }},
	} {
		c.do()
		got := series(scrape(t, handler))
		for name, want := range map[string]float64{
			"paddock_pods": c.admit, `paddock_remote_device_pods{distance="numa_node"}`: c.numaNode,
			`paddock_remote_device_pods{distance="socket"}`: c.socket, "paddock_unknown_device_pods": c.unknown,
		} {
			if got[name] != want {
				t.Errorf("with %v pods: %s is %v, want %v", c.admit, name, got[name], want)
			}
		}
	}
}
