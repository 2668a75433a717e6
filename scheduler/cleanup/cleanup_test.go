package cleanup_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/paddock-project/paddock/scheduler/cleanup"
)

// world is a cluster of Failed pods and a clock.
type world struct {
	now            time.Time
	pods           []*v1.Pod
	fails          map[string]error // by name
	notes, counted []string
	left           int
}

func (w *world) cleaner(c cleanup.Config) *cleanup.Cleaner {
	return cleanup.New(cleanup.World{
		Now:  func() time.Time { return w.now },
		Pods: func() []*v1.Pod { return w.pods },
		Delete: func(_ context.Context, namespace, name string, uid types.UID) error {
			if err := w.fails[name]; err != nil {
				return err
			}
			w.pods = slices.DeleteFunc(slices.Clone(w.pods), func(p *v1.Pod) bool { return p.Namespace == namespace && p.Name == name && p.UID == uid })
			return nil
		},
		Note: func(owner *v1.ObjectReference, text string) {
			w.notes = append(w.notes, owner.Kind+" "+owner.Name+": "+text)
		},
		Count: func(outcome string) { w.counted = append(w.counted, outcome) },
		Left:  func(pods int) { w.left = pods },
	}, c)
}

// add adds n pods of an owner that a kubelet rejected, each created a minute after the one before.
func (w *world) add(kind, owner string, n int, change ...func(*v1.Pod)) {
	version := "apps/v1"
	switch kind {
	case "Job":
		version = "batch/v1"
	case "ReplicationController":
		version = "v1"
	}
	for i := range n {
		name := fmt.Sprintf("%s-%d", owner, i)
		pod := &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(w.now.Add(time.Duration(i-n) * time.Minute)),
				OwnerReferences: []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: owner, UID: types.UID(owner), Controller: new(true)}},
			},
			Spec:   v1.PodSpec{NodeName: "n1"},
			Status: v1.PodStatus{Phase: v1.PodFailed, Reason: "TopologyAffinityError"},
		}
		for _, f := range change {
			f(pod)
		}
		w.pods = append(w.pods, pod)
	}
}

func (w *world) names() string {
	var names []string
	for _, p := range w.pods {
		names = append(names, p.Name)
	}
	return strings.Join(names, " ")
}

// TestDeletes checks that the oldest pods of a ReplicaSet are deleted, and the newest two stay.
func TestDeletes(t *testing.T) {
	w := &world{now: time.Unix(1e9, 0)}
	w.add("ReplicaSet", "web", 5)
	w.add("ReplicationController", "old", 3, func(p *v1.Pod) { p.Status.Reason = "SMTAlignmentError" })
	w.cleaner(cleanup.Config{After: time.Minute}).Pass(t.Context())
	if w.names() != "web-3 web-4 old-1 old-2" || w.left != 8 || len(w.counted) != 4 {
		t.Errorf("%s are left, of %d, counted %v", w.names(), w.left, w.counted)
	}
	want := "ReplicaSet web: deleted 3 Failed pods that kubelets rejected (TopologyAffinityError), such as web-0 of node n1; the newest 2 stay"
	if len(w.notes) != 2 || !slices.Contains(w.notes, want) {
		t.Errorf("events:\n%s", strings.Join(w.notes, "\n"))
	}
}

// TestKeeps checks which pods are never deleted.
func TestKeeps(t *testing.T) {
	for name, add := range map[string]func(w *world){
		"a Job counts failures": func(w *world) { w.add("Job", "x", 5) },
		"another controller":    func(w *world) { w.add("Workflow", "x", 5) },
		"no controller":         func(w *world) { w.add("ReplicaSet", "x", 5, func(p *v1.Pod) { p.OwnerReferences = nil }) },
		"an owner, no controller": func(w *world) {
			w.add("ReplicaSet", "x", 5, func(p *v1.Pod) { p.OwnerReferences[0].Controller = nil })
		},
		"static": func(w *world) {
			w.add("ReplicaSet", "x", 5, func(p *v1.Pod) { p.Annotations = map[string]string{"kubernetes.io/config.mirror": "h"} })
		},
		"another reason": func(w *world) { w.add("ReplicaSet", "x", 5, func(p *v1.Pod) { p.Status.Reason = "Evicted" }) },
		"runs":           func(w *world) { w.add("ReplicaSet", "x", 5, func(p *v1.Pod) { p.Status.Phase = v1.PodRunning }) },
		"only two":       func(w *world) { w.add("ReplicaSet", "x", 2) },
		"of two owners":  func(w *world) { w.add("ReplicaSet", "x", 2); w.add("ReplicaSet", "y", 2) },
		"young": func(w *world) {
			w.add("ReplicaSet", "x", 5, func(p *v1.Pod) { p.CreationTimestamp = metav1.NewTime(w.now) })
		},
		"is being deleted": func(w *world) {
			w.add("ReplicaSet", "x", 5, func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: w.now} })
		},
	} {
		w := &world{now: time.Unix(1e9, 0)}
		add(w)
		before := w.names()
		w.cleaner(cleanup.Config{After: time.Minute}).Pass(t.Context())
		if w.names() != before || len(w.notes)+len(w.counted) > 0 {
			t.Errorf("%s: %s are left of %s; %v %v", name, w.names(), before, w.notes, w.counted)
		}
	}
}

// TestDryRun checks that a dry run reports each pod once, and deletes none.
func TestDryRun(t *testing.T) {
	w := &world{now: time.Unix(1e9, 0)}
	w.add("ReplicaSet", "web", 5)
	c := w.cleaner(cleanup.Config{After: time.Minute, DryRun: true})
	c.Pass(t.Context())
	c.Pass(t.Context())
	if len(w.pods) != 5 || strings.Join(w.counted, " ") != "found found found" || len(w.notes) != 1 || !strings.Contains(w.notes[0], "would delete (dry run) 3 Failed pods") {
		t.Errorf("%d pods, counted %v, events %v", len(w.pods), w.counted, w.notes)
	}
}

// TestLimit checks that hundreds of pods are deleted little by little, the oldest first.
func TestLimit(t *testing.T) {
	w := &world{now: time.Unix(1e9, 0)}
	w.add("ReplicaSet", "web", 300)
	c := w.cleaner(cleanup.Config{After: time.Minute})
	c.Pass(t.Context())
	if len(w.pods) != 300-cleanup.Burst || w.pods[0].Name != "web-20" {
		t.Errorf("%d pods after the first pass, the oldest is %s", len(w.pods), w.pods[0].Name)
	}
	for range 10 {
		w.now = w.now.Add(10 * time.Second)
		c.Pass(t.Context())
	}
	if want := 300 - cleanup.Burst - 100*cleanup.Rate; len(w.pods) != want {
		t.Errorf("%d pods after 100 s more, want %d", len(w.pods), want)
	}
}

// TestFailures checks that a pod that is gone is nothing to report, and that other errors are
// counted and tried again.
func TestFailures(t *testing.T) {
	w := &world{now: time.Unix(1e9, 0), fails: map[string]error{
		"web-0": apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "web-0"),
		"web-1": apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "web-1", errors.New("another UID")),
		"web-2": errors.New("the API server is away"),
	}}
	w.add("ReplicaSet", "web", 6)
	c := w.cleaner(cleanup.Config{After: time.Minute})
	c.Pass(t.Context())
	if strings.Join(w.counted, " ") != "failed deleted" || len(w.notes) != 1 {
		t.Errorf("counted %v, events %v", w.counted, w.notes)
	}
	w.fails = nil
	w.now = w.now.Add(time.Minute)
	c.Pass(t.Context())
	if w.names() != "web-4 web-5" {
		t.Errorf("%s are left", w.names())
	}
}

// TestProtected checks that pods whose deletion always fails do not keep others from being deleted,
// and that the newest two that stay are not being deleted.
func TestProtected(t *testing.T) {
	w := &world{now: time.Unix(1e9, 0), fails: map[string]error{}}
	w.add("ReplicaSet", "protected", 2*cleanup.Burst)
	for _, p := range w.pods {
		w.fails[p.Name] = errors.New("denied by a webhook")
	}
	w.now = w.now.Add(time.Hour)
	w.add("ReplicaSet", "web", 5)
	for i := range w.pods {
		if p := w.pods[i]; p.Name == "web-4" {
			p.DeletionTimestamp = &metav1.Time{Time: w.now}
		}
	}
	c := w.cleaner(cleanup.Config{After: time.Minute})
	for range 30 {
		w.now = w.now.Add(5 * time.Second)
		c.Pass(t.Context())
	}
	if names := w.names(); !strings.HasSuffix(names, " web-2 web-3 web-4") || strings.Contains(names, "web-1") || len(w.pods) != 2*cleanup.Burst+3 {
		t.Errorf("%s are left", names)
	}
}

// BenchmarkPass looks at Failed pods of which none is due.
func BenchmarkPass(b *testing.B) {
	for _, n := range []int{10, 1000, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := &world{now: time.Unix(1e9, 0)}
			for i := range n / 2 {
				w.add("ReplicaSet", fmt.Sprint("web-", i), 2)
			}
			c := w.cleaner(cleanup.Config{After: time.Minute})
			for b.Loop() {
				c.Pass(b.Context())
			}
		})
	}
}
