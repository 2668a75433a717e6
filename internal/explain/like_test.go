package explain_test

import (
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
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
	rapid.Check(t, func(t *rapid.T) {
		s := someNode(t)
		pod := trainer(rapid.IntRange(1, 4).Draw(t, "cpus"), rapid.Int64Range(1, 8).Draw(t, "GiB")*gib)
		cpus := pod.Containers[0].CPUs
		bytes := pod.Containers[0].Memory[0].Value
		like, err := explain.LikeOn(t.Context(), []explain.Place{{State: s, Nodes: 1}}, pod)
		if err != nil || like.Container != "main" || len(like.Sizes) != 1 {
			t.Fatalf("%+v, %v", like, err)
		}
		admits := func(cpus int, bytes int64) bool { return s.Plan(with(pod, cpus, bytes)).Rejection == nil }
		row := like.Sizes[0]
		var most, share, both explain.LikeSize
		var mostBytes int64
		for n := 1; n <= 12; n++ {
			if admits(n, bytes) {
				most.CPUs = n
			}
			if admits(n, bytes/int64(cpus)*int64(n)>>20<<20) {
				share.CPUs = n
			}
			for k := int64(0); k <= 32; k++ {
				if b := max(k<<30, 1<<20); admits(n, b) {
					both = explain.LikeSize{CPUs: n, Bytes: b}
				}
			}
		}
		for n := int64(1); n <= 32; n++ {
			if admits(cpus, n*gib) {
				mostBytes = n * gib
			}
		}
		if got, want := found(row.MostCPUs).CPUs, most.CPUs; got != want {
			t.Fatalf("most CPUs: %d, expected %d", got, want)
		}
		if got, want := found(row.InProportion).CPUs, share.CPUs; got != want {
			t.Fatalf("in proportion: %d CPUs, expected %d", got, want)
		}
		largest := func(got explain.LikeSize, cpus int, bytes int64) {
			t.Helper()
			if got.CPUs != cpus && cpus > 0 || got.Bytes < bytes || got.Bytes > 0 && !admits(got.CPUs, got.Bytes) || got.Bytes > 0 && !got.More && admits(got.CPUs, got.Bytes+(1<<20)) {
				t.Fatalf("%+v, expected %d CPUs, and %d bytes or more", got, cpus, bytes)
			}
		}
		largest(found(row.MostMemory), 0, mostBytes)
		largest(found(row.MostCPUsThenMemory), both.CPUs, both.Bytes)
	})
}

// someNode returns a node of two NUMA nodes with up to three pods.
func someNode(t *rapid.T) *node.State {
	m := scenario.Machine("sockets=2 cores=6 memory=16Gi")
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
	return s
}

// found returns a pod, which is empty if there is none.
func found(s *explain.LikeSize) explain.LikeSize {
	if s == nil {
		return explain.LikeSize{}
	}
	return *s
}

// TestLikeOnPlaces checks that the numbers of nodes are those of the places that take the largest
// pod.
func TestLikeOnPlaces(t *testing.T) {
	small, large := empty(t, "cores=4 memory=8Gi"), empty(t, "cores=8 memory=8Gi")
	like, err := explain.LikeOn(t.Context(), []explain.Place{{State: small, Nodes: 10}, {State: large, Nodes: 3}, {State: large, Nodes: 4}}, trainer(1, gib))
	if err != nil || like.None() {
		t.Fatal(err)
	}
	row := like.Sizes[0]
	if found(row.MostCPUs).CPUs != 6 || row.MostCPUs.Nodes != 7 || found(row.MostMemory).Nodes != 17 {
		t.Errorf("%+v", row)
	}
	if both := found(row.MostCPUsThenMemory); both.CPUs != 6 || both.Bytes != row.MostMemory.Bytes || both.Nodes != 7 {
		t.Errorf("%+v", both)
	}
	huge := trainer(1, 100*gib)
	if like, err = explain.LikeOn(t.Context(), []explain.Place{{State: small, Nodes: 1}}, huge); err != nil || like.Sizes[0].MostCPUs != nil {
		t.Errorf("%+v, %v", like, err)
	}
}

// gpu is the extended resource of the devices of a gpuServer.
const gpu = "example.com/gpu"

// gpuServer is a node of eight NUMA nodes with a GPU on each, after some pods.
func gpuServer(t tester, topology node.TopologyPolicy, pods ...request.Pod) *node.State {
	t.Helper()
	m := scenario.Machine("sockets=2 numa=4 cores=16 threads=2 memory=256Gi")
	var gpus []device.Device
	for _, n := range m.Nodes() {
		gpus = append(gpus, device.Device{ID: "gpu" + strconv.Itoa(n.ID), Healthy: true, Nodes: mask.Of(n.ID)})
	}
	inventory, err := device.NewInventory(m, map[string][]device.Device{gpu: gpus})
	if err != nil {
		t.Fatal(err)
	}
	s, err := node.New(m, node.Policy{
		Topology: topology, Scope: node.PodScope, StaticCPU: true, ReservedCPUs: m.Cores()[0].CPUs,
		StaticMemory: true, ReservedMemory: map[int]map[string]int64{0: {request.Memory: gib}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if s, err = s.WithDevices(inventory); err != nil {
		t.Fatal(err)
	}
	for i, pod := range pods {
		pod.UID = string(rune('a' + i))
		if s, err = s.Apply(s.Plan(pod)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// trainerWithGPU is a pod of one container with a GPU.
func trainerWithGPU(cpus int, bytes int64) request.Pod {
	pod := trainer(cpus, bytes)
	pod.Containers = pod.Containers[:1]
	pod.Containers[0].Devices = request.Amounts{{Resource: gpu, Value: 1}}
	return pod
}

// TestLikeOnRestricted checks that both amounts grow together where the policy rejects every pod of
// which only one grows, and that the answer names the reason if there is no such pod.
func TestLikeOnRestricted(t *testing.T) {
	pod := trainerWithGPU(32, 200*gib)
	like, err := explain.LikeOn(t.Context(), []explain.Place{{State: gpuServer(t, node.TopologyRestricted), Nodes: 1}}, pod)
	if err != nil {
		t.Fatal(err)
	}
	want := []explain.LikeSize{{CPUs: 32, Bytes: 256 * gib}, {CPUs: 64, Bytes: 512 * gib}, {CPUs: 128, Bytes: 1024 * gib}, {CPUs: 254, Bytes: 2047 * gib}}
	if len(like.Sizes) != len(want) {
		t.Fatalf("%+v", like.Sizes)
	}
	for i, sizes := range like.Sizes {
		if both := found(sizes.MostCPUsThenMemory); both.CPUs != want[i].CPUs || both.Bytes != want[i].Bytes || both.More || both.NotAligned {
			t.Errorf("%d devices: %+v, expected %+v", sizes.Devices, both, want[i])
		}
		if alone := sizes.MostCPUs != nil; alone != (sizes.Devices == 1) {
			t.Errorf("%d devices: most CPUs with the memory of the manifest: %v", sizes.Devices, alone)
		}
	}
	used := gpuServer(t, node.TopologyRestricted, trainerWithGPU(8, gib))
	if like, err = explain.LikeOn(t.Context(), []explain.Place{{State: used, Nodes: 1}}, pod); err != nil {
		t.Fatal(err)
	}
	if last := like.Sizes[3]; !last.None() || last.Why == "" {
		t.Errorf("8 devices, of which 7 are free: %+v", last)
	}
}

// TestLikeOnInit checks that an init container that needs more than the others does not bound the
// container that grows.
func TestLikeOnInit(t *testing.T) {
	s := gpuServer(t, node.TopologyRestricted)
	pod := trainer(4, 8*gib)
	alone, err := explain.LikeOn(t.Context(), []explain.Place{{State: s, Nodes: 1}}, pod)
	if err != nil {
		t.Fatal(err)
	}
	init := trainer(20, 40*gib).Containers[0]
	init.Name, init.Type = "init", request.Init
	pod.Containers = append([]request.Container{init}, pod.Containers...)
	like, err := explain.LikeOn(t.Context(), []explain.Place{{State: s, Nodes: 1}}, pod)
	if err != nil {
		t.Fatal(err)
	}
	got, want := found(like.Sizes[0].MostCPUsThenMemory), found(alone.Sizes[0].MostCPUsThenMemory)
	if got != want || got.CPUs != 253 || got.Bytes != 2046*gib {
		t.Errorf("%+v, expected %+v", got, want)
	}
}

// TestLikeOnEffort counts the pods that are planned for a server with eight NUMA nodes, each with
// another amount of free CPUs and memory.
func TestLikeOnEffort(t *testing.T) {
	for _, topology := range []node.TopologyPolicy{node.TopologyNone, node.TopologyBestEffort, node.TopologyRestricted, node.TopologySingleNUMANode} {
		s := uneven(t, topology)
		asked := 0
		place := explain.Place{State: s, Nodes: 1, Takes: func(x explain.Sized) bool {
			asked++
			return s.Plan(x.Pod).Rejection == nil
		}}
		like, err := explain.LikeOn(t.Context(), []explain.Place{place}, trainerWithGPU(8, 16*gib))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d pods for %d numbers of devices", topology, asked, len(like.Sizes))
		if most := 1000 * len(like.Sizes); asked > most {
			t.Errorf("%s: %d pods, expected at most %d", topology, asked, most)
		}
	}
}

// uneven returns a gpuServer on which no two NUMA nodes have the same amounts free.
func uneven(t tester, topology node.TopologyPolicy) *node.State {
	var pods []request.Pod
	for i := range 6 {
		pods = append(pods, with(trainer(1, gib), 2+3*i, int64(20+7*i)*gib))
	}
	return gpuServer(t, topology, pods...)
}

// BenchmarkLikeOn measures the same question.
func BenchmarkLikeOn(b *testing.B) {
	for _, topology := range []node.TopologyPolicy{node.TopologyBestEffort, node.TopologyRestricted} {
		b.Run(topology.String(), func(b *testing.B) {
			s := uneven(b, topology)
			for b.Loop() {
				if _, err := explain.LikeOn(b.Context(), []explain.Place{{State: s, Nodes: 1}}, trainerWithGPU(8, 16*gib)); err != nil {
					b.Fatal(err)
				}
			}
		})
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
