package explain_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
	kubeletcfg "github.com/paddock-project/paddock/internal/kubelet/config"
)

// BenchmarkSearch measures the search for remedies for a rejected pod on every example machine,
// filled with up to 250 pods of five sizes.
func BenchmarkSearch(b *testing.B) {
	files, err := filepath.Glob("../../examples/machines/*.json")
	if err != nil || len(files) == 0 {
		b.Fatal(err)
	}
	for _, file := range files {
		for _, topology := range []node.TopologyPolicy{node.TopologyBestEffort, node.TopologyRestricted, node.TopologySingleNUMANode} {
			for _, scope := range []node.Scope{node.ContainerScope, node.PodScope} {
				b.Run(fmt.Sprintf("%s/%s/%s", filepath.Base(file), topology, scope), func(b *testing.B) {
					s := filled(b, file, topology, scope)
					pod := greedy(s)
					if s.Plan(pod).Rejection == nil {
						b.Skip("nothing is refused here")
					}
					var r explain.Remedies
					for b.Loop() {
						r = searched(b, s, pod)
					}
					b.ReportMetric(float64(r.Plans()), "plans/op")
					b.ReportMetric(float64(len(r.Proposals)), "proposals/op")
				})
			}
		}
	}
}

// BenchmarkUsage measures the report on nodes that are filled in the same way.
func BenchmarkUsage(b *testing.B) {
	for _, name := range []string{"epyc-2s-nps4", "cxl-64n", "gb200-34-nodes"} {
		b.Run(name, func(b *testing.B) {
			s := filled(b, "../../examples/machines/"+name+".json", node.TopologyRestricted, node.PodScope)
			for b.Loop() {
				reported(b, s)
			}
		})
	}
}

// tester is a test, a benchmark or a property.
type tester interface {
	Helper()
	Fatal(args ...any)
	Context() context.Context
}

// reported returns the report of a node. The context does not end.
func reported(t tester, s *node.State) explain.Report {
	t.Helper()
	r, err := explain.Usage(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// searched returns the remedies for a pod. The context does not end.
func searched(t tester, s *node.State, pod request.Pod) explain.Remedies {
	t.Helper()
	r, err := explain.Search(t.Context(), s, pod)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func exampleMachine(t testing.TB, file string) *machine.Machine {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m, err := readMachine(file, data)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func readMachine(name string, data []byte) (*machine.Machine, error) {
	found, err := discover.Read(name, data)
	if err != nil {
		return nil, err
	}
	return found.Machine, nil
}

// filled returns a node on which three quarters of the CPUs are assigned.
func filled(t testing.TB, file string, topology node.TopologyPolicy, scope node.Scope) *node.State {
	t.Helper()
	m := exampleMachine(t, file)
	policy, _ := kubeletcfg.Default(m)
	policy.Topology, policy.Scope = topology, scope
	s, err := node.New(m, policy)
	if err != nil {
		t.Fatal(err)
	}
	none, err := device.NewInventory(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s, err = s.WithDevices(none); err != nil {
		t.Fatal(err)
	}
	for i := range 250 {
		if s.AvailableCPUs().Len() < s.AllocatableCPUs().Len()/4 {
			break
		}
		pod := simple(fmt.Sprintf("pod-%03d", i), int64(1+i%5), int64(1+i%7)<<28)
		pod.Priority = int32(i % 3)
		if s, err = s.Apply(s.Plan(pod)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func simple(name string, cpus, bytes int64) request.Pod {
	amounts := request.Amounts{{Resource: "memory", Value: bytes}}
	return request.Pod{
		Identity: request.Identity{UID: name, Namespace: "default", Name: name}, Ask: request.Ask{
			QoS: request.Guaranteed,
			Containers: []request.Container{{
				Name: "c", Type: request.App, CPUs: int(cpus), Memory: amounts, Equivalent: true, CPURequest: cpus * 1000, CPULimit: cpus * 1000,
			}},
		},
	}
}

// greedy returns a pod that requests half of the node's CPUs.
func greedy(s *node.State) request.Pod {
	return simple("greedy", int64(s.AllocatableCPUs().Len()/2), 1<<33)
}
