package memo

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

// cpuTime returns the CPU time of the process, with that of the garbage collector. Unlike the time
// that passes, it does not depend on what else the machine does.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// fleetOf returns nodes as in scheduler/perf: 64 CPUs on two NUMA nodes, under single-numa-node,
// with pods of 2 CPUs and 1 GiB. If alike is set, all have the same CPUs free. Otherwise, hardly
// any two of them have.
func fleetOf(b *testing.B, count int, alike bool, pods int) []*fleet.View {
	b.Helper()
	m := scenario.Machine("sockets=2 cores=16 threads=2 uncore=8 memory=128Gi")
	s, err := node.New(m, node.Policy{
		Topology: node.TopologySingleNUMANode, Scope: node.PodScope, StaticCPU: true, ReservedCPUs: cpuset.Of(0, 32), StaticMemory: true,
		ReservedMemory: map[int]map[string]int64{0: {request.Memory: gib}}, PodLevelResources: true, PodLevelManagers: true,
	})
	if err != nil {
		b.Fatal(err)
	}
	ranking, random := fleet.NewRanking(fleet.LeastStranded, nil), rand.New(rand.NewPCG(1, 2))
	views := make([]*fleet.View, count)
	for i := range views {
		n := fleet.Node{Name: fmt.Sprint("node-", i), State: s, Allocatable: fleet.Amounts{Milli: 62_000, Memory: 255 * gib, Pods: 110}}
		v := ranking.View(n)
		place := func(k int) {
			pod := guaranteed(fmt.Sprint(k), 2, gib)
			pod.Containers[0].Memory = request.Amounts{{Resource: request.Memory, Value: gib}}
			if v, _, err = v.Place(pod); err != nil {
				b.Fatal(err)
			}
		}
		for k := range 30 {
			place(k)
		}
		ends := random.Perm(30)[:30-pods]
		if alike {
			ends = []int{20, 21, 22, 23, 24, 25, 26, 27, 28, 29}[:30-pods]
		}
		for _, k := range ends {
			used := fleet.Amounts{Milli: v.Used.Milli - 2000, Memory: v.Used.Memory - gib, Pods: v.Used.Pods - 1}
			v = v.Next(v.State.Release(fmt.Sprint(k)), used)
		}
		views[i] = v
	}
	return views
}

// BenchmarkMiss measures what a node that was not asked before takes for its answer, by CPU time:
// cpu-ns/op. The nodes are more than a CPU cache has room for. With fits the pod fits, and without
// it no NUMA node has its CPUs.
func BenchmarkMiss(b *testing.B) {
	var questions Questions
	for _, c := range []struct {
		name string
		cpus int
	}{{"fits", 4}, {"rejected", 32}} {
		pod := guaranteed("x", c.cpus, gib)
		pod.Containers[0].Memory = request.Amounts{{Resource: request.Memory, Value: gib}}
		q := questions.Of(pod)
		views := fleetOf(b, 2000, false, 20)
		for _, kind := range []struct {
			name string
			ask  func(v *fleet.View) fleet.Answer
		}{
			{"plan", func(v *fleet.View) fleet.Answer { return v.Ask(q.Pod()) }},
			{"verdict", func(v *fleet.View) fleet.Answer { return v.Admits(q.Pod()) }},
		} {
			b.Run(c.name+"/"+kind.name, func(b *testing.B) {
				b.ReportAllocs()
				i, begin := 0, cpuTime(b)
				for b.Loop() {
					if a := kind.ask(views[i%len(views)]); a.Fits != (c.name == "fits") {
						b.Fatalf("%+v", a)
					}
					i++
				}
				b.ReportMetric(float64(cpuTime(b)-begin)/float64(i), "cpu-ns/op")
			})
		}
	}
}

// BenchmarkFirst measures what nodes take for the answer to a question that none of them was asked
// before, by CPU time. They are alike, so that they share answers, or all different. In "apart",
// nothing is shared. With cost, they also compute the cost.
func BenchmarkFirst(b *testing.B) {
	pod := guaranteed("x", 4, gib)
	pod.Containers[0].Memory = request.Amounts{{Resource: request.Memory, Value: gib}}
	for _, alike := range []bool{true, false} {
		name := map[bool]string{true: "alike", false: "different"}[alike]
		views := fleetOf(b, 2000, alike, 20)
		for _, kind := range []struct {
			name string
			ask  func(v *fleet.View, q *Question)
		}{
			{"apart", func(v *fleet.View, q *Question) { n := Of(v); n.keep(q, n.AskAfterMoves(q.Pod())) }},
			{"answer", func(v *fleet.View, q *Question) { Of(v).Answer(q) }},
			{"cost-apart", func(v *fleet.View, q *Question) { Of(v).Learn(q) }},
			{"cost", func(v *fleet.View, q *Question) { n := Of(v); n.Answer(q); n.Cost(q) }},
		} {
			b.Run(name+"/"+kind.name, func(b *testing.B) {
				b.ReportAllocs()
				var questions Questions
				i, q, begin := 0, questions.Of(pod), cpuTime(b)
				for b.Loop() {
					if i%len(views) == 0 { // Nothing is known of any node.
						questions = Questions{}
						q = questions.Of(pod)
					}
					kind.ask(views[i%len(views)], q)
					i++
				}
				b.ReportMetric(float64(cpuTime(b)-begin)/float64(i), "cpu-ns/op")
			})
		}
	}
}
