package fleet

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/testing/classtest"
)

// divided returns the machine of classtest with other caches.
func divided(t testing.TB, change func(c *machine.Caches)) *machine.Machine {
	t.Helper()
	d := classtest.Description()
	change(&d.Caches)
	m, err := machine.New(d)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestBestWithCaches is TestBestIsTheBestOfAll for nodes that differ in nothing but how their
// caches can be divided, and for pods that differ in nothing but what they ask of them.
func TestBestWithCaches(t *testing.T) {
	machines := []*machine.Machine{
		divided(t, func(*machine.Caches) {}), divided(t, func(c *machine.Caches) { c.Ways, c.HardwareWays = 20, 0 }),
		divided(t, func(c *machine.Caches) { c.Classes = 3 }), divided(t, func(c *machine.Caches) { c.LeastBandwidth, c.BandwidthStep = 0, 0 }),
		divided(t, func(c *machine.Caches) { *c = machine.Caches{} }),
	}
	rapid.Check(t, func(t *rapid.T) {
		var nodes []Node
		for i := range rapid.IntRange(2, 6).Draw(t, "nodes") {
			policy := classtest.Policy()
			m := rapid.SampledFrom(machines).Draw(t, "machine")
			policy.CPU.DividesCaches = !m.Caches().IsEmpty() && rapid.IntRange(0, 3).Draw(t, "option") > 0
			nodes = append(nodes, member1(t, fmt.Sprint("n", i), m, policy))
		}
		f, err := New(NewRanking(LeastStranded, nil), nodes)
		if err != nil {
			t.Fatal(err)
		}
		for i := range rapid.IntRange(1, 25).Draw(t, "pods") {
			pod := guaranteed(fmt.Sprint("p", i), 2*rapid.IntRange(1, 3).Draw(t, "cpus"), gib)
			pod.Containers[0].Cache = rapid.SampledFrom([]request.Cache{{}, {}, {Ways: 2}, {Ways: 5}, {Percent: 60}, {Bandwidth: 40}, {Ways: 1, Bandwidth: 10}}).Draw(t, "asks")
			want := dumb(f, pod)
			got, err := f.Fit(pod)
			if err != nil || got.Node != want {
				t.Fatalf("%v: pod %s, %s, goes to %q; asking every node gives %q", err, pod.ID(), pod.Pod, got.Node, want)
			}
			if want == "" {
				checkCounts(t, f, pod, got.Why)
				continue
			}
			n, _ := f.Node(want)
			g, _ := n.State.Grant(pod.UID)
			if asks := pod.Containers[0].Cache; n.State.Policy().CPU.DividesCaches && (len(g.Containers[0].Cache) == 0) != asks.IsZero() {
				t.Fatalf("pod %s has %s of the caches and asks for %q", pod.ID(), g.Containers[0].Cache, asks)
			}
		}
		for _, v := range f.Views() {
			if err := v.State.Check(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestPodsThatAskOfCachesAreOtherPods checks that pods that differ only in what they ask of the
// caches share no answer, and neither do nodes that differ only in their caches or classes.
func TestPodsThatAskOfCachesAreOtherPods(t *testing.T) {
	keys := map[string]request.Cache{}
	for _, asks := range []request.Cache{{}, {Ways: 4}, {Percent: 4}, {Bandwidth: 4}, {Ways: 4, Bandwidth: 4}} {
		pod := guaranteed("p", 2, gib)
		pod.Containers[0].Cache = asks
		if other, known := keys[pod.Key()]; known {
			t.Errorf("pods that ask for %q and %q share their answers", asks, other)
		}
		keys[pod.Key()] = asks
	}
	pod := guaranteed("p", 2, gib)
	pod.Containers[0].Cache = request.Cache{Ways: 6}
	policy := classtest.Policy()
	full := member1(t, "full", classtest.Machine(t), policy)
	for i := range 2 {
		taken := pod
		taken.UID = fmt.Sprint(i)
		var err error
		if full.State, err = full.State.Apply(full.State.Plan(taken.Pod)); err != nil {
			t.Fatal(err)
		}
	}
	for n, want := range map[*Node]rejection.Cause{
		{Name: "free", State: member1(t, "", classtest.Machine(t), policy).State}:                                                      rejection.NoCause,
		{Name: "few ways", State: member1(t, "", divided(t, func(c *machine.Caches) { c.Ways, c.HardwareWays = 7, 0 }), policy).State}: rejection.CacheUnclear,
		{Name: "full", State: full.State}: rejection.NotAligned,
	} {
		answer := NewRanking(LeastStranded, nil).View(*n).Ask(&pod)
		if answer.Why.Cause != want || answer.Fits != (want == rejection.NoCause) {
			t.Errorf("node %s: %+v, want %s", n.Name, answer, want)
		}
	}
}
