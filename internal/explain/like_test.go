package explain_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

const gib = int64(1) << 30

// trainer is a pod with one container that can grow, and a helper.
func trainer(cpus int, bytes int64) request.Pod {
	container := func(name string, cpus int, bytes int64) request.Container {
		milli := int64(cpus) * 1000
		return request.Container{Name: name, Type: request.App, CPUs: cpus, CPURequest: milli, CPULimit: milli, Equivalent: true, Memory: request.Amounts{{Resource: machine.Memory, Value: bytes}}}
	}
	return request.Pod{
		Identity: request.Identity{UID: "like", Namespace: "default", Name: "like"},
		Ask:      request.Ask{QoS: request.Guaranteed, Containers: []request.Container{container("main", cpus, bytes), container("helper", 1, gib)}},
	}
}

// with returns the pod with other amounts of container main.
func with(pod request.Pod, cpus int, bytes int64) request.Pod {
	grown := trainer(cpus, bytes)
	grown.Identity = pod.Identity
	return grown
}

// TestLikeOn compares the largest pods with a search through all numbers of CPUs and all amounts of
// memory in steps of 1 GiB, and checks that a node admits them.
func TestLikeOn(t *testing.T) {
	m := scenario.Machine("sockets=2 cores=6 memory=16Gi")
	rapid.Check(t, func(t *rapid.T) {
		topology := rapid.SampledFrom([]node.TopologyPolicy{node.TopologyNone, node.TopologyBestEffort, node.TopologyRestricted, node.TopologySingleNUMANode}).Draw(t, "policy")
		scope := rapid.SampledFrom([]node.Scope{node.ContainerScope, node.PodScope}).Draw(t, "scope")
		s, err := node.New(m, node.Policy{
			Topology: topology, Scope: scope, StaticCPU: true, ReservedCPUs: m.Nodes()[0].CPUs.Intersection(m.Cores()[0].CPUs),
			StaticMemory: true, ReservedMemory: map[int]map[string]int64{0: {request.Memory: gib}},
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := range rapid.IntRange(0, 3).Draw(t, "pods") {
			pod := trainer(rapid.IntRange(1, 3).Draw(t, "cpus"), rapid.Int64Range(1, 6).Draw(t, "GiB")*gib)
			pod.UID = string(rune('a' + i))
			if plan := s.Plan(pod); plan.Grant != nil {
				if s, err = s.Apply(plan); err != nil {
					t.Fatal(err)
				}
			}
		}
		pod := trainer(rapid.IntRange(1, 4).Draw(t, "cpus"), rapid.Int64Range(1, 8).Draw(t, "GiB")*gib)
		cpus := pod.Containers[0].CPUs
		bytes := pod.Containers[0].Memory[0].Value
		like, err := explain.LikeOn(t.Context(), []explain.Place{{State: s}}, []int{1}, pod)
		if err != nil || like.Container != "main" || len(like.Sizes) != 1 {
			t.Fatalf("%+v, %v", like, err)
		}
		admits := func(cpus int, bytes int64) bool { return s.Plan(with(pod, cpus, bytes)).Rejection == nil }
		row, most := like.Sizes[0], 0
		var mostBytes int64
		share := 0
		for n := 1; n <= 12; n++ {
			if admits(n, bytes) {
				most = n
			}
			if admits(n, bytes/int64(cpus)*int64(n)>>20<<20) {
				share = n
			}
		}
		for n := int64(1); n <= 32; n++ {
			if admits(cpus, n*gib) {
				mostBytes = n * gib
			}
		}
		if row.MostCPUs != most || row.Share != share {
			t.Fatalf("%+v, expected %d CPUs, and %d in proportion", row, most, share)
		}
		if row.MostBytes < mostBytes || row.MostBytes > 0 && !admits(cpus, row.MostBytes) || row.MostBytes > 0 && !row.MoreBytes && admits(cpus, row.MostBytes+(1<<20)) {
			t.Fatalf("%+v, expected %d GiB or more", row, mostBytes/gib)
		}
	})
}

// TestLikeOnPlaces checks that the numbers of nodes are those of the places that take the largest
// pod.
func TestLikeOnPlaces(t *testing.T) {
	small, large := empty(t, "cores=4 memory=8Gi"), empty(t, "cores=8 memory=8Gi")
	like, err := explain.LikeOn(t.Context(), []explain.Place{{State: small}, {State: large}, {State: large}}, []int{10, 3, 4}, trainer(1, gib))
	if err != nil || like.None() {
		t.Fatal(err)
	}
	row := like.Sizes[0]
	if row.MostCPUs != 6 || row.CPUPlaces != 7 || row.BytePlaces != 17 {
		t.Errorf("%+v", row)
	}
	huge := trainer(1, 100*gib)
	if like, err = explain.LikeOn(t.Context(), []explain.Place{{State: small}}, []int{1}, huge); err != nil || like.Sizes[0].MostCPUs != 0 {
		t.Errorf("%+v, %v", like, err)
	}
}

func empty(t *testing.T, description string) *node.State {
	t.Helper()
	m := scenario.Machine(description)
	s, err := node.New(m, node.Policy{
		Topology: node.TopologySingleNUMANode, Scope: node.PodScope, StaticCPU: true, ReservedCPUs: m.Cores()[0].CPUs,
		StaticMemory: true, ReservedMemory: map[int]map[string]int64{0: {request.Memory: gib}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
