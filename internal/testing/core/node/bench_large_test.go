package node_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// BenchmarkAdmitLarge measures one whole admission on machines on which the reference cannot align
// at all: CPUs, memory, two sizes of huge pages, GPUs and NICs at once. p50-ns and p99-ns are over
// the admissions of a run. No search may reach its limit.
func BenchmarkAdmitLarge(b *testing.B) {
	for _, name := range []string{"gb200-34-nodes", "epyc-2s-l3numa-32n", "cxl-64n", "gpu-server-8n"} {
		for _, policy := range []node.TopologyPolicy{node.TopologyBestEffort, node.TopologyRestricted} {
			for _, closest := range []bool{false, true} {
				for _, fill := range []string{"empty", "half", "fragmented"} {
					b.Run(fmt.Sprintf("machine=%s/policy=%s/closest=%t/fill=%s", name, policy, closest, fill), func(b *testing.B) {
						benchmarkLarge(b, name, policy, closest, fill)
					})
				}
			}
		}
	}
}

func benchmarkLarge(b *testing.B, name string, policy node.TopologyPolicy, closest bool, fill string) {
	m := exampleMachine(b, name)
	s, err := node.Restore(m, node.Policy{
		Topology: policy, Scope: node.PodScope, PreferClosest: closest, StaticCPU: true, ReservedCPUs: cpuset.Of(m.CPUs()[0].ID),
		StaticMemory: true, PodLevelResources: true, PodLevelManagers: true, LiftQuota: true,
	}, residents(m, fill))
	if err != nil {
		b.Fatal(err)
	}
	if s, err = s.WithDevices(inventory(b, m)); err != nil {
		b.Fatal(err)
	}
	pods := largePods(m)
	var took []time.Duration
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		begin := time.Now()
		plan := s.Plan(pods[i%len(pods)])
		if _, err := s.Apply(plan); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begin))
		for _, a := range plan.Trace.Alignments {
			if a.Choice.Unproven || a.Choice.Unsolved {
				b.Fatalf("the search reached its limit: %s", a.Choice.Why)
			}
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
}

// exampleMachine returns a machine of examples/machines with huge pages of two sizes on every NUMA
// node that has memory for them.
func exampleMachine(b *testing.B, name string) *machine.Machine {
	b.Helper()
	data, err := os.ReadFile("../../../../examples/machines/" + name + ".json")
	if errors.Is(err, fs.ErrNotExist) {
		b.Skipf("there is no example machine %s", name)
	}
	if err != nil {
		b.Fatal(err)
	}
	found, err := discover.Read(name, data)
	if err != nil {
		b.Fatal(err)
	}
	d, err := discover.FromInfo(found.Info)
	if err != nil {
		b.Fatal(err)
	}
	for i := range d.Nodes {
		d.Nodes[i].HugePages = []machine.HugePages{{SizeKiB: 2048, Count: d.Nodes[i].Memory / 8 / (2 * mib)}, {SizeKiB: 1 << 20, Count: d.Nodes[i].Memory / 8 / gib}}
	}
	m, err := machine.New(d)
	if err != nil {
		b.Fatal(err)
	}
	return m
}

// inventory returns two GPUs and one NIC on every NUMA node with CPUs, and a NIC between each two.
func inventory(b *testing.B, m *machine.Machine) *device.Inventory {
	b.Helper()
	devices := map[string][]device.Device{}
	add := func(resource string, nodes mask.Mask) {
		id := fmt.Sprintf("d%03d", len(devices[resource]))
		devices[resource] = append(devices[resource], device.Device{ID: id, Healthy: true, Nodes: nodes})
	}
	cpuNodes := m.CPUNodes()
	for i, n := range cpuNodes {
		add("example.com/gpu", mask.Of(n.ID))
		add("example.com/gpu", mask.Of(n.ID))
		add("example.com/nic", mask.Of(n.ID))
		if i%2 == 1 {
			add("example.com/nic", mask.Of(cpuNodes[i-1].ID, n.ID))
		}
	}
	inv, err := device.NewInventory(m, devices)
	if err != nil {
		b.Fatal(err)
	}
	return inv
}

// residents returns the grants of pods that are there already. If fill is half, they have half the
// CPUs and memory of every second NUMA node with CPUs. If it is fragmented, they have three tenths
// of the CPUs of every NUMA node and of the memory of every second one, so that a pod that needs
// nearly a whole NUMA node finds none.
func residents(m *machine.Machine, fill string) []*node.Grant {
	var grants []*node.Grant
	for i, n := range m.CPUNodes() {
		cpus, share := 0, int64(0)
		switch {
		case fill == "half" && i%2 == 0:
			cpus, share = n.Size/2, 4
		case fill == "fragmented" && i%2 == 0:
			cpus, share = max(1, n.Size*3/10), 6
		case fill == "fragmented":
			cpus = max(1, n.Size*3/10)
		}
		if cpus == 0 {
			continue
		}
		g := &node.Grant{
			Pod: request.Pod{
				Identity: request.Identity{UID: fmt.Sprintf("resident-%02d", n.ID), Namespace: "default", Name: fmt.Sprintf("resident-%02d", n.ID)}, Ask: request.Ask{
					QoS:        request.Guaranteed,
					Containers: []request.Container{{Name: "c", Type: request.App, CPUs: cpus}},
				},
			},
			Sequence: uint64(i + 1), Containers: make([]node.ContainerGrant, 1),
		}
		ids := n.CPUs.IDs()
		g.Containers[0].CPUs = cpuset.Of(ids[len(ids)-cpus:]...)
		if described, _ := m.Node(n.ID); share > 0 && described.Memory > 0 {
			size := described.Memory / 2 / share
			g.Pod.Containers[0].Memory = request.Amounts{{Resource: "memory", Value: size}}
			g.Containers[0].Memory, g.Containers[0].MemoryNodes = []memory.Block{{Type: "memory", Size: size, Nodes: mask.Of(n.ID)}}, mask.Of(n.ID)
		}
		g.Containers[0].Affinity = hint.Choice{Mask: mask.Of(n.ID), HasMask: true, Preferred: true}
		grants = append(grants, g)
	}
	return grants
}

// largePods returns pods that ask for nine tenths of one NUMA node, of two and of four NUMA nodes.
func largePods(m *machine.Machine) []request.Pod {
	n := m.CPUNodes()[0]
	described, _ := m.Node(n.ID)
	var pods []request.Pod
	for _, tenths := range []int{9, 18, 36} {
		name := fmt.Sprintf("tenths-%d", tenths)
		cpus := max(2, n.Size*tenths/10)
		pods = append(pods, request.Pod{
			Identity: request.Identity{UID: name, Namespace: "default", Name: name}, Ask: request.Ask{
				QoS: request.Guaranteed, Kind: request.PodLevel,
				BudgetCPUs: cpus, BudgetCPUMilli: int64(cpus) * 1000,
				BudgetMemory: request.Amounts{
					{Resource: "hugepages-1Gi", Value: max(1, described.Memory/16/gib) * gib},
					{Resource: "hugepages-2Mi", Value: described.Memory / 16 / (2 * mib) * 2 * mib},
					{Resource: "memory", Value: described.Memory * int64(tenths) / 20},
				},
				Containers: []request.Container{
					{
						Name: "app", Type: request.App, CPUs: cpus / 2, Memory: request.Amounts{{Resource: "memory", Value: gib}}, Equivalent: true,
						HugePages: []string{"hugepages-1Gi", "hugepages-2Mi"},
						Devices:   request.Amounts{{Resource: "example.com/gpu", Value: int64(max(1, tenths/9))}, {Resource: "example.com/nic", Value: 1}},
					},
					{Name: "log", Type: request.App, HugePages: []string{"hugepages-1Gi", "hugepages-2Mi"}},
				},
			},
		})
	}
	return pods
}
