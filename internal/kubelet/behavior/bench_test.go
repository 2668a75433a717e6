package behavior_test

import (
	"fmt"
	"testing"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/kubelet/behavior"
)

// BenchmarkAdmit measures the admission of an ordinary Guaranteed pod with two containers to a node
// with 50 such pods, as Paddock and as each recorded kubelet. A behavior may cost a tenth more.
func BenchmarkAdmit(b *testing.B) {
	empty := emptyNode(b)
	for _, version := range append([]behavior.Version{{}}, behavior.Recorded()...) {
		name, state := "paddock", empty
		if version != (behavior.Version{}) {
			as, err := behavior.Of(version)
			if err != nil {
				b.Fatal(err)
			}
			name, state = version.Name(), empty.As(as)
		}
		for i := range 50 {
			plan := state.Plan(ordinary(fmt.Sprint("resident-", i)))
			if plan.Rejection != nil {
				b.Fatal(plan.Rejection)
			}
			next, err := state.Apply(plan)
			if err != nil {
				b.Fatal(err)
			}
			state = next
		}
		asked := ordinary("next")
		b.Run("as="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				plan := state.Plan(asked)
				if plan.Rejection != nil {
					b.Fatal(plan.Rejection)
				}
				if _, err := state.Apply(plan); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

const gib = int64(1) << 30

// emptyNode returns a node with two NUMA nodes of 64 cores with two threads.
func emptyNode(b *testing.B) *node.State {
	b.Helper()
	d := machine.Description{Sockets: 2}
	for n := range 2 {
		described := machine.NodeDescription{ID: n, Memory: 512 * gib, Distances: []int{10 + 11*n, 21 - 11*n}}
		for core := range 64 {
			id := n*64 + core
			described.Cores = append(described.Cores, machine.CoreDescription{Socket: n, Threads: []int{id, id + 128}, Uncore: machine.NoUncore})
		}
		d.Nodes = append(d.Nodes, described)
	}
	m, err := machine.New(d)
	if err != nil {
		b.Fatal(err)
	}
	empty, err := node.New(m, node.Policy{
		Topology: node.TopologyRestricted, Scope: node.ContainerScope, StaticCPU: true, ReservedCPUs: cpuset.Of(0), StaticMemory: true,
		ReservedMemory: map[int]map[string]int64{0: {"memory": gib}},
	})
	if err != nil {
		b.Fatal(err)
	}
	return empty
}

// ordinary returns a Guaranteed pod with two containers of 2 CPUs and 1 GiB.
func ordinary(name string) request.Pod {
	p := request.Pod{
		Identity: request.Identity{UID: name, Namespace: "default", Name: name},
		Ask:      request.Ask{QoS: request.Guaranteed, Kind: request.Plain, CPULimit: 4000},
	}
	for _, c := range []string{"server", "proxy"} {
		p.Containers = append(p.Containers, request.Container{
			Name: c, Type: request.App, CPUs: 2, Memory: request.Amounts{{Resource: "memory", Value: gib}}, Equivalent: true,
		})
	}
	return p
}
