package podres

import (
	"flag"
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
)

// hardware describes a machine with one socket. Each NUMA node has cores with one thread each and
// 64Gi of memory, 1Gi of which is in huge pages. Its devices are NICs and a fuse: nic-0 is on NUMA
// node 0, nic-1 is on NUMA nodes 0 and 1 if there are two, and nic-2, which is unhealthy, is on the
// last NUMA node. The fuse has no NUMA node.
type hardware struct{ numa, cores int }

// emptyNode returns a node without pods. All tests create their nodes with it.
func emptyNode(tb testing.TB, h hardware, p node.Policy) *node.State {
	tb.Helper()
	d := machine.Description{Sockets: 1}
	for n := range h.numa {
		described := machine.NodeDescription{ID: n, Memory: 64 * gib, HugePages: []machine.HugePages{{SizeKiB: 2048, Count: 512}}}
		for other := range h.numa {
			described.Distances = append(described.Distances, 10+11*min(1, max(n-other, other-n)))
		}
		for core := range h.cores {
			described.Cores = append(described.Cores, machine.CoreDescription{Threads: []int{n*h.cores + core}, Uncore: machine.NoUncore})
		}
		d.Nodes = append(d.Nodes, described)
	}
	m, err := machine.New(d)
	if err != nil {
		tb.Fatal(err)
	}
	inventory, err := device.NewInventory(m, map[string][]device.Device{
		"example.com/nic": {
			{ID: "nic-0", Healthy: true, Nodes: mask.Of(0)},
			{ID: "nic-1", Healthy: true, Nodes: mask.Of(0, min(1, h.numa-1))},
			{ID: "nic-2", Nodes: mask.Of(h.numa - 1)},
		},
		"example.com/fuse": {{ID: "fuse", Healthy: true}},
	})
	if err != nil {
		tb.Fatal(err)
	}
	state, err := node.New(m, p)
	if err != nil {
		tb.Fatal(err)
	}
	if state, err = state.WithDevices(inventory); err != nil {
		tb.Fatal(err)
	}
	return state
}

// policy returns the policy restricted with all managers on. CPU 0 and 1Gi of NUMA node 0 are
// reserved.
func policy(scope node.Scope) node.Policy {
	return node.Policy{
		Topology: node.TopologyRestricted, Scope: scope,
		StaticCPU: true, ReservedCPUs: cpuset.Of(0),
		StaticMemory: true, ReservedMemory: map[int]map[string]int64{0: {"memory": gib}},
		PodLevelResources: true, PodLevelManagers: true, LiftQuota: true,
	}
}

// admit admits the pods. A rejection fails the test.
func admit(tb testing.TB, state *node.State, pods ...request.Pod) *node.State {
	tb.Helper()
	for _, pod := range pods {
		plan := state.Plan(pod)
		if plan.Rejection != nil {
			tb.Fatalf("%s: %v", pod.ID(), plan.Rejection)
		}
		var err error
		if state, err = state.Apply(plan); err != nil {
			tb.Fatal(err)
		}
	}
	return state
}

// small returns a node with 2 NUMA nodes of 8 CPUs each: 0-7 and 8-15.
func small(tb testing.TB, scope node.Scope, pods ...request.Pod) *node.State {
	tb.Helper()
	return admit(tb, emptyNode(tb, hardware{2, 8}, policy(scope)), pods...)
}

// published is a Snapshots whose state tests can replace.
type published struct{ state atomic.Pointer[node.State] }

func publish(s *node.State) *published {
	p := &published{}
	p.state.Store(s)
	return p
}

func (p *published) State() *node.State { return p.state.Load() }

func bytesOf(n int64) request.Amounts { return request.Amounts{{Resource: "memory", Value: n}} }

// exclusive returns a container with CPUs and memory of its own.
func exclusive(name string, containerType request.ContainerType, cpus int, memory int64) request.Container {
	return request.Container{Name: name, Type: containerType, CPUs: cpus, Memory: bytesOf(memory), Equivalent: true}
}

// sharing returns a container without exclusive resources.
func sharing(name string, containerType request.ContainerType) request.Container {
	return request.Container{Name: name, Type: containerType}
}

// with returns c with devices.
func with(c request.Container, devices ...request.Amount) request.Container {
	c.Devices = devices
	return c
}

// podLevel returns a Guaranteed pod with pod-level resources.
func podLevel(name string, cpus int, memory int64, containers ...request.Container) request.Pod {
	return request.Pod{
		Identity: request.Identity{UID: "uid-" + name, Namespace: "default", Name: name}, Ask: request.Ask{
			QoS: request.Guaranteed, Kind: request.PodLevel,
			BudgetCPUs: cpus, BudgetCPUMilli: int64(cpus) * 1000, BudgetMemory: bytesOf(memory), Containers: containers,
		},
	}
}

// plain returns a Guaranteed pod without pod-level resources.
func plain(name string, containers ...request.Container) request.Pod {
	return request.Pod{Identity: request.Identity{UID: "uid-" + name, Namespace: "default", Name: name}, Ask: request.Ask{QoS: request.Guaranteed, Containers: containers}}
}
