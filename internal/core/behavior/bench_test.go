package behavior_test

import (
	"fmt"
	"testing"

	"github.com/paddock-project/paddock/internal/core/behavior"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// BenchmarkAdmit measures the admission of an ordinary Guaranteed pod with two containers to a node
// with 50 such pods, as Paddock and as each recorded kubelet: planning alone, and planning and
// applying the plan. Planning with a behavior may take a tenth longer.
func BenchmarkAdmit(b *testing.B) {
	for _, version := range append([]behavior.Version{{}}, behavior.Recorded()...) {
		name, state := "paddock", busyNode(b, version)
		if version != (behavior.Version{}) {
			name = version.Name()
		}
		asked := ordinary("next")
		b.Run("plan/as="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if plan := state.Plan(asked); plan.Rejection != nil {
					b.Fatal(plan.Rejection)
				}
			}
		})
		b.Run("apply/as="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := state.Apply(state.Plan(asked)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestPlanAllocates checks that planning with a behavior allocates at most a tenth more often than
// planning as Paddock, which BenchmarkAdmit shows for the time.
func TestPlanAllocates(t *testing.T) {
	asked := ordinary("next")
	allocations := func(version behavior.Version) float64 {
		state := busyNode(t, version)
		return testing.AllocsPerRun(100, func() {
			if plan := state.Plan(asked); plan.Rejection != nil {
				t.Fatal(plan.Rejection)
			}
		})
	}
	paddock := allocations(behavior.Version{})
	for _, version := range behavior.Recorded() {
		if as := allocations(version); as > 1.1*paddock {
			t.Errorf("planning as %s allocates %.0f times, as Paddock %.0f times", version.Name(), as, paddock)
		}
	}
}

const gib = int64(1) << 30

// busyNode returns a node with two NUMA nodes of 64 cores with two threads, and with 50 pods. The
// kubelet of a version decides, or Paddock if the version is the zero value.
func busyNode(t testing.TB, version behavior.Version) *node.State {
	t.Helper()
	state := emptyNode(t)
	if version != (behavior.Version{}) {
		as, err := behavior.Of(version)
		if err != nil {
			t.Fatal(err)
		}
		state = state.As(as)
	}
	for i := range 50 {
		next, err := state.Apply(state.Plan(ordinary(fmt.Sprint("resident-", i))))
		if err != nil {
			t.Fatal(err)
		}
		state = next
	}
	return state
}

func emptyNode(t testing.TB) *node.State {
	t.Helper()
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
		t.Fatal(err)
	}
	empty, err := node.New(m, node.Policy{
		Topology: node.TopologyRestricted, Scope: node.ContainerScope, StaticCPU: true, ReservedCPUs: cpuset.Of(0), StaticMemory: true,
		ReservedMemory: map[int]map[string]int64{0: {"memory": gib}},
	})
	if err != nil {
		t.Fatal(err)
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
