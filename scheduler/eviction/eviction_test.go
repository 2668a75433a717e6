package eviction_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/scheduler/eviction"
)

// rejected returns a pod that its node rejects.
func rejected() *v1.Pod {
	yes := true
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "a", UID: "u", OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "r", Controller: &yes}},
		},
		Spec:   v1.PodSpec{NodeName: "n"},
		Status: v1.PodStatus{Phase: v1.PodPending, Conditions: []v1.PodCondition{{Type: v1.PodReadyToStartContainers, Status: v1.ConditionFalse}}},
	}
}

// run makes a pass every 10 s for two minutes. It returns the times at which evictions were
// requested, the number of events, and the counts of outcomes.
func run(t *testing.T, pod *v1.Pod, answer error) (asked []time.Duration, notes int, counts map[string]int) {
	t.Helper()
	counts = map[string]int{}
	begin := time.Unix(1000, 0)
	now := begin
	node := &v1alpha1.PaddockNode{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	node.Status.Rejections.Last = []v1alpha1.Rejection{{Pod: "default/a", UID: "u", Cause: "NotAligned"}, {Pod: "default/a", UID: "u"}}
	e := eviction.New(eviction.World{
		Now:   func() time.Time { return now },
		Nodes: func() []*v1alpha1.PaddockNode { return []*v1alpha1.PaddockNode{node} },
		Pod: func(namespace, name string) *v1.Pod {
			if pod != nil && namespace == "default" && name == "a" {
				return pod
			}
			return nil
		},
		Evict: func(_ context.Context, e *policy.Eviction) error {
			if *e.DeleteOptions.Preconditions.UID != "u" {
				t.Errorf("the eviction is for UID %s", *e.DeleteOptions.Preconditions.UID)
			}
			if asked = append(asked, now.Sub(begin)); answer == nil {
				pod = nil // The informer can see the deletion before the answer arrives.
			}
			return answer
		},
		Note:  func(*v1.Pod, string) { notes++ },
		Count: func(outcome string) { counts[outcome]++ },
	}, time.Minute)
	for ; now.Sub(begin) <= 2*time.Minute; now = now.Add(10 * time.Second) {
		e.Pass(t.Context())
	}
	return asked, notes, counts
}

func TestPass(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p *v1.Pod)
		evicts bool
	}{
		"rejected":         {func(*v1.Pod) {}, true},
		"without sandbox":  {func(p *v1.Pod) { p.Status.Conditions = nil }, true},
		"admitted since":   {func(p *v1.Pod) { p.Status.Conditions[0].Status = v1.ConditionTrue }, false},
		"runs":             {func(p *v1.Pod) { p.Status.Phase = v1.PodRunning }, false},
		"no controller":    {func(p *v1.Pod) { p.OwnerReferences[0].Controller = nil }, false},
		"static":           {func(p *v1.Pod) { p.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "x"} }, false},
		"is being deleted": {func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{} }, false},
		"another pod":      {func(p *v1.Pod) { p.UID = "other" }, false},
		"elsewhere":        {func(p *v1.Pod) { p.Spec.NodeName = "m" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			pod := rejected()
			c.change(pod)
			asked, _, _ := run(t, pod, nil)
			if evicted := len(asked) > 0; c.evicts != evicted || evicted && asked[0] != time.Minute {
				t.Errorf("evicted after %v", asked)
			}
		})
	}
	if asked, _, _ := run(t, nil, nil); len(asked) > 0 {
		t.Errorf("a pod that is gone is evicted after %v", asked)
	}
}

// TestDelays checks that an eviction that is forbidden now, or that fails, is tried again without
// an event, after a time that doubles or that the API server specifies.
func TestDelays(t *testing.T) {
	for name, c := range map[string]struct {
		answer  error
		asked   []time.Duration
		outcome string
	}{
		"429":                  {apierrors.NewTooManyRequests("budget", 0), []time.Duration{60, 70, 90}, eviction.Delayed},
		"429 with Retry-After": {apierrors.NewTooManyRequests("budget", 30), []time.Duration{60, 90, 120}, eviction.Delayed},
		"an error":             {errors.New("away"), []time.Duration{60, 70, 90}, eviction.Failed},
	} {
		asked, notes, counts := run(t, rejected(), c.answer)
		for i := range c.asked {
			c.asked[i] *= time.Second
		}
		if !slices.Equal(asked, c.asked) || notes != 0 || counts[c.outcome] != len(c.asked) || len(counts) != 1 {
			t.Errorf("%s: asked after %v, want %v; %d events, %v", name, asked, c.asked, notes, counts)
		}
	}
	if _, notes, counts := run(t, rejected(), nil); notes != 1 || counts[eviction.Evicted] != 1 {
		t.Errorf("%d events, %v", notes, counts)
	}
}

// TestMany has a node that rejects more pods than it lists among its last rejections. It checks
// that each pod is evicted once, the longest waiting first, and no faster than the limit.
func TestMany(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pods := map[string]*v1.Pod{}
		for i := range rapid.IntRange(1, 60).Draw(t, "pods") {
			pod := rejected()
			pod.Name, pod.UID = fmt.Sprint("p", i), types.UID(fmt.Sprint(i))
			pods[pod.Name] = pod
		}
		names := slices.Sorted(maps.Keys(pods))
		node := &v1alpha1.PaddockNode{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
		begin := time.Unix(1000, 0)
		now := begin
		var evicted []time.Time
		e := eviction.New(eviction.World{
			Now:   func() time.Time { return now },
			Nodes: func() []*v1alpha1.PaddockNode { return []*v1alpha1.PaddockNode{node} },
			Pod:   func(_, name string) *v1.Pod { return pods[name] },
			Evict: func(_ context.Context, e *policy.Eviction) error {
				if pods[e.Name] == nil || pods[e.Name].Status.Phase != v1.PodPending {
					t.Fatalf("pod %s is evicted", e.Name)
				}
				delete(pods, e.Name)
				evicted = append(evicted, now)
				return nil
			},
			Note: func(*v1.Pod, string) {}, Count: func(string) {},
		}, time.Minute)
		running := 0
		for turn := 0; now.Sub(begin) <= 10*time.Minute; turn++ {
			node.Status.Rejections.Last = nil
			for i := range 10 { // The pods are tried in turn.
				name := names[(turn*10+i)%len(names)]
				if pod := pods[name]; pod != nil && pod.Status.Phase == v1.PodPending {
					node.Status.Rejections.Last = append(node.Status.Rejections.Last, v1alpha1.Rejection{Pod: "default/" + name, UID: string(pod.UID)})
				}
			}
			if name := rapid.SampledFrom(names).Draw(t, "admitted"); turn%5 == 0 && pods[name] != nil {
				pods[name].Status.Phase = v1.PodRunning
			}
			e.Pass(t.Context())
			now = now.Add(5 * time.Second)
		}
		for _, pod := range pods {
			if pod.Status.Phase == v1.PodPending {
				t.Fatalf("pod %s is not evicted", pod.Name)
			}
			running++
		}
		if len(evicted)+running != len(names) {
			t.Fatalf("%d of %d are evicted, %d run", len(evicted), len(names), running)
		}
		for i, at := range evicted {
			if at.Sub(begin) < time.Minute {
				t.Fatalf("evicted after %v", at.Sub(begin))
			}
			if i >= eviction.Burst {
				if over := at.Sub(evicted[i-eviction.Burst]).Seconds(); over == 0 {
					t.Fatalf("more than %d are evicted at once", eviction.Burst)
				}
			}
		}
	})
}
