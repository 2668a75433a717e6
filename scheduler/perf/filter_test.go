package perf

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/paddock-project/paddock/internal/cluster/fleetsource"
	"github.com/paddock-project/paddock/internal/codec/objects"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/scheduler/cluster"
	"github.com/paddock-project/paddock/scheduler/plugin"
)

// scan calls Filter for one node after the other, without the rest of a scheduler.
type scan struct {
	plugin *plugin.Plugin
	nodes  []fwk.NodeInfo
	// other is memory that is read between two nodes, as a scheduler does: it is on many pages and
	// not in a CPU cache.
	other []byte
	at    uint32
	sum   byte
}

// ask asks all nodes and returns how long each took. The time of before is not counted.
func (s *scan) ask(b *testing.B, pod *v1.Pod, before func(info fwk.NodeInfo)) *times {
	t, state := &times{}, framework.NewCycleState()
	if _, status := s.plugin.PreFilter(b.Context(), state, pod, s.nodes); !status.IsSuccess() {
		b.Fatal(status)
	}
	for _, info := range s.nodes {
		before(info)
		for range 64 {
			s.at = s.at*1664525 + 1013904223 // A linear congruential generator, so that the order of pages is random.
			s.sum += s.other[s.at%uint32(len(s.other))]
		}
		begin := time.Now()
		s.plugin.Ask(b.Context(), state, info)
		t.add(time.Since(begin))
	}
	return t
}

// BenchmarkFilter measures Filter on 5,000 nodes. A hit is a node that was asked the question
// before. A miss is a node whose pods have changed since. In "first", no node was asked the
// question before.
func BenchmarkFilter(b *testing.B) {
	s := &scan{other: make([]byte, 1<<28)}
	pod := whole("placed", 2)
	s.plugin, s.nodes = bare(b, 5000, pod)
	unchanged, next := func(fwk.NodeInfo) {}, int64(4)
	report := func(b *testing.B, round func(i int) *times) {
		all := &times{}
		for i := range b.N {
			t := round(i)
			for k := range t {
				all[k].Add(t[k].Load())
			}
		}
		median, _ := all.quantile(0.5)
		p99, _ := all.quantile(0.99)
		b.ReportMetric(float64(median), "ns-median")
		b.ReportMetric(float64(p99), "ns-p99")
	}
	b.Run("hit", func(b *testing.B) {
		s.ask(b, whole("p", 4), unchanged)
		report(b, func(int) *times { return s.ask(b, whole("p", 4), unchanged) })
	})
	b.Run("first", func(b *testing.B) {
		report(b, func(int) *times {
			next++
			return s.ask(b, whole("p", next), unchanged)
		})
	})
	b.Run("miss", func(b *testing.B) { // The last one, because it changes the nodes.
		placed := framework.NewCycleState()
		if _, status := s.plugin.PreFilter(b.Context(), placed, pod, s.nodes); !status.IsSuccess() {
			b.Fatal(status)
		}
		report(b, func(int) *times {
			return s.ask(b, whole("p", 4), func(info fwk.NodeInfo) {
				s.plugin.Unreserve(b.Context(), placed, pod, info.Node().Name)
				if status := s.plugin.Reserve(b.Context(), placed, pod, info.Node().Name); !status.IsSuccess() {
					b.Fatal(status)
				}
				info.AddPodInfo(podInfo(pod)) // This gives the NodeInfo a new generation.
			})
		})
	})
}

func podInfo(pod *v1.Pod) fwk.PodInfo {
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		panic(err)
	}
	return info
}

// whole returns a pod with a number of whole CPUs.
func whole(name string, cpus int64) *v1.Pod {
	list := v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(cpus, resource.DecimalSI), v1.ResourceMemory: resource.MustParse("1Gi")}
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: list, Limits: list}}}}}
}

// bare returns a plugin and a number of nodes, without a scheduler. The pods exist and are not
// bound.
func bare(b *testing.B, nodes int, pods ...*v1.Pod) (*plugin.Plugin, []fwk.NodeInfo) {
	b.Helper()
	var infos []fwk.NodeInfo
	for i := range nodes {
		info := framework.NewNodeInfo()
		info.SetNode(server(i))
		infos = append(infos, info)
	}
	return made(b, nodes, pods), infos
}

// server returns the Node with a number.
func server(i int) *v1.Node {
	capacity := v1.ResourceList{v1.ResourceCPU: resource.MustParse("64"), v1.ResourceMemory: resource.MustParse("256Gi"), v1.ResourcePods: resource.MustParse("110")}
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%04d", i)}, Status: v1.NodeStatus{Capacity: capacity, Allocatable: capacity}}
}

// made returns a plugin with these options of the framework, and with the objects of a number of nodes.
func made(b *testing.B, nodes int, pods []*v1.Pod, options ...frameworkruntime.Option) *plugin.Plugin {
	b.Helper()
	client := fake.NewClientset()
	feed := func(_ context.Context, _ fwk.Handle, sink plugin.Sink) error {
		k := newKind(b)
		m, err := objects.ReadMachine(k.machine)
		if err != nil {
			return err
		}
		for i := range nodes {
			o := k.node(fmt.Sprintf("node-%04d", i))
			n, err := fleetsource.Read(o, func(string) (*machine.Machine, error) { return m, nil })
			if err != nil {
				return err
			}
			sink.Update(o.Name, &cluster.Source{Node: n})
		}
		sink.Synced()
		return nil
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	h, err := frameworkruntime.NewFramework(b.Context(), nil, nil, append(options, frameworkruntime.WithClientSet(client), frameworkruntime.WithInformerFactory(factory))...)
	if err != nil {
		b.Fatal(err)
	}
	built, err := plugin.Factory(feed, noDuties)(b.Context(), &apiruntime.Unknown{Raw: []byte(`{"agents":{"readiness":"Ignored"}}`)}, h)
	if err != nil {
		b.Fatal(err)
	}
	for _, pod := range pods { // Now the informer has an index by node.
		if err := factory.Core().V1().Pods().Informer().GetIndexer().Add(pod); err != nil {
			b.Fatal(err)
		}
	}
	p, ok := built.(*plugin.Plugin)
	if !ok {
		b.Fatalf("the factory made %T", built)
	}
	return p
}
