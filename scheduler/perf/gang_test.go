package perf

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
	schedulercache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// BenchmarkGang measures Filter of all nodes for one member of a pod group, in CPU time per node. Each node
// has 20 pods. In "fits", nothing is removed. In "preempt", the scheduler has removed all pods, and
// no member has asked the nodes yet. In "next", another member asks the same nodes.
func BenchmarkGang(b *testing.B) {
	featuregatetesting.SetFeatureGateDuringTest(b, utilfeature.DefaultFeatureGate, features.GenericWorkload, true)
	for _, n := range []int{10, 1000, 5000} {
		var nodes []*v1.Node
		var pods []*v1.Pod
		for i := range n {
			nodes = append(nodes, server(i))
			for k := range 20 {
				pod := whole(fmt.Sprint("p", i, "-", k), 2)
				pod.Spec.NodeName = nodes[i].Name
				pods = append(pods, pod)
			}
		}
		snapshot := schedulercache.NewSnapshot(pods, nodes)
		p := made(b, n, pods, frameworkruntime.WithSnapshotSharedLister(snapshot), frameworkruntime.WithMutableSnapshotLister(snapshot))
		ask := func(b *testing.B, group *framework.CycleState) time.Duration {
			state := framework.NewCycleState()
			state.SetPodGroupSchedulingCycle(group)
			if _, status := p.PreFilter(b.Context(), state, whole("member", 40), nil); !status.IsSuccess() {
				b.Fatal(status)
			}
			infos, err := snapshot.List()
			if err != nil {
				b.Fatal(err)
			}
			begin := cpuTime()
			for _, info := range infos {
				p.Ask(b.Context(), state, info)
			}
			return cpuTime() - begin
		}
		measure := func(name string, members int) {
			b.Run(fmt.Sprintf("%s/nodes=%d", name, n), func(b *testing.B) {
				ask(b, framework.NewCycleState()) // Now every node has been compared with its pods.
				var total time.Duration
				for b.Loop() {
					group := framework.NewCycleState()
					for range members {
						ask(b, group)
					}
					total += ask(b, group)
				}
				b.ReportMetric(float64(total.Nanoseconds())/float64(b.N*n), "cpu-ns/node")
			})
		}
		measure("fits", 0)
		if err := snapshot.StartMutations(); err != nil {
			b.Fatal(err)
		}
		for _, pod := range pods {
			if err := snapshot.RemovePod(klog.Background(), pod, pod.Spec.NodeName); err != nil {
				b.Fatal(err)
			}
		}
		measure("preempt", 0)
		measure("next", 1)
	}
}
