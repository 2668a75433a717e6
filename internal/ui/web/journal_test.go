package web

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/codec/journal"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/engine"
)

// restart returns the rig with a new web that has the encoded journal of the one before.
func (r *rig) restart() *rig {
	r.t.Helper()
	before, _ := r.web.Journal()
	data, err := journal.Encode(before)
	if err != nil {
		r.t.Fatal(err)
	}
	j, err := journal.Decode(data)
	if err != nil {
		r.t.Fatal(err)
	}
	next := &rig{t: r.t, engine: r.engine, web: New(r.web.config)}
	next.web.Restore(j, r.engine.State())
	after, edition := next.web.Journal()
	sorted := cmpopts.SortSlices(func(a, b journal.Admission) bool { return a.UID < b.UID })
	if diff := cmp.Diff(before, after, sorted, cmpopts.EquateEmpty(), cmpopts.EquateApproxTime(0)); diff != "" || edition != 0 {
		r.t.Errorf("after a restart, in edition %d:\n%s", edition, diff)
	}
	return next
}

// TestExplainAfterARestart checks that everything that was known of each pod is still known, with
// its time, and that the steps of the decision are reported as unknown.
func TestExplainAfterARestart(t *testing.T) {
	r := newRig(t)
	r.admit("a", 3)
	r.admit("large", 6)
	r.admit("large", 6)
	r.disk.broken.Store(true)
	r.admit("unlucky", 1)
	r.disk.broken.Store(false)
	then := map[string]Explained{}
	for _, name := range []string{"a", "large", "unlucky"} {
		then[name] = r.explained("default/" + name)
	}
	shown := read[[]Rejected](r, "/api/rejections")
	r = r.restart()
	a := r.explained("default/a")
	if !a.Assigned || !a.DecisionUnknown || a.Since == nil || !a.Since.Equal(*then["a"].Since) {
		t.Errorf("since %v, want %v", a.Since, then["a"].Since)
	}
	a.stands(t, "since "+stamp(*a.Since)+", revision 1, before this agent started: CPUs 0-2", "is no longer known")
	if p := read[Pod](r, "/api/pods/uid-a"); p.Since == nil || !p.Since.Equal(*a.Since) || !p.DecisionUnknown {
		t.Errorf("the page: %+v", p)
	}

	large := r.explained("default/large")
	if diff := cmp.Diff(then["large"].Rejected, large.Rejected, cmpopts.EquateApproxTime(0)); diff != "" || large.Remedies == nil {
		t.Errorf("%v\n%s", large.Remedies, diff)
	}
	large.stands(t, "rejected 2 times since "+stamp(large.Rejected.First), ", before this agent started")
	unlucky := r.explained("default/unlucky")
	unlucky.stands(t, "no space left on device", ", before this agent started")

	again := read[[]Rejected](r, "/api/rejections")
	if diff := cmp.Diff(shown, again, cmpopts.EquateApproxTime(0), cmpopts.IgnoreFields(Rejected{}, "Explanation")); diff != "" {
		t.Error(diff)
	}
	for i, n := range again {
		if n.Rejection != nil && (!strings.Contains(n.Explanation, "decided before the agent was restarted") || !strings.Contains(n.Explanation, "default/a 3")) {
			t.Errorf("entry %d has no account:\n%s", i, n.Explanation)
		}
	}
}

// TestRejectedAgainAfterARestart checks that the count, the time of the first rejection and the
// numbers continue, and that the steps of the decision are known again. A pod that fits by now
// would be admitted.
func TestRejectedAgainAfterARestart(t *testing.T) {
	r := newRig(t)
	r.admit("a", 3)
	r.admit("large", 6)
	r.admit("late", 6)
	first := r.explained("default/large").Rejected
	old := r
	r = r.restart()
	plan := r.engine.State().Plan(pod("large", 6))
	r.web.Decided(engine.Decision{Plan: plan, Base: r.engine.State()})
	large := r.explained("default/large")
	if large.Rejected.Times != 2 || !large.Rejected.First.Equal(first.First) || large.Rejected.Number != 3 || strings.Contains(strings.Join(large.Standing, "\n"), "before this agent") {
		t.Errorf("%+v, %q, after %+v", large.Rejected, large.Standing, first)
	}
	if text := read[[]Rejected](r, "/api/rejections")[0].Explanation; strings.Contains(text, "restarted") {
		t.Errorf("the new decision is shown as the one before:\n%s", text)
	}
	old.release("a")
	late := r.explained("default/late")
	if !late.WouldAdmit || late.Answer.Rejection == nil || late.Answer.Admitted || late.Assigned {
		t.Errorf("%+v", late)
	}
	text := late.Text(terminal.Style{}, true)
	for _, want := range []string{"rejected default/late: ", decidedBefore, "it would be admitted: CPUs 0-5 on NUMA 0-1"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing:\n%s", want, text)
		}
	}
}

// TestRestoreLeavesOutWhatIsGone checks that admissions of pods that are gone, or that have another
// grant, are left out.
func TestRestoreLeavesOutWhatIsGone(t *testing.T) {
	r := newRig(t)
	r.admit("a", 1)
	r.admit("b", 1)
	j, _ := r.web.Journal()
	r.release("a")
	r.release("b")
	r.admit("b", 1)
	next := New(r.web.config)
	next.Restore(j, r.engine.State())
	if j, _ := next.Journal(); len(j.Admissions) != 0 {
		t.Errorf("kept %v", j.Admissions)
	}
}

// TestEdited checks that every change of the journal is signalled, and nothing else.
func TestEdited(t *testing.T) {
	r := newRig(t)
	told := func() bool {
		select {
		case <-r.web.Edited():
			return true
		default:
			return false
		}
	}
	for _, step := range []struct {
		name string
		do   func()
		want bool
	}{
		{"nothing", func() {}, false},
		{"an admission", func() { r.admit("a", 1) }, true},
		{"the same pod again", func() { r.admit("a", 1) }, false},
		{"a rejection", func() { r.admit("large", 9) }, true},
		{"a release", func() { r.release("a") }, true},
		{"the release of a pod that is not there", func() { r.web.Released("uid-x") }, false},
	} {
		_, before := r.web.Journal()
		step.do()
		if _, after := r.web.Journal(); told() != step.want || (after != before) != step.want {
			t.Errorf("%s: edition %d after %d, want a change: %v", step.name, after, before, step.want)
		}
	}
}

// FuzzRestore checks that for every file that can be decoded, the pages and explanations are served
// and the next journal can be written.
func FuzzRestore(f *testing.F) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	odd := pod("odd", 1<<40)
	odd.Kind, odd.Containers[0].Type = request.PodLevel, request.Init
	odd.Containers[0].Memory = request.Amounts{{Resource: "memory", Value: 1 << 62}, {Resource: "x", Value: 1 << 62}}
	odd.Containers = append(odd.Containers, odd.Containers[0], odd.Containers[0])
	for _, p := range []request.Pod{pod("plain", 3), odd} {
		j := journal.Journal{
			Rejections: []journal.Rejection{{Number: 1, Pod: p, Error: "e", First: at, Last: at, Times: 1}},
			Admissions: []journal.Admission{{UID: "uid-a", At: at, Revision: 1}},
		}
		data, err := journal.Encode(j)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		j, err := journal.Decode(data)
		if err != nil {
			if !errors.Is(err, journal.ErrDamaged) && !errors.Is(err, journal.ErrNewer) {
				t.Fatal(err)
			}
			return
		}
		r := newRig(t)
		r.admit("a", 1)
		r.web = New(r.web.config)
		r.web.Restore(j, r.engine.State())
		r.web.serveAll(t)
		kept, _ := r.web.Journal()
		if _, err := journal.Encode(kept); err != nil {
			t.Fatal(err)
		}
	})
}

// serveAll requests everything that is made from a journal, without searches.
func (w *Web) serveAll(t *testing.T) {
	t.Helper()
	r := &rig{t: t, web: w}
	for _, path := range []string{"/api/rejections", "/api/history", "/api/pods/uid-a", "/api/explain?pod=default/a"} {
		if answer := r.get(path); answer.Code != http.StatusOK {
			t.Fatalf("%s: %d", path, answer.Code)
		}
	}
	for _, n := range w.rejections.list {
		w.config.Snapshot().State.Plan(n.pod)
	}
}

// TestUnknownDevices checks that the account of a pod names the devices that are not known, why,
// and what to do, whether it was admitted or rejected, on the page and in the answer, also after a
// restart.
func TestUnknownDevices(t *testing.T) {
	r := newRig(t)
	for name, cpus := range map[string]int{"a": 2, "large": 9} {
		p := pod(name, cpus)
		p.DevicesUnknown, p.Containers[0].Claims = "no answer within 1s", []string{"train"}
		p.Containers[0].Given = []request.Given{{Resource: "example.com/nic", Name: "nic0"}}
		if _, err := r.engine.Admit(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"the devices of claim train (container c) are not known: no answer within 1s. CPUs and memory are not aligned with them. When the cause is gone, create the pod again",
		"device nic0 of example.com/nic (container c): the NUMA node is not known, so CPUs and memory are not aligned with it. The device plugin has to report it",
	}
	for _, when := range []string{"at once", "after a restart"} {
		for _, name := range []string{"a", "large"} {
			if diff := cmp.Diff(want, r.explained("default/"+name).Answer.Notes); diff != "" {
				t.Errorf("%s, %s:\n%s", name, when, diff)
			}
		}
		if diff := cmp.Diff(want, read[Pod](r, "/api/pods/uid-a").Notes); diff != "" {
			t.Errorf("the page, %s:\n%s", when, diff)
		}
		for _, n := range read[[]Rejected](r, "/api/rejections") {
			if !strings.Contains(strings.Join(strings.Fields(n.Explanation), " "), "note "+want[0]) {
				t.Errorf("the rejection, %s:\n%s", when, n.Explanation)
			}
		}
		r = r.restart()
	}
}
