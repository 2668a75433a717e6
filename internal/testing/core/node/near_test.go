package node_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// twoSockets returns a node with NUMA nodes 0 and 1 on socket 0, and 2 and 3 on socket 1, each with
// two CPUs, and NUMA node 4 without CPUs. Its inventory has a disk on NUMA node 2.
func twoSockets(t *testing.T) *node.State {
	t.Helper()
	d := machine.Description{Nodes: []machine.NodeDescription{{ID: 4, Memory: 1 << 30}}}
	for id := range 4 {
		d.Nodes = append(d.Nodes, machine.NodeDescription{ID: id, Memory: 1 << 30, Cores: []machine.CoreDescription{
			{Threads: []int{2 * id}, Socket: id / 2, Uncore: machine.NoUncore}, {Threads: []int{2*id + 1}, Socket: id / 2, Uncore: machine.NoUncore},
		}})
	}
	m, err := machine.New(d)
	if err != nil {
		t.Fatal(err)
	}
	s, err := node.New(m, node.Policy{StaticCPU: true, Topology: node.TopologyBestEffort})
	if err != nil {
		t.Fatal(err)
	}
	inventory, err := device.NewInventory(m, map[string][]device.Device{"example.com/disk": {{ID: "two", Nodes: mask.Of(2), Healthy: true}}})
	if err != nil {
		t.Fatal(err)
	}
	if s, err = s.WithDevices(inventory); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestDevicesOf checks how far devices are from a container on some CPUs and memory.
func TestDevicesOf(t *testing.T) {
	s := twoSockets(t)
	at := func(nodes ...int) request.Given {
		return request.Given{Resource: "example.com/a", Name: mask.Of(nodes...).String(), Nodes: mask.Of(nodes...)}
	}
	disk := []device.Assigned{{Resource: "example.com/disk", IDs: []string{"gone", "two"}}}
	for _, c := range []struct {
		name   string
		given  []request.Given
		chosen []device.Assigned
		cpus   cpuset.Set
		memory mask.Mask
		want   string
	}{
		{name: "near", given: []request.Given{at(0)}, cpus: cpuset.Of(0, 1), memory: mask.Of(0), want: "{0} near"},
		{name: "CPUs elsewhere", given: []request.Given{at(0)}, cpus: cpuset.Of(2), memory: mask.Of(0), want: "{0} another NUMA node"},
		{name: "memory elsewhere", given: []request.Given{at(0)}, cpus: cpuset.Of(0), memory: mask.Of(1), want: "{0} another NUMA node"},
		{name: "memory on the other socket", given: []request.Given{at(0)}, cpus: cpuset.Of(0), memory: mask.Of(2), want: "{0} another socket"},
		{name: "memory without CPUs", given: []request.Given{at(0)}, cpus: cpuset.Of(0), memory: mask.Of(4), want: "{0} another NUMA node"},
		{name: "CPUs near one of two devices", given: []request.Given{at(0), at(1)}, cpus: cpuset.Of(0), want: "{0} near, {1} another NUMA node"},
		{name: "CPUs near one, the other on the other socket", given: []request.Given{at(0), at(2)}, cpus: cpuset.Of(0), want: "{0} near, {2} another socket"},
		{name: "CPUs near both devices", given: []request.Given{at(0), at(1)}, cpus: cpuset.Of(0, 2), want: "{0} near, {1} near"},
		{name: "a device near both NUMA nodes", given: []request.Given{at(0, 1)}, cpus: cpuset.Of(3), memory: mask.Of(0), want: "{0-1} near"},
		{name: "CPUs on both sockets", given: []request.Given{at(0)}, cpus: cpuset.Of(0, 4), want: "{0} another socket"},
		{name: "not known", given: []request.Given{at(), at(9)}, cpus: cpuset.Of(0), want: "{} unknown, {9} unknown"},
		{name: "nothing of its own", given: []request.Given{at(0)}, want: "{0} unknown"},
		{name: "chosen by the node", chosen: disk, cpus: cpuset.Of(0), want: "gone unknown, two another socket"},
		{name: "chosen and given", given: []request.Given{at(0)}, chosen: disk, cpus: cpuset.Of(0, 4), want: "{0} near, gone unknown, two near"},
	} {
		g := &node.Grant{
			Pod:        request.Pod{Ask: request.Ask{Containers: []request.Container{{Name: "c", Given: c.given}}}},
			Containers: []node.ContainerGrant{{CPUs: c.cpus, MemoryNodes: c.memory, Devices: c.chosen}},
		}
		var got []string
		worst := node.Near
		for _, d := range slices.Concat(s.DevicesOf(g)...) {
			got = append(got, d.Name+" "+d.Distance.String())
			worst = max(worst, d.Distance)
			if d.Chosen != (d.Resource == "example.com/disk") {
				t.Errorf("%s: %s is chosen: %v", c.name, d.Name, d.Chosen)
			}
		}
		if text := strings.Join(got, ", "); text != c.want || s.Farthest(g) != worst {
			t.Errorf("%s: %s, farthest %s; want %s", c.name, text, s.Farthest(g), c.want)
		}
	}
}

// TestUnknownDevices checks that the sentences have the device, what is not known about it, and
// what to do.
func TestUnknownDevices(t *testing.T) {
	pod := request.Pod{Identity: request.Identity{UID: "u", Namespace: "n", Name: "p"}, Ask: request.Ask{QoS: request.Guaranteed, Containers: []request.Container{
		{Name: "worker", Type: request.App, CPUs: 2, CPURequest: 2000, Given: []request.Given{
			{Driver: "gpu.example.com", Pool: "p", Claim: "train", Name: "g0"},
			{Driver: "gpu.example.com", Pool: "p", Claim: "train", Name: "g1"},
			{Resource: "example.com/a", Name: "a0"},
			{Resource: "example.com/b", Name: "b0", Nodes: mask.Of(7)},
			{Resource: "example.com/c", Name: "c0", Nodes: mask.Of(0)},
		}},
		{Name: "log", Type: request.App, Devices: request.Amounts{{Resource: "example.com/d", Value: 1}}, ContainerNotes: request.ContainerNotes{Claims: []string{"net"}}},
	}, DevicesUnknown: "socket s: no answer"}}
	want := []string{
		"the devices of example.com/d and claim net (container log) are not known: socket s: no answer. CPUs and memory are not aligned with them. When the cause is gone, create the pod again",
		"devices g0, g1 of gpu.example.com (container worker, claim train): the NUMA nodes are not known, so CPUs and memory are not aligned with them. " +
			"The driver has to publish it, as resource.kubernetes.io/numaNode in a ResourceSlice that can be read, or in its metadata file",
		"device a0 of example.com/a (container worker): the NUMA node is not known, so CPUs and memory are not aligned with it. The device plugin has to report it",
		"device b0 of example.com/b (container worker): the machine has no NUMA node 7, so CPUs and memory are not aligned with it. " +
			"The device plugin and the machine do not agree: compare both with the hardware",
	}
	s := twoSockets(t)
	plan := s.Plan(pod)
	if got := strings.Join(plan.Trace.Notes, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("a new pod:\n%s", got)
	}
	s, err := s.Apply(plan)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(s.UnknownDevices(plan.Grant), "\n"); got != strings.Join(want, "\n") {
		t.Errorf("a pod that was admitted:\n%s", got)
	}
}
