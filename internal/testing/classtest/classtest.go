// Package classtest has a node for tests, with pods that have classes of the L3 caches.
package classtest

import (
	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

const gib = 1 << 30

// failer is a test, a benchmark or a random test.
type failer interface{ Fatal(args ...any) }

// Caches returns how the caches of Machine are divided: ways 9 and 10 of 11 are for hardware, and
// 15 classes can exist beside the default one.
func Caches() machine.Caches {
	return machine.Caches{Classes: 16, Ways: 11, LeastWays: 1, HardwareWays: 3 << 9, LeastBandwidth: 10, BandwidthStep: 10}
}

// Description returns a machine with two NUMA nodes. Each has an L3 cache of the same id and eight
// cores with two threads.
func Description() machine.Description {
	d := machine.Description{Caches: Caches()}
	for n := range 2 {
		at := machine.NodeDescription{ID: n, Memory: 64 * gib}
		for c := range 8 {
			id := n*8 + c
			at.Cores = append(at.Cores, machine.CoreDescription{Socket: n, Uncore: n, Threads: []int{id, id + 16}})
		}
		d.Nodes = append(d.Nodes, at)
	}
	return d
}

// Machine returns the machine of Description.
func Machine(t failer) *machine.Machine {
	m, err := machine.New(Description())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Policy returns a policy that divides the caches.
func Policy() node.Policy {
	return node.Policy{
		Topology: node.TopologySingleNUMANode, Scope: node.PodScope, StaticCPU: true, StaticMemory: true,
		CPU: cpu.Options{FullPCPUsOnly: true, DividesCaches: true}, ReservedCPUs: cpuset.Of(0, 16), PodLevelResources: true, PodLevelManagers: true,
	}
}

// Pods returns the pods of State:
//   - prod/db, on NUMA node 0, has 4 ways and 20% of the bandwidth for container main;
//   - prod/packets, on NUMA node 1, has 3 ways for container worker, and 2 for its pool;
//   - prod/plain, on NUMA node 0, has CPUs and asks for nothing of the caches;
//   - kube-system/agent has no CPUs.
func Pods() []request.Pod {
	memory := func(n int64) request.Amounts { return request.Amounts{{Resource: machine.Memory, Value: n * gib}} }
	exclusive := func(name string, cpus int, asks request.Cache) request.Container {
		return request.Container{
			Name: name, Type: request.App, CPUs: cpus, Memory: memory(2), Equivalent: true,
			CPURequest: int64(cpus) * 1000, CPULimit: int64(cpus) * 1000, Cache: asks,
		}
	}
	shares := func(name string) request.Container {
		return request.Container{Name: name, Type: request.App, Sharing: request.NoCPURequest}
	}
	return []request.Pod{
		{Identity: identity("prod", "db"), Ask: request.Ask{QoS: request.Guaranteed, Containers: []request.Container{
			exclusive("main", 4, request.Cache{Ways: 4, Bandwidth: 20}),
		}}},
		{Identity: identity("prod", "packets"), Ask: request.Ask{
			QoS: request.Guaranteed, Kind: request.PodLevel, BudgetCPUs: 12, BudgetCPUMilli: 12000, CPULimit: 12000, BudgetMemory: memory(8),
			PoolCache:  request.Cache{Ways: 2},
			Containers: []request.Container{exclusive("worker", 6, request.Cache{Percent: 25}), shares("metrics"), shares("log")},
		}},
		{Identity: identity("prod", "plain"), Ask: request.Ask{QoS: request.Guaranteed, Containers: []request.Container{
			exclusive("main", 2, request.Cache{}),
		}}},
		{Identity: identity("kube-system", "agent"), Ask: request.Ask{QoS: request.Burstable, Containers: []request.Container{
			{Name: "agent", Type: request.App, Sharing: request.QoSNotGuaranteed, CPURequest: 100},
		}}},
	}
}

func identity(namespace, name string) request.Identity {
	return request.Identity{UID: name, Namespace: namespace, Name: name}
}

// State returns a node with the pods.
func State(t failer) *node.State {
	s, err := node.New(Machine(t), Policy())
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range Pods() {
		plan := s.Plan(pod)
		if plan.Rejection != nil {
			t.Fatal(plan.Rejection)
		}
		if s, err = s.Apply(plan); err != nil {
			t.Fatal(err)
		}
	}
	return s
}
