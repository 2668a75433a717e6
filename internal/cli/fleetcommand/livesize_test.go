package fleetcommand

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/cluster/clusterstate"
	"github.com/paddock-project/paddock/internal/cluster/fleetwatch"
	"github.com/paddock-project/paddock/internal/codec/objects"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/testing/clustertest"
	"github.com/paddock-project/paddock/internal/testing/objectstest"
	"github.com/paddock-project/paddock/internal/ui/fleetpage"
)

// crowd returns a cluster of 5,000 nodes with 128 CPUs and 20 pods each. Half of the pods have
// exclusive CPUs that the scheduler chose.
func crowd(b *testing.B) (*clusterstate.Cluster, *clustertest.Kind) {
	b.Helper()
	k := clustertest.New(b, 64)
	m, err := objects.ReadMachine(k.Object)
	if err != nil {
		b.Fatal(err)
	}
	c := clusterstate.New(func(string) (*machine.Machine, error) { return m, nil })
	for i := range 5000 {
		name := fmt.Sprintf("node-%04d", i)
		o, p := k.Node(name)
		p.Status.Rejections.Counts = []v1alpha1.RejectionCount{{Class: fmt.Sprint(i%20, " CPUs"), Cause: "too large", Count: 3}}
		c.SetNode(name, o)
		c.SetPaddock(name, p)
		for n := range 20 {
			pod := podOf(b, k, name, n)
			if err := c.SetPod(pod.Namespace+"/"+pod.Name, pod); err != nil {
				b.Fatal(err)
			}
		}
	}
	return c, k
}

func podOf(b *testing.B, k *clustertest.Kind, node string, n int) *v1.Pod {
	b.Helper()
	cpus := "500m"
	if n%2 == 0 {
		cpus = "4"
	}
	pod := clustertest.Pod(fmt.Sprintf("web-%d-%s", n, node), node, cpus)
	pod.CreationTimestamp = metav1.Unix(1_700_000_000+int64(n), 0)
	pod.Labels = map[string]string{"app": pod.Name}
	if n%2 == 0 {
		k.Hand(b, pod, cpuset.Of(2*n+1, 2*n+2, 2*n+3, 2*n+4))
	}
	return pod
}

// BenchmarkCluster measures a cluster of 5,000 nodes with 100,000 pods: its memory, the time of the
// first fleet, and the cost of one changed pod until the page's fleet has it.
func BenchmarkCluster(b *testing.B) {
	w, err := fleetwatch.New(objectstest.New(b).Config(), time.Now)
	if err != nil {
		b.Fatal(err)
	}
	c, k := crowd(b)
	l := NewLive(w, LiveOptions{Clock: fleetpage.Clock{Now: time.Now, After: time.After}})
	begin := time.Now()
	f := l.fleet(c.Moment())
	first := time.Since(begin)
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	b.ResetTimer()
	for i := range b.N {
		pod := podOf(b, k, fmt.Sprintf("node-%04d", i%5000), 2*(i%10)+1)
		if i%2 == 0 {
			pod.Status.Phase = v1.PodSucceeded
		}
		if err := c.SetPod(pod.Namespace+"/"+pod.Name, pod); err != nil {
			b.Fatal(err)
		}
		f = l.fleet(c.Moment())
	}
	b.ReportMetric(float64(memory.HeapAlloc)/(1<<20), "MiB")
	b.ReportMetric(first.Seconds(), "s/first")
	runtime.KeepAlive(f)
}
