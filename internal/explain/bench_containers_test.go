package explain_test

import (
	"fmt"
	"io"
	"testing"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
	"github.com/paddock-project/paddock/internal/ui/nodemap"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// BenchmarkSearchContainers measures the search for remedies for a pod with many containers, on a
// machine with 256 CPUs of which three quarters are assigned. The cost should not grow faster than
// the number of containers.
func BenchmarkSearchContainers(b *testing.B) {
	eachPodOfMany(b, func(b *testing.B, s *node.State, pod request.Pod) {
		var r explain.Remedies
		for b.Loop() {
			r = searched(b, s, pod)
		}
		b.ReportMetric(float64(r.Plans()), "plans/op")
		b.ReportMetric(float64(len(r.Proposals)), "proposals/op")
	})
}

// BenchmarkDecisionContainers measures the explanation of the same decision, as data and as text.
func BenchmarkDecisionContainers(b *testing.B) {
	eachPodOfMany(b, func(b *testing.B, s *node.State, pod request.Pod) {
		plan := s.Plan(pod)
		for b.Loop() {
			view.ExplanationOf(s, plan, nil).Text(terminal.Style{}, true)
		}
	})
}

// BenchmarkMapContainers measures the map of a node that runs a pod with many containers.
func BenchmarkMapContainers(b *testing.B) {
	for _, n := range []int{500, 5000} {
		b.Run(fmt.Sprintf("containers=%d", n), func(b *testing.B) {
			s := filled(b, "../../examples/machines/epyc-2s-nps4.json", node.TopologyBestEffort, node.PodScope)
			pod := podOfMany("plain", n)
			for i := range pod.Containers {
				pod.Containers[i].CPUs = 0
			}
			s, err := s.Apply(s.Plan(pod))
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				m := nodemap.Of("machine", "policy", s, nodemap.NextSlots(nil, nil, s))
				if err := m.SVG(io.Discard, false); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func eachPodOfMany(b *testing.B, run func(*testing.B, *node.State, request.Pod)) {
	b.Helper()
	for _, scope := range []node.Scope{node.PodScope, node.ContainerScope} {
		for _, kind := range []string{"pool", "plain", "inits"} {
			for _, n := range []int{500, 5000} {
				b.Run(fmt.Sprintf("scope=%s/kind=%s/containers=%d", scope, kind, n), func(b *testing.B) {
					s := filled(b, "../../examples/machines/epyc-2s-nps4.json", node.TopologyRestricted, scope)
					pod := podOfMany(kind, n)
					if s.Plan(pod).Rejection == nil {
						b.Fatal("the pod is admitted")
					}
					run(b, s, pod)
				})
			}
		}
	}
}

// podOfMany returns a Guaranteed pod with n containers, 200 of which have exclusive CPUs.
func podOfMany(kind string, n int) request.Pod {
	pod := request.Pod{Identity: request.Identity{UID: kind, Namespace: "default", Name: kind}, Ask: request.Ask{QoS: request.Guaranteed}}
	if kind == "pool" {
		pod.Kind, pod.BudgetCPUs, pod.BudgetCPUMilli = request.PodLevel, 210, 210_000
		pod.BudgetMemory = request.Amounts{{Resource: machine.Memory, Value: 64 << 30}}
	}
	for i := range n {
		c := request.Container{Name: fmt.Sprintf("c%04d", i), Type: request.App, Sharing: request.FractionalCPU}
		exclusive := i%(n/200) == 0
		if kind == "inits" && i < n/2 {
			c.Type, exclusive = request.Init, true
		}
		if exclusive {
			c.Sharing, c.CPUs, c.CPURequest, c.CPULimit, c.Equivalent = request.NotShared, 1, 1000, 1000, true
		}
		if exclusive || kind != "pool" {
			c.Memory = request.Amounts{{Resource: machine.Memory, Value: 4 << 20}}
		}
		pod.Containers = append(pod.Containers, c)
	}
	return pod
}
