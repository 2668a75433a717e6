package kueue

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/answered.json")

// TestKueue reads workloads that test/kueue makes with Kueue's own types, in both versions of its
// API, and records the answers, which test/kueue gives to Kueue.
func TestKueue(t *testing.T) {
	data, err := os.ReadFile("../../test/kueue/testdata/workloads.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]struct {
		Domains map[string]int64
		Object  json.RawMessage
	}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	type answered struct {
		State  string
		After  int
		Object map[string]any
	}
	out := map[string]answered{}
	for name, of := range all {
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(of.Object); err != nil {
			t.Fatal(err)
		}
		w := Read(o)
		if w.Flaw != "" || !w.Quota || len(w.PodSets) != 1 || len(w.Checks) != 2 || w.Checks[0].Retries != 1 {
			t.Fatalf("%s: read as %+v", name, w)
		}
		domains := map[string]int64{}
		for _, d := range w.PodSets[0].Domains {
			domains[fmt.Sprint(d.Values)] = d.Count
		}
		if !maps.Equal(domains, of.Domains) {
			t.Errorf("%s: domains %v, want %v", name, domains, of.Domains)
		}
		for _, a := range []Answer{{State: Ready, Message: "They fit."}, {State: Retry, Message: "They do not fit.", After: time.Minute}} {
			patch, err := w.Patch(map[string]bool{"fleet": true}, a, time.Unix(1e9+60, 0))
			if err != nil {
				t.Fatal(err)
			}
			var p struct {
				Status struct{ AdmissionChecks []any }
			}
			if err := json.Unmarshal(patch, &p); err != nil {
				t.Fatal(err)
			}
			changed := o.DeepCopy()
			if err := unstructured.SetNestedField(changed.Object, p.Status.AdmissionChecks, "status", "admissionChecks"); err != nil {
				t.Fatal(err)
			}
			out[a.State+": "+name] = answered{State: a.State, After: int(a.After / time.Second), Object: changed.Object}
		}
	}
	compare(t, out)
}

func compare(t *testing.T, out any) {
	t.Helper()
	const file = "testdata/answered.json"
	got, err := json.MarshalIndent(out, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	if *rewrite {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s differs (%v): read the diff after go test ./kueue -run TestKueue -rewrite, and run make kueue-check", file, err)
	}
}
