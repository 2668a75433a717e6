package kueue

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// first returns the first element of a list of objects.
func first(list any) map[string]any {
	all, _ := list.([]any)
	fields, _ := all[0].(map[string]any)
	return fields
}

// TestBadWorkloads checks that a workload that cannot be judged is Ready with the reason, and that
// one that is only large is judged.
func TestBadWorkloads(t *testing.T) {
	podSet := func(o *unstructured.Unstructured) map[string]any {
		sets, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "podSets")
		return first(sets)
	}
	assigned := func(o *unstructured.Unstructured) map[string]any {
		all, _, _ := unstructured.NestedFieldNoCopy(o.Object, "status", "admission", "podSetAssignments")
		return first(all)
	}
	topology := func(o *unstructured.Unstructured) map[string]any {
		slices := assigned(o)["topologyAssignment"].(map[string]any)["slices"]
		return slices.([]any)[0].(map[string]any)
	}
	for name, c := range map[string]struct {
		change func(o *unstructured.Unstructured)
		want   string
	}{
		"negative count":     {func(o *unstructured.Unstructured) { assigned(o)["count"] = int64(-3) }, `pod set "main": -3 pods`},
		"no assignment":      {func(o *unstructured.Unstructured) { assigned(o)["name"] = "other" }, `pod set "main": its admission has no assignment for it`},
		"no template":        {func(o *unstructured.Unstructured) { delete(podSet(o), "template") }, `pod set "main": its template has no containers`},
		"a template, a text": {func(o *unstructured.Unstructured) { podSet(o)["template"] = "x" }, "it is not a workload of a known form"},
		"no pod sets":        {func(o *unstructured.Unstructured) { unstructured.RemoveNestedField(o.Object, "spec", "podSets") }, "it has no pod sets"},
		"no levels": {func(o *unstructured.Unstructured) {
			assigned(o)["topologyAssignment"].(map[string]any)["levels"] = []any{}
		}, "its topology assignment has no levels"},
		"no slices": {func(o *unstructured.Unstructured) {
			delete(assigned(o)["topologyAssignment"].(map[string]any), "slices")
		}, "its domains have 0 pods, and the pod set has 1"},
		"no counts":      {func(o *unstructured.Unstructured) { delete(topology(o), "podCounts") }, errDomains.Error()},
		"no values":      {func(o *unstructured.Unstructured) { topology(o)["valuesPerLevel"] = []any{map[string]any{}} }, errDomains.Error()},
		"too few levels": {func(o *unstructured.Unstructured) { topology(o)["valuesPerLevel"] = []any{} }, errDomains.Error()},
		"domains of nobody": {func(o *unstructured.Unstructured) {
			topology(o)["domainCount"], topology(o)["podCounts"] = int64(math.MaxInt32), map[string]any{"universal": int64(0)}
		}, "its domains have another number of pods"},
		"too many domains": {func(o *unstructured.Unstructured) {
			assigned(o)["count"], topology(o)["domainCount"] = int64(math.MaxInt32), int64(math.MaxInt32)
			topology(o)["valuesPerLevel"] = []any{map[string]any{"universal": "n1"}}
		}, "it has more than 100000 domains"},
		"too many pods": {func(o *unstructured.Unstructured) {
			delete(assigned(o), "topologyAssignment")
			assigned(o)["count"] = int64(math.MaxInt64)
		}, "and at most 50000 are judged"},
		"a topology that comes later": {func(o *unstructured.Unstructured) {
			delete(assigned(o), "topologyAssignment")
			assigned(o)["delayedTopologyRequest"] = Pending
		}, "Kueue assigns its topology after the admission checks"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			c.change(w.add("job", set{name: "main", count: 1, cpus: 1, on: map[string]int64{"n1": 1}}))
			w.checker().Pass(t.Context())
			if state, message := w.check("job"); state != Ready || !strings.HasPrefix(message, "Not judged: ") || !strings.Contains(message, c.want) || w.outcomes[Unjudged] != 1 {
				t.Errorf("%s: %s, want %s", state, message, c.want)
			}
		})
	}
	w := newWorld(t, 10)
	var sets []set
	for i := range 1000 {
		sets = append(sets, set{name: fmt.Sprint("s", i), count: 1, cpus: 1})
	}
	w.add("many", sets...)
	w.checker().Pass(t.Context())
	if state, message := w.check("many"); state != Retry || !strings.HasPrefix(message, "0 of 1 pods of pod set s150 fit") {
		t.Errorf("1,000 pod sets on 150 CPUs: %s: %s", state, message)
	}
}

// FuzzRead checks that no object makes Read or Patch panic, and that what is read can be written.
func FuzzRead(f *testing.F) {
	w := newWorld(f, 1)
	o := w.add("job", set{name: "main", count: 3, cpus: 1, on: map[string]int64{"n1": 1, "n2": 2}})
	data, err := o.MarshalJSON()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"kind": "Workload", "status": {"admissionChecks": [null]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		o := &unstructured.Unstructured{}
		if o.UnmarshalJSON(data) != nil {
			return
		}
		l := Read(o)
		if _, err := l.Patch(map[string]bool{"fleet": true}, Answer{State: Ready}, w.now); err != nil {
			t.Errorf("what was read cannot be written: %v", err)
		}
	})
}

// TestShortened checks that a message is cut between characters.
func TestShortened(t *testing.T) {
	for _, c := range []struct{ text, want string }{{"short", "short"}, {"12345678", "12345678"}, {"123456789", "12345…"}, {"1234ä6789", "1234…"}} {
		if got := Shortened(c.text, 8); got != c.want {
			t.Errorf("%q becomes %q, want %q", c.text, got, c.want)
		}
	}
}
