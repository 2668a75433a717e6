package plugin

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/cluster/fleetsource"
	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/scheduler/cluster"
)

// filtered returns a plugin with a number of nodes of 64 CPUs, and the scheduler's NodeInfos of
// these nodes.
func filtered(tb testing.TB, nodes int) (*Plugin, []fwk.NodeInfo) {
	tb.Helper()
	p := &Plugin{shared: &shared{}}
	p.synced.Store(true)
	p.cluster = cluster.New(fleet.NewRanking(fleet.LeastStranded, nil), cluster.World{
		Pods:       func(string) []*v1.Pod { return nil },
		Exists:     func(string, string, string) bool { return true },
		AgentReady: func([]*v1.Pod) bool { return true },
		Report:     func(node, pod string, err error) { tb.Errorf("%s: %s: %v", node, pod, err) },
	})
	m := hardware(tb, 2, 32)
	var infos []fwk.NodeInfo
	for i := range nodes {
		name := fmt.Sprintf("node-with-a-long-name-%04d", i)
		p.cluster.Update(name, &cluster.Source{Node: &fleetsource.Node{
			Here: handover.Here{Node: name}, Machine: m,
			Policy: node.Policy{Topology: node.TopologySingleNUMANode, Scope: node.PodScope, StaticCPU: true, ReservedCPUs: cpuset.Of(0)},
		}})
		info := framework.NewNodeInfo()
		amounts := v1.ResourceList{v1.ResourceCPU: resource.MustParse("64"), v1.ResourceMemory: resource.MustParse("256Gi"), v1.ResourcePods: resource.MustParse("110")}
		info.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NodeStatus{Allocatable: amounts}})
		infos = append(infos, info)
	}
	return p, infos
}

// BenchmarkFilter measures Filter on one node. With 1 node, the data are in the CPU caches. With
// 5,000 nodes, each one is asked in turn.
func BenchmarkFilter(b *testing.B) {
	for _, nodes := range []int{1, 5000} {
		p, infos := filtered(b, nodes)
		run := func(name string, pod func(i int) *v1.Pod) {
			b.Run(fmt.Sprintf("%s/nodes=%d", name, nodes), func(b *testing.B) {
				state := framework.NewCycleState()
				if _, status := p.PreFilter(b.Context(), state, pod(0), nil); !status.IsSuccess() {
					b.Fatal(status)
				}
				for _, info := range infos {
					p.Filter(b.Context(), state, nil, info)
				}
				i := 0
				for b.Loop() {
					if i%len(infos) == 0 && name == "miss" {
						b.StopTimer()
						state = framework.NewCycleState()
						p.PreFilter(b.Context(), state, pod(1+i/len(infos)), nil)
						b.StartTimer()
					}
					p.Filter(b.Context(), state, nil, infos[i%len(infos)])
					i++
				}
			})
		}
		run("hit", func(int) *v1.Pod { return guaranteed("p", 4) })
		if nodes > 1 {
			run("miss", func(i int) *v1.Pod {
				pod := guaranteed("p", 2+i%7)
				pod.Spec.Containers[0].Resources.Limits[v1.ResourceMemory] = *resource.NewQuantity(int64(1000+i), resource.BinarySI)
				pod.Spec.Containers[0].Resources.Requests = pod.Spec.Containers[0].Resources.Limits
				return pod
			})
		}
	}
}
