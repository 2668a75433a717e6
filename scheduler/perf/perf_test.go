// Package perf measures the scheduler with and without the plugin. It has only benchmarks, which
// `make scheduler-perf` runs.
package perf

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	perf "k8s.io/kubernetes/test/integration/scheduler_perf"
	"k8s.io/kubernetes/test/utils/client-go/ktesting"
	"sigs.k8s.io/yaml"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/codec/objects"
	"github.com/paddock-project/paddock/scheduler/duties"
	"github.com/paddock-project/paddock/scheduler/plugin"
)

func TestMain(m *testing.M) {
	if err := perf.InitTests(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	perf.PluginNames = append(perf.PluginNames, plugin.Name)
	os.Exit(m.Run())
}

// noDuties evicts and deletes nothing.
func noDuties(context.Context, fwk.Handle, duties.Settings) error { return nil }

// measured is the plugin. If timed is set, it has the times of Filter, and pods take 1 % longer.
type measured struct {
	*plugin.Plugin
	timed        bool
	hits, misses times
}

func (m *measured) Filter(ctx context.Context, state fwk.CycleState, _ *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	if !m.timed {
		status, _ := m.Ask(ctx, state, info)
		return status
	}
	begin := time.Now()
	status, hit := m.Ask(ctx, state, info)
	if took := time.Since(begin); hit {
		m.hits.add(took)
	} else {
		m.misses.add(took)
	}
	return status
}

// times is a histogram of durations. The bound of each bucket is 2 % larger than that of the one
// before.
type times [1200]atomic.Int64

const step = 1.02

func (t *times) add(d time.Duration) {
	i := int(math.Log(float64(max(d, 1))) / math.Log(step))
	t[min(i, len(t)-1)].Add(1)
}

// quantile returns the duration below which the given part of the durations is, and their number.
func (t *times) quantile(part float64) (time.Duration, int64) {
	var all, sum int64
	for i := range t {
		all += t[i].Load()
	}
	for i := range t {
		if sum += t[i].Load(); sum > 0 && float64(sum) >= part*float64(all) {
			return time.Duration(math.Pow(step, float64(i+1))), all
		}
	}
	return 0, all
}

// BenchmarkThroughput measures pods per second on 5,000 nodes of 64 CPUs and two NUMA nodes with 20
// grants each, without and with the plugin. It needs etcd in PATH.
func BenchmarkThroughput(b *testing.B) {
	var made, last *measured
	timed := false
	var begin time.Duration // CPU time when the nodes exist
	factory := plugin.Factory(plugin.FromAPI, noDuties)
	registry := frameworkruntime.Registry{plugin.Name: func(ctx context.Context, args apiruntime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		p, err := factory(ctx, args, handle)
		if err != nil {
			return nil, err
		}
		own, ok := p.(*plugin.Plugin)
		if !ok {
			return nil, fmt.Errorf("the factory made %T", p)
		}
		made = &measured{Plugin: own, timed: timed}
		last = made
		return made, nil
	}}
	publish := func(ctx ktesting.TContext, _ *scheduler.Scheduler, _ *perf.Workload, nodes *v1.NodeList) error {
		names := []string{}
		for i := range nodes.Items {
			names = append(names, nodes.Items[i].Name)
		}
		defer func() { begin = cpuTime() }()
		if err := create(ctx, names); err != nil || made == nil {
			return err
		}
		return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 10*time.Minute, true, func(context.Context) (bool, error) {
			return made.Managed() == len(names), nil
		})
	}
	perf.RunBenchmarkPerfScheduling(b, "testdata/throughput.yaml", "paddock", registry, perf.WithPrepareFn(install), perf.WithNodeUpdateFn(publish),
		perf.WithPreRunFn(func(ctx ktesting.TContext, _ *perf.Workload) (func(), error) {
			timed = strings.Contains(ctx.Name(), "/Timed/")
			made = nil // A scheduler without the plugin creates none.
			return func() {
				// This has the form of a benchmark result, for the command report. It is the CPU
				// time for the pods, including the API server.
				fmt.Printf("BenchmarkCPU/%s 1 %.1f s-cpu\n", strings.Split(ctx.Name(), "/")[1], (cpuTime() - begin).Seconds())
			}, nil
		}))
	if last != nil {
		hits, all := last.hits.quantile(0.5)
		misses, planned := last.misses.quantile(0.5)
		hits99, _ := last.hits.quantile(0.99)
		misses99, _ := last.misses.quantile(0.99)
		fmt.Printf("BenchmarkFilterInside %d %d hit-ns-median %d hit-ns-p99 %d miss-ns-median %d miss-ns-p99 %d misses %.2f %%hits %d clock-ns\n",
			all+planned, hits, hits99, misses, misses99, planned, 100*float64(all)/float64(max(1, all+planned)), clock())
	}
}

// cpuTime returns the CPU time that this process has used. Unlike pods per second, it does not
// depend on the other load of the machine.
func cpuTime() time.Duration {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		panic(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// clock returns the cost of one time measurement.
func clock() time.Duration {
	const n = 100_000
	begin := time.Now()
	for range n {
		_ = time.Since(time.Now())
	}
	return time.Since(begin) / n / 2
}

// install creates the CustomResourceDefinitions.
func install(ctx ktesting.TContext) error {
	client, err := apiextensionsclient.NewForConfig(ctx.RESTConfig())
	if err != nil {
		return err
	}
	files, err := filepath.Glob("../../deploy/base/crds/*.yaml")
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		crd := &apiextensions.CustomResourceDefinition{}
		if err := yaml.Unmarshal(text, crd); err != nil {
			return err
		}
		if _, err := client.ApiextensionsV1().CustomResourceDefinitions().Create(ctx, crd, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		list, err := client.ApiextensionsV1().CustomResourceDefinitions().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		ready := 0
		for i := range list.Items {
			for _, c := range list.Items[i].Status.Conditions {
				if c.Type == apiextensions.Established && c.Status == apiextensions.ConditionTrue {
					ready++
				}
			}
		}
		return ready == len(files), nil
	})
}

// create creates the objects of nodes.
func create(ctx ktesting.TContext, names []string) error {
	client, err := objects.NewClient(ctx.RESTConfig())
	if err != nil {
		return err
	}
	kind := newKind(ctx)
	if err := client.Post().Resource(v1alpha1.PaddockMachines).Body(kind.machine).Do(ctx).Error(); err != nil {
		return err
	}
	failed := make(chan error, 1)
	work := make(chan string)
	const writers = 16
	for range writers {
		go func() {
			for name := range work {
				if err := client.Post().Resource(v1alpha1.PaddockNodes).Body(kind.node(name)).Do(ctx).Error(); err != nil {
					select {
					case failed <- err:
					default:
					}
				}
			}
		}()
	}
	for _, name := range names {
		work <- name
	}
	close(work)
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// BenchmarkMemory measures the memory that a process takes for 5,000 PaddockNodes with 20 grants
// each, compared with an empty one: the objects as the informer keeps them, and the states.
func BenchmarkMemory(b *testing.B) {
	const nodes = 5000
	heap := func() float64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc) / (1 << 20)
	}
	for range b.N {
		kind := newKind(b)
		before := heap()
		kept := kind.load(b, nodes)
		b.ReportMetric(heap()-before, "MiB/100k-grants")
		runtime.KeepAlive(kept)
	}
	b.ReportMetric(0, "ns/op")
}
