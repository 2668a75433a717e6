package handover_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/core/annotation"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/testing/classtest"
	"github.com/paddock-project/paddock/internal/testing/golden"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

const gib = 1 << 30

var here = handover.Here{Node: "n7", Machine: strings.Repeat("a", annotation.DigestSize), Policy: strings.Repeat("b", annotation.DigestSize)}

// twoNodes returns the state of a node with two NUMA nodes that have 16 CPUs and 64Gi each.
func twoNodes(t testing.TB) *node.State {
	t.Helper()
	m := scenario.Machine("sockets=2 cores=8 threads=2 memory=64Gi")
	s, err := node.New(m, node.Policy{
		Topology: node.TopologySingleNUMANode, Scope: node.PodScope, StaticCPU: true, ReservedCPUs: cpuset.Of(0, 16), StaticMemory: true,
		ReservedMemory: map[int]map[string]int64{0: {"memory": gib}}, PodLevelResources: true, PodLevelManagers: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// pod returns a pod with one container that has cpus exclusive CPUs and the given memory.
func pod(uid string, cpus int, bytes int64) request.Pod {
	return request.Pod{
		Identity: request.Identity{UID: uid, Namespace: "default", Name: "pod-" + uid}, Ask: request.Ask{
			QoS: request.Guaranteed,
			Containers: []request.Container{{
				Name: "main", Type: request.App, CPUs: cpus, Equivalent: true, Memory: request.Amounts{{Resource: "memory", Value: bytes}},
				CPURequest: 1000 * int64(cpus), CPULimit: 1000 * int64(cpus),
			}},
		},
	}
}

func textOf(t testing.TB, g *node.Grant) string {
	t.Helper()
	text, err := handover.Encode(here.Node, here.Machine, here.Policy, g)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestForm checks that the text changes only with a new version.
func TestForm(t *testing.T) {
	text := textOf(t, twoNodes(t).Plan(pod("u", 4, 8*gib)).Grant) + "\n"
	golden.Compare(t, "testdata/v1.json", text)
}

// TestRoundTrip checks, for any pod, that the node applies what a scheduler writes.
func TestRoundTrip(t *testing.T) {
	empty := twoNodes(t)
	rapid.Check(t, func(t *rapid.T) {
		s := empty
		for i := range rapid.IntRange(1, 6).Draw(t, "pods") {
			p := pod(fmt.Sprint(i), rapid.IntRange(0, 8).Draw(t, "cpus"), rapid.Int64Range(1, 20*gib).Draw(t, "bytes"))
			plan := s.Plan(p)
			if plan.Grant == nil {
				continue
			}
			text, err := handover.Encode(here.Node, here.Machine, here.Policy, plan.Grant)
			if err != nil {
				t.Fatal(err)
			}
			p.Created, p.Priority, p.ResourceClaims = 17, 3, []request.Claim{{Name: "gpu"}} // These fields do not change what the pod asks for.
			p.Containers[0].Given = []request.Given{{Driver: "d", Pool: "p", Name: "gpu0", Claim: "gpu"}}
			got, err := handover.Check(s, here, p, text)
			if err != nil || !got.Grant.SameAssignments(plan.Grant) {
				t.Fatalf("%v: %s", err, text)
			}
			if s, err = s.Apply(got); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestCheck covers each way in which an annotation can be wrong, with the reason that is counted.
// None of them gives the pod anything.
func TestCheck(t *testing.T) {
	s := twoNodes(t)
	p := pod("u", 4, 8*gib)
	good := textOf(t, s.Plan(p).Grant)
	busy, err := s.Apply(s.Plan(pod("other", 4, 8*gib)))
	if err != nil {
		t.Fatal(err)
	}
	replace := func(old, now string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("%s has no %s", good, old)
		}
		return strings.Replace(good, old, now, 1)
	}
	cpus := `"containers":[{"cpus":"1-2,17-18"`
	for name, c := range map[string]struct {
		state  *node.State
		pod    request.Pod
		text   string
		reason handover.Reason
	}{
		"none":                   {s, p, "", handover.Absent},
		"no JSON":                {s, p, "x", handover.Damaged},
		"cut off":                {s, p, good[:len(good)-5], handover.Damaged},
		"a newer version":        {s, p, replace(`{"v":1,`, `{"v":2,`), handover.UnknownVersion},
		"too large":              {s, p, good + strings.Repeat(" ", handover.MaxSize), handover.TooLarge},
		"formatted":              {s, p, replace(`,"uid"`, `, "uid"`), handover.Damaged},
		"a member more":          {s, p, replace(`,"uid"`, `,"extra":1,"uid"`), handover.Damaged},
		"another node":           {s, p, replace(`"node":"n7"`, `"node":"n8"`), handover.OtherNode},
		"another UID":            {s, p, replace(`"uid":"u"`, `"uid":"v"`), handover.OtherPod},
		"another machine":        {s, p, replace(here.Machine, here.Policy), handover.OtherMachine},
		"another policy":         {s, p, replace(here.Policy, here.Machine), handover.OtherPolicy},
		"a larger pod's":         {s, pod("u", 2, 8*gib), good, handover.OtherRequest},
		"more memory":            {s, p, replace(`"bytes":8589934592`, `"bytes":8589934593`), handover.Memory},
		"more CPUs":              {s, p, replace(cpus, `"containers":[{"cpus":"1-3,17-18"`), handover.CPUs},
		"fewer CPUs":             {s, p, replace(cpus, `"containers":[{"cpus":"1-2"`), handover.CPUs},
		"reserved CPUs":          {s, p, replace(cpus, `"containers":[{"cpus":"0-1,16-17"`), handover.CPUs},
		"CPUs that do not exist": {s, p, replace(cpus, `"containers":[{"cpus":"100-103"`), handover.CPUs},
		"CPUs of two NUMA nodes": {s, p, replace(cpus, `"containers":[{"cpus":"1,8,17,24"`), handover.CPUs},
		"another NUMA node":      {s, p, replace(`"nodes":"0","aligned"`, `"nodes":"1","aligned"`), handover.CPUs},
		"two NUMA nodes":         {s, p, replace(`"nodes":"0","aligned"`, `"nodes":"0-1","aligned"`), handover.Alignment},
		"memory elsewhere":       {s, p, replace(`"bytes":8589934592,"nodes":"0"`, `"bytes":8589934592,"nodes":"1"`), handover.Memory},
		"CPUs of another pod":    {busy, p, good, handover.CPUs},
		"not aligned":            {s, p, replace(`,"aligned":true`, ``), handover.Alignment},
	} {
		plan, err := handover.Check(c.state, here, c.pod, c.text)
		if wrong := (*handover.Error)(nil); plan != nil || !errors.As(err, &wrong) || wrong.Reason != c.reason || wrong.Detail == "" {
			t.Errorf("%s: plan %v, error %v, want %s", name, plan != nil, err, c.reason)
		}
	}
	elsewhere := strings.NewReplacer(cpus, `"containers":[{"cpus":"8-9,24-25"`, `"nodes":"0"`, `"nodes":"1"`).Replace(good)
	if plan, err := handover.Check(s, here, p, elsewhere); err != nil || plan.Grant.CPUs().String() != "8-9,24-25" {
		t.Errorf("another place that the rules allow: %v", err)
	}
}

func TestEncodeErrors(t *testing.T) {
	g := *twoNodes(t).Plan(pod("u", 4, 8*gib)).Grant
	for range 3000 {
		g.Containers = append(g.Containers, g.Containers[0])
		g.Pod.Containers = append(g.Pod.Containers, g.Pod.Containers[0])
	}
	if text, err := handover.Encode("n7", "m", "p", &g); text != "" || !errors.Is(err, handover.ErrTooLarge) || !strings.Contains(err.Error(), "default/pod-u") {
		t.Errorf("%d bytes, error %v", len(text), err)
	}
	removed := *twoNodes(t).Plan(pod("u", 4, 8*gib)).Grant
	removed.Containers = []node.ContainerGrant{{Removed: true}}
	if text, err := handover.Encode("n7", "m", "p", &removed); text != "" || !errors.Is(err, handover.ErrNotEncodable) {
		t.Errorf("%s, error %v", text, err)
	}
}

// FuzzDecode checks that Decode returns either a text or an error and never panics, that a decoded
// text is encoded to the same bytes, and that no text gives a pod more than it asks for.
func FuzzDecode(f *testing.F) {
	s := twoNodes(f)
	p := pod("u", 4, 8*gib)
	f.Add(textOf(f, s.Plan(p).Grant))
	f.Add(`{"v":1,"node":"n7","uid":"u","machine":"","policy":"","request":"","containers":[]}`)
	for _, g := range classtest.State(f).Grants() {
		f.Add(textOf(f, g))
	}
	f.Add(`{"v":2,`)
	f.Fuzz(func(t *testing.T, data string) {
		text, err := handover.Decode(data)
		if (text == nil) == (err == nil) {
			t.Fatalf("text %v and error %v", text, err)
		}
		plan, err := handover.Check(s, here, p, data)
		if (plan == nil) == (err == nil) {
			t.Fatalf("plan %v and error %v", plan, err)
		}
		if plan != nil && (plan.Grant.CPUs().Len() != 4 || plan.Grant.Charged()[0].Size != 8*gib) {
			t.Fatalf("the pod gets %s and %v", plan.Grant.CPUs(), plan.Grant.Charged())
		}
	})
}

// BenchmarkMemory measures the memory of 100,000 grants: the texts as an informer keeps them, and
// the grants decoded from them.
func BenchmarkMemory(b *testing.B) {
	s := twoNodes(b)
	p := pod("01234567-89ab-4cde-8f01-23456789abcd", 4, 8*gib)
	text := textOf(b, s.Plan(p).Grant)
	const n = 100_000
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		texts, grants := make([]string, n), make([]*node.Grant, n)
		for i := range n {
			texts[i] = strings.Clone(text)
			t, err := handover.Decode(texts[i])
			if err != nil {
				b.Fatal(err)
			}
			if grants[i], err = t.For(pod(p.UID, 4, 8*gib)); err != nil {
				b.Fatal(err)
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MiB/100kgrants")
		runtime.KeepAlive(texts)
		runtime.KeepAlive(grants)
	}
}

func BenchmarkCheck(b *testing.B) {
	s := twoNodes(b)
	p := pod("u", 4, 8*gib)
	text := textOf(b, s.Plan(p).Grant)
	for b.Loop() {
		if _, err := handover.Check(s, here, p, text); err != nil {
			b.Fatal(err)
		}
	}
}
