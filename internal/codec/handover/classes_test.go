package handover_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/core/annotation"
	"github.com/paddock-project/paddock/internal/core/cache"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/testing/classtest"
	"github.com/paddock-project/paddock/internal/testing/golden"
)

// TestClassesForm checks that classes are handed over, and that a text with a class that no state
// has is damaged.
func TestClassesForm(t *testing.T) {
	var texts []string
	for _, g := range classtest.State(t).Grants() {
		text := textOf(t, g)
		texts = append(texts, text)
		read, err := handover.Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := read.For(g.Pod); err != nil || !again.SameAssignments(g) {
			t.Errorf("%v, handed over %s, read %+v", err, text, again)
		}
		without := strings.NewReplacer(`,"cache":[{"l3":0,"ways":"0-3","bandwidth":20}]`, ``, `,"poolCache":[{"l3":1,"ways":"3-4"}]`, ``).Replace(text)
		if without == text {
			continue
		}
		if read, err = handover.Decode(without); err != nil || read.Grant.SameAssignments(g) {
			t.Errorf("%v: without its class, the grant is the same: %s", err, without)
		}
		for _, wrong := range []string{`"ways":"0,2"`, `"ways":"31-32"`, `"ways":"x"`, `"ways":"0","l2":1`, `"ways":0`, `"bandwidth":200`} {
			bad := strings.NewReplacer(`"ways":"0-3"`, wrong, `"ways":"3-4"`, wrong).Replace(text)
			if _, err := handover.Decode(bad); !errors.Is(err, handover.ErrDamaged) {
				t.Errorf("%v: %s", err, bad)
			}
		}
	}
	golden.Compare(t, "testdata/v1-classes.txt", strings.Join(texts, "\n")+"\n")
}

// TestClassesNotGiven hands grants over to a node that does not divide its caches. It applies those
// without classes, and gives no class that its rules do not give.
func TestClassesNotGiven(t *testing.T) {
	p := classtest.Policy()
	p.CPU.DividesCaches = false
	s, err := node.New(classtest.Machine(t), p)
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range classtest.Pods() {
		plan := s.Plan(pod)
		if got, err := handover.Check(s, here, pod, textOf(t, plan.Grant)); err != nil || !got.Grant.SameAssignments(plan.Grant) {
			t.Errorf("%s: %v", pod.ID(), err)
		}
		for _, change := range []func(g *node.Grant){
			func(g *node.Grant) { g.Containers[0].Cache = cache.Class{{Cache: 0, Ways: 15}} },
			func(g *node.Grant) { g.PoolCache = cache.Class{{Cache: 0, Bandwidth: 20}} },
		} {
			g := *plan.Grant
			g.Containers = append([]node.ContainerGrant(nil), g.Containers...)
			change(&g)
			got, err := handover.Check(s, here, pod, textOf(t, &g))
			if wrong := (*handover.Error)(nil); got != nil || !errors.As(err, &wrong) || wrong.Reason != handover.Caches || !handover.OutcomeOf(err).Contested() {
				t.Errorf("%s: plan %v, error %v, want %s", pod.ID(), got != nil, err, handover.Caches)
			}
		}
	}
}

// TestClassesAreApplied checks that a node that divides its caches applies a grant with the classes
// that its rules allow, also other ones than its own choice, and that it plans by itself if the
// grant has none: one of a scheduler that knows no classes.
func TestClassesAreApplied(t *testing.T) {
	s, err := node.New(classtest.Machine(t), classtest.Policy())
	if err != nil {
		t.Fatal(err)
	}
	const own, other = `"ways":"0-3","bandwidth":20`, `"ways":"4-7","bandwidth":20`
	pod := classtest.Pods()[0]
	good := textOf(t, s.Plan(pod).Grant)
	for text, want := range map[string]handover.Reason{
		good:                                 handover.Applied,
		strings.Replace(good, own, other, 1): handover.Applied,
		strings.Replace(good, own, `"ways":"0-4","bandwidth":20`, 1):  handover.Caches, // more than it asks for
		strings.Replace(good, own, `"ways":"0-3"`, 1):                 handover.Caches, // less
		strings.Replace(good, own, `"ways":"6-9","bandwidth":20`, 1):  handover.Caches, // a way of the hardware
		strings.Replace(good, own, `"ways":"9-12","bandwidth":20`, 1): handover.Caches,
		strings.Replace(good, `"l3":0`, `"l3":1`, 1):                  handover.Caches,
		strings.Replace(good, `,"cache":[{"l3":0,`+own+`}]`, ``, 1):   handover.Caches,
	} {
		plan, err := handover.Check(s, here, pod, text)
		if got := handover.OutcomeOf(err).Reason; got != want || (plan != nil) != (want == handover.Applied) {
			t.Errorf("%s: %v, plan %v, want %s", text, err, plan != nil, want)
		}
	}
	busy, err := s.Apply(s.Plan(pod))
	if err != nil {
		t.Fatal(err)
	}
	pod.UID = "second"
	taken := busy.Plan(pod).Grant
	taken.Containers[0].Cache[0].Ways = 0xf
	if _, err := handover.Check(busy, here, pod, textOf(t, taken)); handover.OutcomeOf(err).Reason != handover.Caches {
		t.Errorf("ways of another pod are given: %v", err)
	}
}

// TestRequestDigestHasCaches checks that what a pod asks of the caches is part of the digest of its
// request: a grant is not applied to a pod that asks for something else now. The words by which an
// annotation is unclear do not count.
func TestRequestDigestHasCaches(t *testing.T) {
	digests := map[string]string{}
	for name, change := range map[string]func(p *request.Pod){
		"nothing":            func(*request.Pod) {},
		"4 ways":             func(p *request.Pod) { p.Containers[0].Cache.Ways = 4 },
		"4 percent":          func(p *request.Pod) { p.Containers[0].Cache.Percent = 4 },
		"4% bandwidth":       func(p *request.Pod) { p.Containers[0].Cache.Bandwidth = 4 },
		"4 ways of the pool": func(p *request.Pod) { p.PoolCache.Ways = 4 },
		"unclear":            func(p *request.Pod) { p.CacheUnclear = "no number" },
	} {
		p := pod("u", 4, gib)
		change(&p)
		digest, err := annotation.RequestDigest(p)
		if err != nil || digests[digest] != "" {
			t.Errorf("%s and %q have the same digest, %v", name, digests[digest], err)
		}
		digests[digest] = name
	}
	a, b := pod("u", 4, gib), pod("u", 4, gib)
	a.CacheUnclear, b.CacheUnclear = "no number", "a number is expected"
	first, _ := annotation.RequestDigest(a)
	if second, err := annotation.RequestDigest(b); err != nil || first != second || !a.Equal(b) {
		t.Errorf("%s and %s, %v", first, second, err)
	}
}

// TestPolicyDigestHasOption checks that a node with the option and one without it do not take each
// other's grants.
func TestPolicyDigestHasOption(t *testing.T) {
	with, err := handover.PolicyDigest(classtest.Policy())
	if err != nil {
		t.Fatal(err)
	}
	p := classtest.Policy()
	p.CPU.DividesCaches = false
	if without, err := handover.PolicyDigest(p); err != nil || without == with {
		t.Errorf("%v, both have %s", err, with)
	}
}
