package node_test

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
)

// BenchmarkAdmit measures one admission, planning and applying, on the machine and with the pod of
// testdata/golden/reference-timing.json. If the reference was timed in the same case, its fastest
// run is reported beside ours as reference-ns/op.
func BenchmarkAdmit(b *testing.B) {
	reference := readReference(b)
	for _, numa := range []int{1, 2, 4, 8} {
		for _, policy := range []node.TopologyPolicy{node.TopologyBestEffort, node.TopologyRestricted, node.TopologySingleNUMANode} {
			for _, huge := range []bool{false, true} {
				for _, pods := range []int{0, 200} {
					name := fmt.Sprintf("numa=%d/policy=%s/hugepages=%t/pods=%d", numa, policy, huge, pods)
					b.Run(name, func(b *testing.B) {
						benchmarkAdmit(b, numa, policy, huge, pods)
						if ns := reference[timingKey{numa, policy.String(), huge, pods}]; ns > 0 {
							b.ReportMetric(ns, "reference-ns/op")
						}
					})
				}
			}
		}
	}
}

func benchmarkAdmit(b *testing.B, numa int, policy node.TopologyPolicy, huge bool, pods int) {
	state := timingNode(b, numa, policy)
	for i := range pods {
		plan := state.Plan(resident(i))
		var err error
		if state, err = state.Apply(plan); err != nil || plan.Rejection != nil {
			b.Fatal(err, plan.Rejection)
		}
	}
	pod := timingPod(huge)
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

// timingNode returns a node with 256 cores of 2 threads and 512Gi on each NUMA node, 4Gi of it in
// huge pages.
func timingNode(b testing.TB, numa int, policy node.TopologyPolicy) *node.State {
	b.Helper()
	d := machine.Description{Sockets: min(numa, 2)}
	for n := range numa {
		described := machine.NodeDescription{ID: n, Memory: 512 * gib, HugePages: []machine.HugePages{{SizeKiB: 2048, Count: 2048}}}
		for other := range numa {
			described.Distances = append(described.Distances, 10+11*min(1, abs(n-other)))
		}
		for core := range 256 / numa {
			id := n*256/numa + core
			described.Cores = append(described.Cores, machine.CoreDescription{
				Socket: n * d.Sockets / numa, Threads: []int{id, id + 256}, Uncore: machine.NoUncore,
			})
		}
		d.Nodes = append(d.Nodes, described)
	}
	m, err := machine.New(d)
	if err != nil {
		b.Fatal(err)
	}
	state, err := node.New(m, node.Policy{
		Topology: policy, Scope: node.PodScope, StaticCPU: true, ReservedCPUs: cpuset.Of(0), StaticMemory: true,
		ReservedMemory:    map[int]map[string]int64{0: {"memory": gib}},
		PodLevelResources: true, PodLevelManagers: true, LiftQuota: true,
	})
	if err != nil {
		b.Fatal(err)
	}
	return state
}

func abs(n int) int { return max(n, -n) }

// timingPod returns a pod that asks for 16 CPUs and 16Gi, with an exclusive sidecar of 2 CPUs, a
// shared init container, an exclusive app of 8 CPUs, and a shared app.
func timingPod(huge bool) request.Pod {
	memory := func(bytes int64) request.Amounts {
		amounts := request.Amounts{{Resource: "memory", Value: bytes}}
		if huge {
			amounts = amounts.With("hugepages-2Mi", 256*mib)
		}
		return amounts
	}
	budget := memory(16 * gib)
	if huge {
		budget = budget.With("hugepages-2Mi", gib)
	}
	return request.Pod{
		Identity: request.Identity{UID: "pod", Namespace: "default", Name: "pod"}, Ask: request.Ask{
			QoS: request.Guaranteed, Kind: request.PodLevel,
			BudgetCPUs: 16, BudgetCPUMilli: 16000, BudgetMemory: budget, CPULimit: 16000,
			Containers: []request.Container{
				{Name: "sidecar", Type: request.Sidecar, CPUs: 2, Memory: memory(2 * gib), Equivalent: true},
				{Name: "init", Type: request.Init},
				{Name: "app", Type: request.App, CPUs: 8, Memory: memory(8 * gib), Equivalent: true},
				{Name: "log", Type: request.App},
			},
		},
	}
}

// resident returns a pod with 1 CPU and 64Mi for its one container, which shares the pod's pool.
func resident(i int) request.Pod {
	name := fmt.Sprintf("resident-%03d", i)
	return request.Pod{
		Identity: request.Identity{UID: name, Namespace: "default", Name: name}, Ask: request.Ask{
			QoS: request.Guaranteed, Kind: request.PodLevel,
			BudgetCPUs: 1, BudgetCPUMilli: 1000, BudgetMemory: request.Amounts{{Resource: "memory", Value: 64 * mib}},
			Containers: []request.Container{{Name: "c", Type: request.App}},
		},
	}
}

type timingKey struct {
	numa   int
	policy string
	huge   bool
	pods   int
}

func readReference(b *testing.B) map[timingKey]float64 {
	b.Helper()
	data, err := os.ReadFile("../../../../testdata/golden/reference-timing.json")
	if err != nil {
		b.Fatal(err)
	}
	var file struct {
		Rows []struct {
			NUMA      int     `json:"numa"`
			Policy    string  `json:"policy"`
			Fill      string  `json:"fill"`
			Pods      int     `json:"residentPods"`
			MinNS     float64 `json:"min_ns"`
			HugePages bool    `json:"hugepages"`
		} `json:"rows"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		b.Fatal(err)
	}
	timings := map[timingKey]float64{}
	for _, r := range file.Rows {
		key := timingKey{r.NUMA, r.Policy, r.HugePages, r.Pods}
		if old := timings[key]; r.Fill != "half" && (old == 0 || r.MinNS < old) {
			timings[key] = r.MinNS
		}
	}
	return timings
}
