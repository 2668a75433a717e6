package moves_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/moves"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// advised returns a node with two NUMA nodes of eight CPUs, as kubelet 1.36 decides in what matters
// here.
func advised(t testing.TB) *node.State {
	t.Helper()
	var d machine.Description
	for id := range 2 {
		n := machine.NodeDescription{ID: id, Memory: 8 << 30}
		for k := range 8 {
			n.Cores = append(n.Cores, machine.CoreDescription{Threads: []int{8*id + k}})
		}
		d.Nodes = append(d.Nodes, n)
	}
	m, err := machine.New(d)
	if err != nil {
		t.Fatal(err)
	}
	s, err := node.New(m, node.Policy{StaticCPU: true, Topology: node.TopologySingleNUMANode})
	if err != nil {
		t.Fatal(err)
	}
	return s.As(node.Behavior{AdmitsAgain: true, KeepsReuse: true, KeepsRejected: true})
}

// with admits a pod, and returns the same state if it does not fit.
func with(t testing.TB, s *node.State, name string, cpus int) *node.State {
	t.Helper()
	p := s.Plan(request.Pod{Identity: request.Identity{UID: name, Namespace: "default", Name: name}, Ask: request.Ask{QoS: request.Guaranteed, Containers: []request.Container{{
		Name: "c", Type: request.App, CPUs: cpus, CPURequest: int64(cpus) * 1000, CPULimit: int64(cpus) * 1000, Equivalent: true,
	}}}})
	if p.Rejection != nil {
		return s
	}
	next, err := s.Apply(p)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

var anyPod = moves.Terms{Consent: func(*node.Grant) request.Consent { return request.MoveMemory }}

// TestAdvise checks the advice on a node with four free CPUs on each NUMA node: the fewest pods of
// those that may be deleted, and none if a deleted pod would not fit again.
func TestAdvise(t *testing.T) {
	s := with(t, with(t, with(t, advised(t), "a", 2), "b", 2), "x", 4)
	s = with(t, s, "c", 4).Release("x")
	full := with(t, with(t, s, "d", 4), "e", 3)
	for _, c := range []struct {
		state *node.State
		most  int
		may   string
		left  int // CPUs that pods can request
		want  string
	}{
		{s, 3, "abc", 9, "8 on 1: c 8-11→4-7"},
		{s, 3, "ab", 9, "8 on 0: a 0-1→14-15 b 2-3→12-13"},
		{s, 1, "ab", 9, "6 on 0: a 0-1→12-13"},
		{s, 3, "", 9, "4 on 0:"},
		{s, 3, "abc", 6, "6 on 0: a 0-1→12-13"},
		{s, 3, "abc", 3, "3 on 0:"},
		{s, 3, "abc", 0, "0 on 0:"},
		{full, 3, "abc", 9, "1 on 1:"},
	} {
		a := moves.Advise(c.state, c.most, moves.Terms{Fits: func(cpus int) bool { return cpus <= c.left }, Consent: func(g *node.Grant) request.Consent {
			if strings.Contains(c.may, g.Pod.Name) {
				return request.MoveMemory
			}
			return request.NeverMoves
		}})
		got := fmt.Sprintf("%d on %d:", a.After.CPUs, a.After.Node)
		for _, d := range a.Deleted {
			got += fmt.Sprintf(" %s %s→%s", d.From.Pod.Name, d.From.CPUs(), d.To.CPUs())
		}
		if got != c.want {
			t.Errorf("%d of %q: %s, want %s", c.most, c.may, got, c.want)
		}
	}
	unaligned, err := node.New(s.Machine(), node.Policy{StaticCPU: true})
	if err != nil {
		t.Fatal(err)
	}
	if a := moves.Advise(with(t, unaligned, "a", 2), 3, anyPod); len(a.Deleted) > 0 || a.Before != a.After {
		t.Errorf("under topology policy none: %+v", a)
	}
}

// TestAdviceHolds checks on random nodes that the advice is what the node does: without the pods,
// the larger pod fits, and then each of them.
func TestAdviceHolds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := advised(t)
		for i := range rapid.IntRange(1, 8).Draw(rt, "pods") {
			s = with(t, s, fmt.Sprint("p", i), rapid.IntRange(1, 5).Draw(rt, "cpus"))
		}
		for i := range rapid.IntRange(0, 4).Draw(rt, "gone") {
			s = s.Release(fmt.Sprint("p", 2*i))
		}
		a := moves.Advise(s, rapid.IntRange(1, 3).Draw(rt, "most"), anyPod)
		if a.After.CPUs < a.Before.CPUs || a.After.CPUs > a.Before.CPUs != (len(a.Deleted) > 0) {
			rt.Fatalf("%+v", a)
		}
		left := s
		for _, d := range a.Deleted {
			left = left.Release(d.From.Pod.UID)
		}
		p := probe(left, a.After.CPUs)
		if p == nil && a.After.CPUs > 0 {
			rt.Fatalf("a pod of %d CPUs does not fit", a.After.CPUs)
		}
		if p == nil || len(a.Deleted) == 0 {
			return
		}
		left, err := left.Apply(p)
		if err != nil {
			rt.Fatal(err)
		}
		for i := range a.Deleted { // From the last to the first.
			d := a.Deleted[len(a.Deleted)-1-i]
			again := left.Plan(d.From.Pod)
			if again.Rejection != nil {
				rt.Fatalf("%s does not fit again: %v", d.From.Pod.Name, again.Rejection)
			}
			if left, err = left.Apply(again); err != nil {
				rt.Fatal(err)
			}
		}
	})
}
