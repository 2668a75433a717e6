package intake_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/codec/objects"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/node/engine"
	"github.com/paddock-project/paddock/internal/node/intake"
)

// TestOutcome: the outcome of a grant comes with the plan, and is counted with the decision.
func TestOutcome(t *testing.T) {
	m, err := machine.New(machine.Description{Nodes: []machine.NodeDescription{{Memory: 1 << 36, Cores: []machine.CoreDescription{{Threads: []int{0, 1}}, {Threads: []int{2, 3}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := node.New(m, node.Policy{Topology: node.TopologyRestricted, StaticCPU: true})
	if err != nil {
		t.Fatal(err)
	}
	o, err := objects.Machine(m)
	if err != nil {
		t.Fatal(err)
	}
	policy, err := handover.PolicyDigest(s.Policy())
	if err != nil {
		t.Fatal(err)
	}
	text, err := handover.Encode("n7", o.Name, policy, s.Plan(pod("a", 2)).Grant)
	if err != nil {
		t.Fatal(err)
	}
	counted := map[handover.Reason]int{}
	i := intake.New(intake.Config{
		Node: "n7", Listing: func() *handover.Listing { return nil }, Now: time.Now, Count: func(r handover.Reason) { counted[r]++ }, Log: slog.New(slog.DiscardHandler),
	})
	if i.Used() {
		t.Error("a scheduler is seen before there is one")
	}
	decide := func(s *node.State, uid, text string, want handover.Reason, contested bool) *node.State {
		t.Helper()
		plan, o := i.Plan(s, engine.Candidate{Pod: pod(uid, 2), Handed: text})
		if o.Reason != want || o.Contested() != contested || o.Applied() != (want == handover.Applied) {
			t.Errorf("pod %s: %s, contested %t; want %s", uid, o.Reason, o.Contested(), want)
		}
		i.Decided(engine.Decision{Plan: plan, Base: s, Handed: o})
		i.Decided(engine.Decision{Plan: plan, Base: s}) // The decision is reported again.
		next, err := s.Apply(plan)
		if err != nil {
			t.Fatal(err)
		}
		return next
	}
	s = decide(s, "b", "", handover.Absent, false)
	s = decide(s, "a", text, handover.CPUs, true) // b has the CPUs of its grant.
	if g, there := s.Grant("a"); !there || g.CPUs().Len() != 2 || !i.Used() {
		t.Error("the pod has nothing, or the scheduler is not seen")
	}
	decide(s.Release("a").Release("b"), "a", text, handover.Applied, false)
	for _, r := range []handover.Reason{handover.Absent, handover.CPUs, handover.Applied} {
		if counted[r] != 1 {
			t.Errorf("%s is counted %d times", r, counted[r])
		}
	}
}

// TestResizeBesidesPromises: a pod that grows takes none of the CPUs that are promised to a pod
// that has not started.
func TestResizeBesidesPromises(t *testing.T) {
	m, err := machine.New(machine.Description{Nodes: []machine.NodeDescription{{Memory: 1 << 36, Cores: []machine.CoreDescription{{Threads: []int{0, 1}}, {Threads: []int{2, 3}}, {Threads: []int{4, 5}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := node.New(m, node.Policy{Topology: node.TopologyRestricted, StaticCPU: true})
	if err != nil {
		t.Fatal(err)
	}
	if s, err = s.Apply(s.Plan(pod("a", 2))); err != nil {
		t.Fatal(err)
	}
	o, err := objects.Machine(m)
	if err != nil {
		t.Fatal(err)
	}
	policy, err := handover.PolicyDigest(s.Policy())
	if err != nil {
		t.Fatal(err)
	}
	text, err := handover.Encode("n7", o.Name, policy, s.Plan(pod("promised", 2)).Grant)
	if err != nil {
		t.Fatal(err)
	}
	listing := &handover.Listing{Pods: map[string]handover.Bound{"promised": {Pod: pod("promised", 2), Annotation: text}}}
	i := intake.New(intake.Config{Node: "n7", Listing: func() *handover.Listing { return listing }, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	if alone := s.Resize("a", pod("a", 4)); alone.Grant.CPUs().String() != "0-3" {
		t.Fatalf("alone it would get %s", alone.Grant.CPUs())
	}
	s = s.WithReservations(i.Reservations(s))
	plan := s.Resize("a", pod("a", 4))
	next, err := s.Apply(plan)
	if err != nil || plan.Grant.CPUs().String() != "0-1,4-5" {
		t.Fatalf("%v: it gets %s", err, plan.Grant.CPUs())
	}
	if err := next.Check(); err != nil {
		t.Error(err)
	}
	if plan := s.Resize("a", pod("a", 6)); plan.Rejection == nil || plan.Rejection.Reason != rejection.Deferred {
		t.Errorf("it gets what is promised: %v", plan.Rejection)
	}
	if plan, _ := i.Plan(next, engine.Candidate{Pod: pod("promised", 2), Handed: text}); plan.Grant == nil || plan.Grant.CPUs().String() != "2-3" {
		t.Errorf("what was promised is %v, %v", plan.Grant, plan.Rejection)
	}
}

// TestPromiseBeginsOnce: the promise of a listed pod begins only once. A text that cannot be used
// for a while, or another text, does not renew it.
func TestPromiseBeginsOnce(t *testing.T) {
	s, texts := promising(t)
	good, other := texts["good"], texts["other"]
	for name, c := range map[string]struct {
		// listed is the pod's text in each minute. "-" means that the pod is not listed, and "?"
		// that it is listed and cannot be used.
		listed []string
		// promised has an x for each minute in which the pod has its promise.
		promised string
	}{
		"one text":                 {[]string{good, good, good, good, good}, "xxx.."},
		"unreadable in between":    {[]string{good, "{", good, "{", good, "{", good}, "x.x...."},
		"missing in between":       {[]string{good, "", good, good, "", good}, "x.x..."},
		"another grant":            {[]string{good, other, good, other, good}, "xxx.."},
		"unreadable at the end":    {[]string{good, good, good, "{", good, "", good, other}, "xxx....."},
		"unreadable at first":      {[]string{"{", "{", good, good, good, good}, "..xxx."},
		"the pod unusable":         {[]string{good, "?", good, "?", good}, "x.x.."},
		"unusable and later a pod": {[]string{"?", "?", good, good, good, good}, "..xxx."},
		"not listed in between":    {[]string{good, good, "-", good, good, good, good}, "xx.xxx."},
	} {
		t.Run(name, func(t *testing.T) {
			var listing *handover.Listing
			now, got := time.Now(), ""
			i := intake.New(intake.Config{
				Node: "n7", Listing: func() *handover.Listing { return listing }, Now: func() time.Time { return now },
				Promise: 3 * time.Minute, Log: slog.New(slog.DiscardHandler),
			})
			for _, text := range c.listed {
				listing = &handover.Listing{Pods: map[string]handover.Bound{}}
				switch text {
				case "-":
				case "?":
					listing.Unusable = []string{"p"}
				default:
					listing.Pods["p"] = handover.Bound{Pod: pod("p", 2), Annotation: text}
				}
				got += string(".x"[i.Promises(s)])
				now = now.Add(time.Minute)
			}
			if got != c.promised {
				t.Errorf("promised %s, want %s", got, c.promised)
			}
		})
	}
}

// promising returns a node, and two texts that hand over different CPUs to pod p.
func promising(t *testing.T) (*node.State, map[string]string) {
	t.Helper()
	m, err := machine.New(machine.Description{Nodes: []machine.NodeDescription{{Memory: 1 << 36, Cores: []machine.CoreDescription{{Threads: []int{0, 1}}, {Threads: []int{2, 3}}, {Threads: []int{4, 5}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := node.New(m, node.Policy{Topology: node.TopologyRestricted, StaticCPU: true})
	if err != nil {
		t.Fatal(err)
	}
	o, err := objects.Machine(m)
	if err != nil {
		t.Fatal(err)
	}
	policy, err := handover.PolicyDigest(s.Policy())
	if err != nil {
		t.Fatal(err)
	}
	besides, err := s.Apply(s.Plan(pod("a", 2)))
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for name, on := range map[string]*node.State{"good": s, "other": besides} {
		if texts[name], err = handover.Encode("n7", o.Name, policy, on.Plan(pod("p", 2)).Grant); err != nil {
			t.Fatal(err)
		}
	}
	return s, texts
}
