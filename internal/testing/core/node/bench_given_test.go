package node_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// BenchmarkAdmitGiven is BenchmarkAdmit with a pod that has given devices: four GPUs of a device
// plugin and four NICs of a claim, out of eight of each on every NUMA node. All devices are near
// one NUMA node or, under best-effort, each is near the next NUMA node, so the pod cannot be
// aligned with them.
func BenchmarkAdmitGiven(b *testing.B) {
	for _, numa := range []int{1, 2, 4, 8} {
		for _, policy := range []node.TopologyPolicy{node.TopologyBestEffort, node.TopologyRestricted, node.TopologySingleNUMANode} {
			for _, devices := range []int{0, 8} {
				b.Run(fmt.Sprintf("numa=%d/policy=%s/devices=%d", numa, policy, devices), func(b *testing.B) {
					benchmarkGiven(b, timingNode(b, numa, policy), givenDevices(timingPod(false), numa, devices, false))
				})
			}
			if policy == node.TopologyBestEffort {
				b.Run(fmt.Sprintf("numa=%d/policy=%s/devices=8-apart", numa, policy), func(b *testing.B) {
					benchmarkGiven(b, timingNode(b, numa, policy), givenDevices(timingPod(false), numa, 8, true))
				})
			}
		}
	}
}

// givenDevices gives half of the devices to the sidecar and half to the first app.
func givenDevices(pod request.Pod, numa, devices int, apart bool) request.Pod {
	if devices == 0 {
		return pod
	}
	var all []mask.Mask
	for id := range numa {
		for range devices {
			all = append(all, mask.Of(id))
		}
	}
	pod.Stock = []request.Stock{request.StockOf("example.com/gpu", all), request.StockOf("nic.example.com", all)}
	for i := range devices {
		c := &pod.Containers[2*(i%2)]
		near := mask.Of(numa - 1)
		if apart {
			near = mask.Of(i % numa)
		}
		g := request.Given{Resource: "example.com/gpu", Name: fmt.Sprint("gpu", i), Nodes: near}
		if i >= devices/2 {
			g = request.Given{Driver: "nic.example.com", Pool: "node", Claim: "fast", Name: fmt.Sprint("nic", i), Nodes: near}
		}
		c.Given = append(c.Given, g)
	}
	for i := range pod.Containers {
		slices.SortFunc(pod.Containers[i].Given, func(a, b request.Given) int { return a.Compare(&b) })
	}
	return pod
}

func benchmarkGiven(b *testing.B, state *node.State, pod request.Pod) {
	b.ReportAllocs()
	for b.Loop() {
		plan := state.Plan(pod)
		if plan.Rejection != nil {
			b.Fatal(plan.Rejection)
		}
		if _, err := state.Apply(plan); err != nil {
			b.Fatal(err)
		}
	}
}
