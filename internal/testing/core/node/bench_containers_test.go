package node_test

import (
	"fmt"
	"testing"

	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// BenchmarkAdmitContainers measures one admission, planning and applying, of a pod with many
// containers on a machine with 512 CPUs and 8 NUMA nodes. The cost should be linear in the number
// of containers.
func BenchmarkAdmitContainers(b *testing.B) {
	for _, scope := range []node.Scope{node.PodScope, node.ContainerScope} {
		for _, kind := range []string{"pool", "plain", "inits", "devices", "claims"} {
			for _, n := range []int{10, 1000, 5000} {
				b.Run(fmt.Sprintf("scope=%s/kind=%s/containers=%d", scope, kind, n), func(b *testing.B) {
					s, pod := containersNode(b, scope), podOf(kind, n)
					b.ReportAllocs()
					for b.Loop() {
						plan := s.Plan(pod)
						if plan.Rejection != nil {
							b.Fatal(plan.Rejection)
						}
						if _, err := s.Apply(plan); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}

// BenchmarkCheckContainers checks a state with such a pod, as a start does.
func BenchmarkCheckContainers(b *testing.B) {
	for _, kind := range []string{"pool", "plain", "inits", "devices", "claims"} {
		b.Run("kind="+kind, func(b *testing.B) {
			s, pod := containersNode(b, node.PodScope), podOf(kind, 5000)
			s, err := s.Apply(s.Plan(pod))
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := s.Check(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func containersNode(b *testing.B, scope node.Scope) *node.State {
	b.Helper()
	old := timingNode(b, 8, node.TopologyBestEffort)
	policy := old.Policy()
	policy.Scope = scope
	s, err := node.New(old.Machine(), policy)
	if err != nil {
		b.Fatal(err)
	}
	inv, err := device.NewInventory(s.Machine(), map[string][]device.Device{"example.com/vf": virtualFunctions(s.Machine())})
	if err != nil {
		b.Fatal(err)
	}
	if s, err = s.WithDevices(inv); err != nil {
		b.Fatal(err)
	}
	return s
}

// virtualFunctions returns 6,000 devices, spread over the NUMA nodes.
func virtualFunctions(m *machine.Machine) []device.Device {
	devices := make([]device.Device, 6000)
	for i := range devices {
		devices[i] = device.Device{ID: fmt.Sprintf("vf%04d", i), Healthy: true, Nodes: mask.Of(m.CPUNodes()[i%len(m.CPUNodes())].ID)}
	}
	return devices
}

// podOf returns a Guaranteed pod of n containers, of which 400, or half, have their own CPU.
func podOf(kind string, n int) request.Pod {
	pod := request.Pod{Identity: request.Identity{UID: kind, Namespace: "default", Name: kind}, Ask: request.Ask{QoS: request.Guaranteed}}
	if kind == "pool" {
		pod.Kind, pod.BudgetCPUs, pod.BudgetCPUMilli = request.PodLevel, 500, 500_000
		pod.BudgetMemory = request.Amounts{{Resource: machine.Memory, Value: 64 * gib}}
	}
	for i := range n {
		c := request.Container{Name: fmt.Sprintf("c%04d", i), Type: request.App}
		exclusive := i%max(1, n/400) == 0 && i/max(1, n/400) < 400
		switch {
		case kind == "inits" && i < n/2:
			c.Type, exclusive = request.Init, true
		case kind == "devices":
			c.Devices = request.Amounts{{Resource: "example.com/vf", Value: 1}}
		case kind == "claims":
			c.Given = []request.Given{{Driver: "gpu.example.com", Pool: "node", Name: "gpu0", Claim: "train", Nodes: mask.Of(0)}}
		}
		if exclusive {
			c.CPUs, c.CPURequest, c.CPULimit, c.Equivalent = 1, 1000, 1000, true
		} else {
			c.Sharing = request.FractionalCPU
		}
		if exclusive || kind != "pool" {
			c.Memory = request.Amounts{{Resource: machine.Memory, Value: 4 * mib}}
		}
		pod.Containers = append(pod.Containers, c)
	}
	return pod
}
