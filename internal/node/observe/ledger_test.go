package observe_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/observe"
)

// empty returns a node with two NUMA nodes of four CPUs.
func empty(t *testing.T) *node.State {
	t.Helper()
	var d machine.Description
	for n := range 2 {
		numa := machine.NodeDescription{ID: n, Memory: 8 << 30}
		for i := range 4 {
			numa.Cores = append(numa.Cores, machine.CoreDescription{Threads: []int{4*n + i}})
		}
		d.Nodes = append(d.Nodes, numa)
	}
	m, err := machine.New(d)
	if err != nil {
		t.Fatal(err)
	}
	s, err := node.New(m, node.Policy{StaticCPU: true, Topology: node.TopologySingleNUMANode})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func pod(name string, cpus int) request.Pod {
	return request.Pod{
		Identity: request.Identity{UID: name, Namespace: "default", Name: name},
		Ask:      request.Ask{QoS: request.Guaranteed, Containers: []request.Container{{Name: "c", Type: request.App, CPUs: cpus, Equivalent: true}}},
	}
}

// admitted returns the state after the admission of pods, in their order.
func admitted(t *testing.T, s *node.State, pods ...request.Pod) *node.State {
	t.Helper()
	for _, p := range pods {
		plan := s.Plan(p)
		if plan.Rejection != nil {
			t.Fatalf("%s: %v", p.ID(), plan.Rejection)
		}
		next, err := s.Apply(plan)
		if err != nil {
			t.Fatal(err)
		}
		s = next
	}
	return s
}

// of returns a sight of which only the state is known.
func of(s *node.State) observe.Sight { return observe.Sight{State: s} }

const rejected = "TopologyAffinityError"

// TestLook has one case for each way in which a decision can compare with its prediction.
func TestLook(t *testing.T) {
	a, b, large, shares := pod("a", 2), pod("b", 3), pod("large", 6), pod("shares", 0)
	start := empty(t)
	for _, c := range []struct {
		name    string
		now     *node.State
		decided []observe.Decision
		want    string
	}{
		{"nothing", start, nil, ""},
		{"an admission", admitted(t, start, a), []observe.Decision{{Pod: a}}, "a as-predicted"},
		{"a rejection", start, []observe.Decision{{Pod: large, Reason: rejected}}, "large as-predicted"},
		{"a pod of the shared pool", start, []observe.Decision{{Pod: shares}}, ""},
		{"two, in the order of creation", admitted(t, start, a, b), []observe.Decision{{Pod: a}, {Pod: b}}, "a as-predicted, b as-predicted"},
		{"two, the other way around", admitted(t, start, pod("c", 1), pod("d", 2)), []observe.Decision{{Pod: pod("d", 2)}, {Pod: pod("c", 1)}}, "d reordered, c reordered"},
		{"other CPUs", admitted(t, start, pod("x", 1), a).Release("x"), []observe.Decision{{Pod: a}}, "a differs: admitted: c CPUs 0-1 / admitted: c CPUs 1-2"},
		{"rejected for no reason", start, []observe.Decision{{Pod: a, Reason: rejected}}, "a differs: admitted: c CPUs 0-1 / rejected (TopologyAffinityError)"},
		{"rejected for another reason", start, []observe.Decision{{Pod: large, Reason: "SMTAlignmentError"}}, "large differs: rejected (TopologyAffinityError) / rejected (SMTAlignmentError)"},
		{"admitted all the same", start, []observe.Decision{{Pod: large}}, "large differs: rejected (TopologyAffinityError) / admitted, without CPUs and memory of its own"},
		{"not predicted", admitted(t, start, a), []observe.Decision{{Pod: a, Doubts: []string{"its devices are not known"}}}, "a unsure: its devices are not known"},
		{"after a difference", admitted(t, start, pod("x", 1), a, b).Release("x"), []observe.Decision{{Pod: a}, {Pod: b}}, "a differs: admitted: c CPUs 0-1 / admitted: c CPUs 1-2, b unsure: it was decided after default/a, whose decision was not predicted"},
	} {
		var l observe.Ledger
		l.Begin(of(start))
		if got := texts(l.Look(time.Time{}, of(c.now), c.decided)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func texts(all []observe.Comparison) string {
	var list []string
	for _, c := range all {
		text := c.UID + " " + string(c.Result)
		switch c.Result {
		case observe.Differs:
			text += ": " + c.Predicted + " / " + c.Actual
		case observe.Unsure:
			text += ": " + c.Why
		case observe.AsPredicted, observe.Reordered:
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}

// TestEndedInits checks that the memory of init containers that have ended since the last look is
// free for the next pod, and not looked for in the files.
func TestEndedInits(t *testing.T) {
	before := empty(t)
	policy := before.Policy()
	policy.StaticMemory, policy.ReservedMemory = true, map[int]map[string]int64{0: {request.Memory: 1 << 20}}
	before, err := node.New(before.Machine(), policy)
	if err != nil {
		t.Fatal(err)
	}
	memory := func(c request.Container, gib int64) request.Container {
		c.Memory = request.Amounts{{Resource: request.Memory, Value: gib << 30}}
		return c
	}
	first, second := pod("first", 1), pod("second", 1)
	init := memory(request.Container{Name: "init", Type: request.Init, Equivalent: true}, 7)
	first.Containers = []request.Container{init, memory(first.Containers[0], 1)}
	second.Containers[0] = memory(second.Containers[0], 6)
	now := admitted(t, before, first).ContainerCreated("first", "c")
	now = admitted(t, now, second)
	if g, _ := now.Grant("second"); !g.Containers[0].MemoryNodes.Has(0) {
		t.Fatalf("the second pod is on %s", g.Containers[0].MemoryNodes.Text())
	}
	var l observe.Ledger
	l.Begin(of(before))
	for _, c := range l.Look(time.Unix(10, 0), of(now), []observe.Decision{{Pod: first}, {Pod: second}}) {
		if c.Result != observe.AsPredicted {
			t.Errorf("%s: %s: predicted %s; the kubelet: %s", c.Pod, c.Result, c.Predicted, c.Actual)
		}
	}
	third := pod("third", 0)
	third.Containers = []request.Container{init, {Name: "c", Type: request.App}}
	l.Begin(of(before))
	now = admitted(t, before, third).ContainerCreated("third", "c")
	for _, c := range l.Look(time.Unix(20, 0), of(now), []observe.Decision{{Pod: third}}) {
		if c.Result != observe.AsPredicted {
			t.Errorf("%s: %s: predicted %s; the kubelet: %s", c.Pod, c.Result, c.Predicted, c.Actual)
		}
	}
}

// TestEnded checks that a pod can end before or after the next decision without a difference.
func TestEnded(t *testing.T) {
	a, b := pod("a", 2), pod("b", 2)
	before := admitted(t, empty(t), a)
	for name, now := range map[string]*node.State{
		"removed before": admitted(t, before.Release("a"), b), "removed after": admitted(t, before, b).Release("a"),
	} {
		var l observe.Ledger
		l.Begin(of(before))
		if got := texts(l.Look(time.Time{}, of(now), []observe.Decision{{Pod: b}})); got != "b as-predicted" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestLateRejection checks a rejection that shows in the pod's status after another pod was
// admitted, and after one has ended that was in its way.
func TestLateRejection(t *testing.T) {
	a, four := pod("a", 2), pod("four", 4)
	b := pod("b", 2)
	full := admitted(t, empty(t), a, pod("z", 4))
	var l observe.Ledger
	l.Begin(of(full))
	free := full.Release("a").Release("z")
	if got := texts(l.Look(time.Unix(100, 0), of(admitted(t, free, b)), []observe.Decision{{Pod: b}})); got != "b as-predicted" {
		t.Error(got)
	}
	if got := texts(l.Look(time.Unix(100, 0), of(admitted(t, free, b)), []observe.Decision{{Pod: four, Reason: rejected}})); got != "four reordered" {
		t.Error(got)
	}
}

// TestRejectionBeforeItExisted checks that a state from before a pod existed does not explain its
// rejection.
func TestRejectionBeforeItExisted(t *testing.T) {
	full := admitted(t, empty(t), pod("a", 4), pod("b", 4))
	four := pod("four", 4)
	four.Created = 200
	var l observe.Ledger
	l.Begin(of(full))
	free := full.Release("a")
	l.Look(time.Unix(100, 0), of(free), nil)
	if got := texts(l.Look(time.Unix(300, 0), of(free), []observe.Decision{{Pod: four, Reason: rejected}})); got != "four differs: admitted: c CPUs 0-3 / rejected (TopologyAffinityError)" {
		t.Error(got)
	}
}

// TestMany checks that many pods of one moment are predicted in whatever order they were decided,
// and that nothing is claimed if no order is found.
func TestMany(t *testing.T) {
	pods := []request.Pod{pod("a", 2), pod("b", 1), pod("c", 1), pod("d", 3)}
	var decided []observe.Decision
	for _, p := range []request.Pod{pods[2], pods[0], pods[3], pods[1]} {
		decided = append(decided, observe.Decision{Pod: p})
	}
	start := empty(t)
	var l observe.Ledger
	l.Begin(of(start))
	if got := texts(l.Look(time.Unix(100, 0), of(admitted(t, start, pods...)), decided)); got != "c reordered, a reordered, d reordered, b reordered" {
		t.Error(got)
	}
	l.Begin(of(start))
	wrong := admitted(t, admitted(t, start, pod("x", 1)), pods[:3]...).Release("x")
	got := texts(l.Look(time.Unix(100, 0), of(admitted(t, wrong, pods[3])), decided))
	if strings.Contains(got, "differs") || !strings.Contains(got, "c unsure: more pods were decided at the same time") {
		t.Error(got)
	}
}

// TestBesideDoubt checks that nothing is claimed about a pod that got CPUs beside those of another
// pod about which nothing is known.
func TestBesideDoubt(t *testing.T) {
	a, b := pod("a", 2), pod("b", 2)
	b.Created = 1
	var l observe.Ledger
	l.Begin(of(empty(t)))
	now := admitted(t, admitted(t, empty(t), b), a).Release("b")
	got := texts(l.Look(time.Unix(100, 0), of(now), []observe.Decision{{Pod: a}, {Pod: b, Doubts: []string{"it ended"}}}))
	if got != "a unsure: it was decided at the same time as default/b, whose decision was not predicted, b unsure: it ended" {
		t.Error(got)
	}
}

// TestDoubt checks that a kubelet whose decisions differ is noticed within five of them, and that
// the last differences are kept.
func TestDoubt(t *testing.T) {
	var l observe.Ledger
	s := empty(t)
	l.Begin(of(s))
	for i := range 30 {
		p := pod(fmt.Sprint("p", i), 1)
		l.Look(time.Time{}, of(admitted(t, s, p)), []observe.Decision{{Pod: p}})
		l.Begin(of(s))
	}
	if why := l.Doubt(); why != "" || l.Admissions()[observe.AsPredicted] != 30 {
		t.Errorf("%q, %v", why, l.Admissions())
	}
	noticed := 0
	for i := range 120 {
		p := pod(fmt.Sprint("q", i), 1)
		l.Look(time.Time{}, of(admitted(t, s, pod("x", 1), p).Release("x")), []observe.Decision{{Pod: p}})
		l.Begin(of(s))
		if l.Doubt() != "" && noticed == 0 {
			noticed = i + 1
		}
	}
	if noticed == 0 || noticed > 5 {
		t.Errorf("it was noticed after %d differences", noticed)
	}
	if d := l.Differences(); len(d) != observe.KeptDifferences || d[0].UID != "q20" || d[99].Plan != nil {
		t.Errorf("%d differences are kept", len(d))
	}
}

// TestUnseen checks that nothing is predicted before a state was seen.
func TestUnseen(t *testing.T) {
	var l observe.Ledger
	a := pod("a", 2)
	if got := texts(l.Look(time.Time{}, of(admitted(t, empty(t), a)), []observe.Decision{{Pod: a}})); got != "a unsure: no state from before this decision was seen" {
		t.Error(got)
	}
	if u := l.Unpredicted(); len(u) != 1 || l.Doubt() != "" {
		t.Errorf("%v, %q", u, l.Doubt())
	}
}
