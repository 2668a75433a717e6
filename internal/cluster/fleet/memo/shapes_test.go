package memo

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

// alike draws nodes of one machine, which are often alike.
type alike struct {
	*rapid.T
}

func (t alike) intn(low, high int, label string) int {
	return rapid.IntRange(low, high).Draw(t.T, label)
}

func (t alike) pod(name string) fleet.Pod {
	pod := guaranteed(name, t.intn(1, 3, "cpus"), int64(t.intn(1, 3, "memory"))*gib)
	pod.Containers[0].Memory = request.Amounts{{Resource: request.Memory, Value: pod.Asks.Memory}}
	return pod
}

func (t alike) node(name string, m *machine.Machine, ranking *fleet.Ranking) *Node {
	s, err := node.New(m, rapid.SampledFrom([]node.Policy{
		{Topology: node.TopologySingleNUMANode, Scope: node.PodScope, StaticCPU: true, ReservedCPUs: cpuset.Of(0), StaticMemory: true},
		{Topology: node.TopologyRestricted, StaticCPU: true, StaticMemory: true},
		{Topology: node.TopologyBestEffort, StaticCPU: true, CPU: cpu.Options{FullPCPUsOnly: true}},
		{Topology: node.TopologySingleNUMANode, Scope: node.PodScope, StaticCPU: true, Moves: node.MovePolicy{Pods: 1, All: true}},
	}).Draw(t.T, "policy"))
	if err != nil {
		t.Fatal(err)
	}
	has := fleet.Amounts{Milli: 8000, Memory: int64(t.intn(7, 8, "allocatable")) * gib, Pods: 110}
	n := Of(ranking.View(fleet.Node{Name: name, State: s, Allocatable: has}))
	for k := range t.intn(0, 3, "pods") {
		if n, _, err = n.Place(t.pod(fmt.Sprint(k))); err != nil {
			t.Fatal(err)
		}
	}
	if uid := fmt.Sprint(t.intn(0, 3, "ends")); t.intn(0, 1, "end") == 1 {
		n = n.Next(n.State.Release(uid), n.Used)
	}
	if plan := n.State.Plan(t.pod("reserved").Pod); plan.Grant != nil && t.intn(0, 2, "reserve") == 0 {
		n = n.Next(n.State.WithReservations([]node.Reservation{{Grant: plan.Grant, Why: node.OnItsWay}}), n.Used)
	}
	if _, is := n.Likeness(); is != (n.State.Policy().Moves.Pods == 0 && len(n.State.Reservations()) == 0) {
		t.Fatalf("node %s shares answers: %t", n.Name, is)
	}
	return n
}

// ask compares the answer and the cost of a node with its plan. It returns how many of them came
// from another node.
func (t alike) ask(n *Node, q *Question) (answers, costs int) {
	known := find(n.newest.Load(), q) != nil
	got, hit := n.Answer(q)
	if want := n.AskAfterMoves(q.Pod()); *got != want {
		t.Fatalf("node %s answers %+v, and without others %+v", n.Name, *got, want)
	}
	if hit && !known {
		answers++
	}
	if !got.Fits || got.AfterMoves {
		return answers, 0
	}
	known = find(n.costs.Load(), q) != nil
	cost, hit := n.Cost(q)
	if want := n.Ask(q.Pod()).Cost; cost != want {
		t.Fatalf("node %s has cost %+v, and without others %+v", n.Name, cost, want)
	}
	if hit && !known {
		costs++
	}
	return answers, costs
}

// TestNodesThatAreAlikeShareAnswers asks random fleets, whose nodes are often alike, and compares
// every answer and every cost with a plan of that node.
func TestNodesThatAreAlikeShareAnswers(t *testing.T) {
	m, shared, sharedCosts := scenario.Machine("sockets=2 cores=2 threads=2 memory=4Gi"), 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		t := alike{rt}
		scoring := rapid.SampledFrom(fleet.Scorings()).Draw(rt, "scoring")
		rankings := []*fleet.Ranking{fleet.NewRanking(scoring, nil), fleet.NewRanking(fleet.LeastStranded, nil)}
		nodes := make([]*Node, t.intn(2, 40, "nodes"))
		for i := range nodes {
			nodes[i] = t.node(fmt.Sprint(i), m, rankings[t.intn(0, 1, "ranking")])
		}
		var questions Questions
		for range t.intn(1, 9, "questions") {
			q := questions.Of(t.pod("asked"))
			for _, n := range nodes {
				answers, costs := t.ask(n, q)
				shared, sharedCosts = shared+answers, sharedCosts+costs
			}
		}
	})
	if shared == 0 || sharedCosts == 0 {
		t.Errorf("nodes shared %d answers and %d costs: want both", shared, sharedCosts)
	}
}

// TestShapesAreBounded checks that shapes are forgotten, and that nodes keep those that they have.
func TestShapesAreBounded(t *testing.T) {
	var questions Questions
	q := questions.Of(guaranteed("a", 2, gib))
	first, second := empty(t, 8), empty(t, 8)
	first.Answer(q)
	if second.Answer(q); second.shape.Load() == first.shape.Load() {
		t.Error("nodes with different machines have the same shape")
	}
	for i := range maxShapes + 1 {
		l, is := empty(t, 2).Likeness()
		if q.shapes.of(l, &shape{}); !is {
			t.Fatal("a node has no likeness")
		}
		if len(q.shapes.known) > maxShapes {
			t.Fatalf("%d shapes are found after %d nodes", len(q.shapes.known), i)
		}
	}
	if !q.shapes.rare.Load() {
		t.Error("all nodes differ, and all look for their shape")
	}
	for range someNodes * lately {
		Of(second.View).Answer(q)
	}
	if q.shapes.rare.Load() {
		t.Error("all nodes are alike, and few look for their shape")
	}
	if _, hit := first.Answer(q); !hit {
		t.Error("a node forgot its answer")
	}
}
