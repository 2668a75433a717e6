package kueue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/paddock-project/paddock/scheduler/cluster"
)

const (
	keeps = ". This is a prediction, which keeps their places from other workloads of Kueue for 2m0s"
	onOne = "1 pod(s) fit together on 1 node(s)" + keeps
)

// TestJudge checks the answers about workloads on two nodes in one rack and one in another. n1 has
// 5 of 7 CPUs on NUMA node 0 in use, and 5 of 8 on NUMA node 1.
func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		sets []set
		want string
	}{
		"fits anywhere":  {[]set{{name: "main", count: 4, cpus: 7}}, "Ready: 4 pod(s) fit together on 2 node(s)" + keeps},
		"fits the nodes": {[]set{{name: "main", count: 3, cpus: 7, on: map[string]int64{"n2": 2, "n3": 1}}}, "Ready: 3 pod(s) fit together on 2 node(s)" + keeps},
		"the sum fits the node, a NUMA node not": {
			[]set{{name: "main", count: 1, cpus: 4, on: map[string]int64{"n1": 1}}},
			"Retry: 0 of 1 pods of pod set main fit on node n1, and the next one does not: TopologyAffinityError: 4 CPUs wanted, but no single NUMA node has that much free; " +
				"NUMA node 0: 2 free of 7; NUMA node 1: 3 free of 8",
		},
		"two pod sets together": {
			[]set{{name: "leader", count: 1, cpus: 7}, {name: "workers", count: 4, cpus: 7}},
			"Retry: 3 of 4 pods of pod set workers fit, and the next one does not: 3 node(s): insufficient cpu; the nearest is node n1: insufficient cpu",
		},
		"a rack":             {[]set{{name: "main", count: 2, cpus: 7, rack: "r1"}}, "Ready: 2 pod(s) fit together on 1 node(s)" + keeps},
		"a rack is too full": {[]set{{name: "main", count: 3, cpus: 7, rack: "r1"}}, "Retry: 2 of 3 pods of pod set main in r1 fit, and the next one does not: 2 node(s): insufficient cpu; 1 node(s): node selector, affinity or taints; the nearest is node n1: insufficient cpu"},
		"an unknown node":    {[]set{{name: "main", count: 1, cpus: 1, on: map[string]int64{"n9": 1}}}, "Retry: 0 of 1 pods of pod set main fit on node n9, and the next one does not: there is no node n9"},
		"a node selector":    {[]set{{name: "main", count: 1, cpus: 1, selector: map[string]any{"rack": "r9"}}}, "Retry: 0 of 1 pods of pod set main fit, and the next one does not: 3 node(s): node selector, affinity or taints; no node that it may run on has more"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3)
			w.bind("n1", "a", 5, "", "")
			w.bind("n1", "b", 5, "", "")
			w.add("job", c.sets...)
			w.checker().Pass(t.Context())
			if state, message := w.check("job"); state+": "+message != c.want {
				t.Errorf("got  %s: %s\nwant %s", state, message, c.want)
			}
			if !w.active {
				t.Error("the check is not active")
			}
		})
	}
}

// TestRetryBacksOff checks the time after which Kueue is to try again, the event, and that a
// workload that comes back before that waits.
func TestRetryBacksOff(t *testing.T) {
	w := newWorld(t, 1)
	o := w.add("job", set{name: "main", count: 1, cpus: 9})
	checker := w.checker()
	var after []int64
	for range 7 {
		checker.Pass(t.Context())
		checks, _, _ := unstructured.NestedSlice(o.Object, "status", "admissionChecks")
		fields, _ := checks[0].(map[string]any)
		seconds, _ := fields["requeueAfterSeconds"].(float64)
		after = append(after, int64(seconds))
		fields["state"], fields["retryCount"] = Pending, int64(len(after)) // As Kueue does after an eviction.
		w.set(o, checks, "status", "admissionChecks")
		w.now = w.now.Add(time.Duration(seconds)*time.Second - time.Second)
		checker.Pass(t.Context())
		if state, _ := w.check("job"); state != Pending {
			t.Fatalf("try %d: judged before its time: %s", len(after), state)
		}
		w.now = w.now.Add(time.Second)
	}
	if got, want := fmt.Sprint(after), "[30 60 120 240 240 240 240]"; got != want {
		t.Errorf("times %s, want %s", got, want)
	}
	if len(w.notes) != 7 || !strings.HasSuffix(w.notes[0], "It would not fit there without other pods either") {
		t.Errorf("events %q", w.notes)
	}
}

// TestActivateBacksOff checks the times between the tries to mark a check as active, that workloads
// are judged meanwhile, and that a check that was active since then is marked at once.
func TestActivateBacksOff(t *testing.T) {
	w := newWorld(t, 1)
	w.inactive = errors.New("admissionchecks.kueue.x-k8s.io is forbidden")
	w.add("job", set{name: "main", count: 1, cpus: 1})
	checker := w.checker()
	var seconds []int
	for last, begun := 0, w.now; w.now.Sub(begun) < 4*time.Minute; w.now = w.now.Add(Period) {
		checker.Pass(t.Context())
		if w.activations != last {
			last = w.activations
			seconds = append(seconds, int(w.now.Sub(begun).Seconds()))
		}
	}
	if got, want := fmt.Sprint(seconds), "[0 2 6 14 30 62 122 182]"; got != want {
		t.Errorf("tries after %s seconds, want %s", got, want)
	}
	if state, _ := w.check("job"); state != Ready {
		t.Errorf("the workload is %s, want it to be judged", state)
	}
	w.active = true
	checker.Pass(t.Context())
	before := w.activations
	w.active, w.inactive = false, nil
	checker.Pass(t.Context())
	if w.activations != before+1 || !w.active {
		t.Errorf("%d tries after the check was active, want 1", w.activations-before)
	}
}

// TestKeepsPlaces checks that two workloads are not promised the same place: not in the same pass,
// nor later, nor by a process that takes over. A place is free when its time is over, or when the
// workload has ended, and bound pods count once.
func TestKeepsPlaces(t *testing.T) {
	w := newWorld(t, 1)
	full := set{name: "main", count: 2, cpus: 7}
	w.add("first", full)
	w.add("second", full)
	checker := w.checker()
	expect := func(when, name, want string) {
		t.Helper()
		checker.Pass(t.Context())
		if state, message := w.check(name); state != want {
			t.Fatalf("%s: %s is %s (%s), want %s", when, name, state, message, want)
		}
	}
	reset := func(name string) {
		w.add(name, full)
		w.workloads[name].SetUID("another")
		checker.tries = map[types.UID]try{}
	}
	expect("at once", "first", Ready)
	expect("at once", "second", Retry)
	reset("second")
	expect("later", "second", Retry)
	checker = w.checker()
	reset("second")
	expect("another process", "second", Retry)
	w.bind("n1", "first-0", 7, "first", "main")
	w.add("small", set{name: "main", count: 1, cpus: 1})
	expect("one pod of two is bound", "small", Ready)
	w.now = w.now.Add(KeepFor)
	w.add("third", set{name: "main", count: 1, cpus: 7})
	expect("after its time", "third", Ready)
	w.set(w.workloads["third"], []any{map[string]any{"type": "QuotaReserved", "status": "True"}, map[string]any{"type": "Finished", "status": "True"}}, "status", "conditions")
	w.add("fourth", set{name: "main", count: 1, cpus: 7})
	expect("after another has ended", "fourth", Ready)
}

// TestWaits checks which workloads are not judged.
func TestWaits(t *testing.T) {
	condition := func(w *world, o *unstructured.Unstructured, kind, status string) {
		w.set(o, []any{map[string]any{"type": "QuotaReserved", "status": "True"}, map[string]any{"type": kind, "status": status}}, "status", "conditions")
	}
	other := func(w *world, o *unstructured.Unstructured, state string) {
		checks, _, _ := unstructured.NestedSlice(o.Object, "status", "admissionChecks")
		w.set(o, append(checks, map[string]any{"name": "other", "state": state}), "status", "admissionChecks")
	}
	for name, c := range map[string]struct {
		change func(w *world, o *unstructured.Unstructured)
		want   string
	}{
		"no quota": {func(w *world, o *unstructured.Unstructured) { condition(w, o, "QuotaReserved", "False") }, Pending},
		"no admission": {func(w *world, o *unstructured.Unstructured) {
			unstructured.RemoveNestedField(o.Object, "status", "admission")
		}, Pending},
		"evicted":          {func(w *world, o *unstructured.Unstructured) { condition(w, o, "Evicted", "True") }, Pending},
		"finished":         {func(w *world, o *unstructured.Unstructured) { condition(w, o, "Finished", "True") }, Pending},
		"inactive":         {func(w *world, o *unstructured.Unstructured) { w.set(o, false, "spec", "active") }, Pending},
		"another is first": {func(w *world, o *unstructured.Unstructured) { other(w, o, Pending) }, Pending},
		"another was":      {func(w *world, o *unstructured.Unstructured) { other(w, o, Ready) }, Ready},
		"was evicted once": {func(w *world, o *unstructured.Unstructured) { condition(w, o, "Evicted", "False") }, Ready},
		"another check": {func(w *world, o *unstructured.Unstructured) {
			w.set(o, []any{map[string]any{"name": "other", "state": Pending}}, "status", "admissionChecks")
		}, Pending},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			c.change(w, w.add("job", set{name: "main", count: 1, cpus: 1}))
			w.checker().Pass(t.Context())
			if state, _ := w.check("job"); state != c.want {
				t.Errorf("the state is %s, want %s", state, c.want)
			}
		})
	}
}

// TestOtherNodes checks nodes whose planner cannot be asked.
func TestOtherNodes(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world)
		want   string
	}{
		"no objects": {func(w *world) { w.at = map[string]*cluster.At{} }, "Ready: 1 pod(s) fit together on 1 node(s)" + keeps + "; for 1 of them only sums were compared, because Paddock does not know what their nodes decide"},
		"unsure":     {func(w *world) { w.at["n1"] = &cluster.At{Unsure: "no agent"} }, "Ready: 1 pod(s) fit together on 1 node(s)" + keeps + "; for 1 of them only sums were compared, because Paddock does not know what their nodes decide"},
		"awaited": {func(w *world) {
			w.at, w.nodes[0].Labels["awaited"] = map[string]*cluster.At{}, "yes"
		}, "Retry: 0 of 1 pods of pod set main fit on node n1, and the next one does not: its agent has not published a PaddockNode yet"},
		"a problem": {func(w *world) { w.at["n1"] = &cluster.At{Problem: "its agent is not ready"} }, "Retry: 0 of 1 pods of pod set main fit on node n1, and the next one does not: its agent is not ready"},
		"cordoned":  {func(w *world) { w.nodes[0].Spec.Unschedulable = true }, "Retry: 0 of 1 pods of pod set main fit on node n1, and the next one does not: they may not run there (node selector, affinity or taints)"},
		"gone":      {func(w *world) { w.nodes, w.at = nil, nil }, "Retry: 0 of 1 pods of pod set main fit on node n1, and the next one does not: there is no node n1"},
		"a flavor":  {func(w *world) { w.flavors["default"].NodeLabels = map[string]string{"gpu": "a100"} }, "Retry: 0 of 1 pods of pod set main fit on node n1, and the next one does not: they may not run there (node selector, affinity or taints)"},
		"no flavor": {func(w *world) { w.flavors = nil }, `Ready: Not judged: pod set "main": there is no ResourceFlavor "default"`},
		"nothing":   {func(*world) {}, "Ready: " + onOne},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			c.change(w)
			w.add("job", set{name: "main", count: 1, cpus: 4, on: map[string]int64{"n1": 1}})
			w.checker().Pass(t.Context())
			if state, message := w.check("job"); state+": "+message != c.want {
				t.Errorf("got  %s: %s\nwant %s", state, message, c.want)
			}
		})
	}
}

// TestWrites checks conflicts, workloads that are deleted meanwhile, errors, an informer that is
// late, and passes that take long.
func TestWrites(t *testing.T) {
	w := newWorld(t, 1)
	o := w.add("job", set{name: "main", count: 1, cpus: 1})
	checker := w.checker()
	w.stale["job"] = Read(o.DeepCopy())
	w.set(o, int64(7), "spec", "priority")
	checker.Pass(t.Context())
	delete(w.workloads, "job")
	w.workloads["job"] = nil
	checker.Pass(t.Context())
	w.workloads["job"], w.failing = o, errors.New("no")
	checker.Pass(t.Context())
	w.failing = nil
	delete(w.stale, "job")
	late := Read(o.DeepCopy())
	checker.Pass(t.Context())
	w.stale["job"] = late
	checker.Pass(t.Context())
	if got := fmt.Sprint(w.outcomes); got != "map[conflict:2 failed:1 ready:1]" {
		t.Errorf("outcomes %s", got)
	}
	if len(checker.kept) != 1 {
		t.Error("the place is not kept while the informer is late")
	}
	w = newWorld(t, 1)
	w.each = MaxPass / 2
	for i := range 5 {
		w.add(fmt.Sprint("job", i), set{name: "main", count: 1, cpus: 1})
	}
	checker = w.checker()
	checker.Pass(t.Context())
	if w.outcomes[Accepted] != 2 || w.left != 3 {
		t.Errorf("%d are judged and %d left, want 2 and 3", w.outcomes[Accepted], w.left)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	checker.Pass(ctx)
	if w.outcomes[Accepted] != 2 {
		t.Error("a pass goes on after its end")
	}
}
