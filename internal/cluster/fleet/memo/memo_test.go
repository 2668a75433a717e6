package memo

import (
	"fmt"
	"sync"
	"testing"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

const gib = 1 << 30

// empty returns a node under single-numa-node with two threads per core and one NUMA node for each
// size, which is its number of CPUs.
func empty(t testing.TB, sizes ...int) *Node {
	t.Helper()
	var d machine.Description
	next := 0
	for id, size := range sizes {
		n := machine.NodeDescription{ID: id, Memory: 64 * gib}
		for range size / 2 {
			n.Cores = append(n.Cores, machine.CoreDescription{Socket: id, Threads: []int{next, next + 1}})
			next += 2
		}
		d.Nodes = append(d.Nodes, n)
	}
	m, err := machine.New(d)
	if err != nil {
		t.Fatal(err)
	}
	s, err := node.New(m, node.Policy{Topology: node.TopologySingleNUMANode, Scope: node.PodScope, StaticCPU: true, ReservedCPUs: cpuset.Of(0)})
	if err != nil {
		t.Fatal(err)
	}
	return Of(fleet.NewRanking(fleet.LeastStranded, nil).View(fleet.Node{Name: "n", State: s}))
}

// guaranteed returns a pod with one container.
func guaranteed(name string, cpus int, memory int64) fleet.Pod {
	milli := int64(cpus) * 1000
	return fleet.Pod{Pod: request.Pod{Identity: request.Identity{UID: name, Namespace: "default", Name: name}, Ask: request.Ask{QoS: request.Guaranteed, Containers: []request.Container{{
		Name: "c", Type: request.App, CPUs: cpus, Equivalent: true, CPURequest: milli, CPULimit: milli,
	}}}}, Asks: fleet.Amounts{Milli: milli, Memory: memory, Pods: 1}}
}

// TestAnswersAreThoseOfThePlanner asks a node from several goroutines, with more questions than the
// node keeps answers for, and compares every answer with a plan.
func TestAnswersAreThoseOfThePlanner(t *testing.T) {
	n := empty(t, 8, 8)
	var questions Questions
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 3 * maxAnswers {
				pod := guaranteed(fmt.Sprint(g, "-", i), i%10, int64(1+i%(maxAnswers+3))*gib)
				got, _ := n.Answer(questions.Of(pod))
				plan := n.State.Plan(pod.Pod)
				if want := n.Ask(&pod); want.Fits {
					if cost, _ := n.Cost(questions.Of(pod)); cost != want.Cost {
						t.Errorf("%s: the node has cost %+v, the planner %+v", pod, cost, want.Cost)
					}
				}
				if got.Fits != (plan.Grant != nil) || !got.Fits && got.Why.Cause != plan.Trace.Cause {
					t.Errorf("%s: the node answers %+v, the planner %v", pod, *got, plan.Rejection)
				}
			}
		})
	}
	wg.Wait()
	if answers, costs := n.newest.Load().number, n.costs.Load().number; answers > maxAnswers || costs > maxAnswers {
		t.Errorf("%d answers and %d costs are kept", answers, costs)
	}
}

// TestQuestions checks that names do not change the question but amounts do, and that an answer is
// kept until the node changes.
func TestQuestions(t *testing.T) {
	var questions Questions
	a, b := guaranteed("a", 4, gib), guaranteed("b", 4, gib)
	b.Namespace, b.Priority, b.Created = "other", 7, 7
	q := questions.Of(a)
	if questions.Of(b) != q || questions.Of(guaranteed("c", 4, 2*gib)) == q || questions.Of(guaranteed("c", 6, gib)) == q {
		t.Error("pods share a question that differ in more than names, or do not share one")
	}
	if q.Pod().Name != "" || q.Key() != a.Key() {
		t.Errorf("the question has the name %q and the key %q", q.Pod().Name, q.Key())
	}
	n := empty(t, 6)
	if got, hit := n.Answer(q); hit || !got.Fits {
		t.Errorf("first answer %+v, hit %t", *got, hit)
	}
	if got, hit := n.Answer(q); !hit || !got.Fits {
		t.Errorf("second answer %+v, hit %t", *got, hit)
	}
	next, plan, err := n.Place(a)
	if err != nil || plan.Grant == nil || next == n {
		t.Fatalf("the pod is not placed: %v, %v", plan.Rejection, err)
	}
	if got, hit := next.Answer(q); hit || got.Fits || got.Wanted != 4 {
		t.Errorf("answer of the full node %+v, hit %t", *got, hit)
	}
	if cost, hit := next.Cost(q); hit || cost != costAfterMoves() {
		t.Errorf("cost on the full node %+v, hit %t", cost, hit)
	}
	more := n.With(fleet.Amounts{Milli: 100_000, Pods: 110}, fleet.Amounts{})
	if got, hit := more.Answer(q); !hit || !got.Fits {
		t.Error("the node forgets its answers with other amounts")
	}
	if cost, hit := more.Cost(q); hit || cost.Left != 96_000 {
		t.Errorf("cost with other amounts %+v, hit %t", cost, hit)
	}
	learned := Of(n.View)
	learned.Learn(q)
	if got, hit := learned.Answer(q); !hit || !got.Fits {
		t.Error("the node did not learn the answer")
	}
	if cost, hit := learned.Cost(q); !hit || cost != n.Ask(q.Pod()).Cost {
		t.Errorf("the node learned the cost %+v, hit %t", cost, hit)
	}
	if same, _, err := next.Place(guaranteed("d", 4, gib)); err != nil || same != next {
		t.Errorf("a pod that does not fit makes another node (%v)", err)
	}
	if got, hit := next.Next(next.State.Release("a"), next.Used).Answer(q); hit || !got.Fits {
		t.Errorf("answer after the end of the pod %+v, hit %t", *got, hit)
	}
	for i := range maxQuestions + 1 {
		questions.Of(guaranteed("a", 1, int64(i)))
	}
	if len(questions.byKey) > maxQuestions {
		t.Errorf("%d questions are kept", len(questions.byKey))
	}
}

// BenchmarkAnswer measures the cost of filtering one node. With hit, the answer is cached. With
// miss, the node has to plan.
func BenchmarkAnswer(b *testing.B) {
	n := empty(b, 32, 32)
	for i := range 10 {
		n, _, _ = n.Place(guaranteed(fmt.Sprint(i), 4, gib))
	}
	var questions Questions
	q := questions.Of(guaranteed("x", 4, gib))
	b.Run("hit", func(b *testing.B) {
		for b.Loop() {
			n.Answer(q)
		}
	})
	b.Run("miss", func(b *testing.B) {
		for b.Loop() {
			n.Ask(q.Pod())
		}
	})
}
