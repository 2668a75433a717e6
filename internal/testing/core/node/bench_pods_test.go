package node_test

import (
	"fmt"
	"testing"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// BenchmarkPods measures one admission, planning and applying, and one release, on nodes with
// increasing numbers of pods. The cost must not grow with the number of pods.
func BenchmarkPods(b *testing.B) {
	for _, pods := range []int{10, 1000, 5000} {
		state := timingNode(b, 8, node.TopologyBestEffort)
		for i := range pods {
			state = admitted(b, state, sharing(i))
		}
		pod := timingPod(false)
		b.Run(fmt.Sprintf("pods=%d/admit", pods), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				admitted(b, state, pod)
			}
		})
		full := admitted(b, state, pod)
		b.Run(fmt.Sprintf("pods=%d/release", pods), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if full.Release(pod.UID) == full {
					b.Fatal("the pod is not there")
				}
			}
		})
	}
}

func admitted(b *testing.B, s *node.State, pod request.Pod) *node.State {
	b.Helper()
	plan := s.Plan(pod)
	next, err := s.Apply(plan)
	if err != nil || plan.Rejection != nil {
		b.Fatal(err, plan.Rejection)
	}
	return next
}

// sharing returns a pod that has memory and no CPU of its own: a machine has room for thousands of
// these pods.
func sharing(i int) request.Pod {
	pod := resident(i)
	pod.UID = fmt.Sprintf("resident-%05d", i)
	pod.BudgetCPUs, pod.BudgetCPUMilli = 0, 500
	return pod
}
