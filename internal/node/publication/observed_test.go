package publication_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/node/publication"
)

// TestObserved checks what is published of a kubelet that decides: who it is, what its files have
// beside the grants, and how surely. The policy and its digest are those of a managed node.
func TestObserved(t *testing.T) {
	w := newWorld(t)
	w.round(0)
	managed := w.object().Status
	w.admit(exclusive("a", 2))
	w.view = publication.View{
		State:    w.view.State.As(node.Behavior{AdmitsAgain: true}).Found(cpuset.Of(0, 1, 4, 5, 6), nil),
		Observed: &publication.Observed{Version: "1.36.4"},
	}
	if n := w.round(time.Second); n != 1 {
		t.Errorf("%d writes for another manager, want one", n)
	}
	s := w.object().Status
	if d := s.DecidedBy; d == nil || d.Manager != "kubelet" || d.Version != "1.36.4" || d.SharedCPUs != "0-1,4-6" || len(d.RulesDigest) != 64 {
		t.Errorf("decided by %+v", s.DecidedBy)
	}
	if s.PolicyDigest != managed.PolicyDigest || len(s.Grants) != 1 || s.Summary.Policy != "kubelet 1.36.4: restricted, container" || s.Summary.FreeCPUs != "0:4" {
		t.Errorf("digest %s, before %s, %d grants, summary %+v", s.PolicyDigest, managed.PolicyDigest, len(s.Grants), s.Summary)
	}
	// The same answers as text, number, condition and summary.
	state := w.view.State
	for _, c := range []struct {
		o       publication.Observed
		answer  string
		pending int32
		status  metav1.ConditionStatus
		reason  string
		message string
	}{
		{publication.Observed{Version: "1.36.4"}, "exact", 0, metav1.ConditionTrue, "Exact", ""},
		{publication.Observed{Version: "1.36.4", Waiting: []string{"default/b", "default/c"}}, "pending", 2, metav1.ConditionFalse, "Pending", "2 pods, such as default/b"},
		{publication.Observed{Version: "1.36.4", Waiting: []string{"default/b"}, Doubts: []string{"why"}}, "unsure", 1, metav1.ConditionFalse, "Unsure", "why"},
		{publication.Observed{Version: "1.36.4", Doubts: strings.Split(strings.Repeat("x"+strings.Repeat("y", 600)+" ", 20), " ")}, "unsure", 0, metav1.ConditionFalse, "Unsure", "and 13 other reasons"},
	} {
		w.view = publication.View{State: state, Observed: &c.o}
		w.round(publication.Settling)
		s := w.object().Status
		certain := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionCertain)
		if s.Certainty.Answer != c.answer || s.Certainty.Pending != c.pending || certain.Status != c.status || certain.Reason != c.reason || !strings.Contains(certain.Message, c.message) || s.Summary.Condition != c.reason {
			t.Errorf("%s: certainty %+v, condition %+v, summary %s", c.answer, s.Certainty, certain, s.Summary.Condition)
		}
		if len(s.Certainty.Reasons) > 9 || len(certain.Message) > 9*520 {
			t.Errorf("%d reasons in %d bytes", len(s.Certainty.Reasons), len(certain.Message))
		}
		if n := w.round(time.Second); n != 0 {
			t.Errorf("%s: %d writes without a change", c.answer, n)
		}
	}
	w.view = publication.View{State: eight(t), Listing: &handover.Listing{}}
	w.round(time.Second)
	if s := w.object().Status; s.DecidedBy != nil || s.Certainty != nil || meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionCertain) != nil || s.Summary.Condition != "Managing" {
		t.Errorf("managed again: %+v", s)
	}
}

// TestSettling checks that only the start and the end of unsure are written at once: a decision is
// pending for a second.
func TestSettling(t *testing.T) {
	w := newWorld(t)
	state := w.view.State.As(node.Behavior{AdmitsAgain: true})
	w.view = publication.View{State: state, Observed: &publication.Observed{Version: "1.36.4"}}
	w.round(0)
	w.clock = w.clock.Add(publication.Settling)
	for _, c := range []struct {
		o      publication.Observed
		writes int
	}{
		{publication.Observed{Version: "1.36.4", Waiting: []string{"default/b"}}, 1},
		{publication.Observed{Version: "1.36.4"}, 0},
		{publication.Observed{Version: "1.36.4", Doubts: []string{"why"}}, 1},
		{publication.Observed{Version: "1.36.4"}, 1},
		{publication.Observed{Version: "1.36.4", Waiting: []string{"default/b"}}, 0},
	} {
		w.view = publication.View{State: state, Observed: &c.o}
		if n := w.round(time.Second); n != c.writes {
			t.Errorf("%+v: %d writes, want %d", c.o, n, c.writes)
		}
	}
	if n := w.round(publication.Settling); n != 1 || w.object().Status.Certainty.Answer != "pending" {
		t.Errorf("%d writes later, certainty %+v", n, w.object().Status.Certainty)
	}
}

// TestObservedTwice checks that a state whose pods share CPUs is unsure: it cannot be built again
// from its grants.
func TestObservedTwice(t *testing.T) {
	w := newWorld(t)
	w.admit(exclusive("a", 2))
	w.view = publication.View{State: w.view.State.As(node.Behavior{AdmitsAgain: true}).Found(cpuset.Of(0, 1, 2, 3), nil), Observed: &publication.Observed{Version: "1.36.4"}}
	w.round(0)
	if c := w.object().Status.Certainty; c.Answer != "unsure" || len(c.Reasons) != 1 || !strings.Contains(c.Reasons[0], "assigned CPUs 2-3 twice") {
		t.Errorf("certainty %+v", c)
	}
}

// TestRevisionGrowsAcrossRestarts checks that the revision of an observed node does not begin again
// with the agent.
func TestRevisionGrowsAcrossRestarts(t *testing.T) {
	w := newWorld(t)
	observed := &publication.Observed{Version: "1.36.4"}
	w.admit(exclusive("a", 1), exclusive("b", 1), exclusive("c", 1))
	w.view = publication.View{State: w.view.State.As(node.Behavior{AdmitsAgain: true}), Observed: observed}
	w.round(0)
	before := w.object().Status.Revision
	client, err := publication.NewClient(w.server.Config())
	if err != nil {
		t.Fatal(err)
	}
	w.view = publication.View{State: eight(t).As(node.Behavior{AdmitsAgain: true}), Observed: observed}
	w.Publisher = publication.New(publication.Config{
		Node: "n7", Client: client, View: func() publication.View { return w.view }, Now: func() time.Time { return w.clock },
		After: time.After, Observer: w, Log: slog.New(slog.DiscardHandler),
	})
	w.round(time.Minute)
	if o := w.object(); o.Status.Revision < before || len(o.Status.Grants) != 0 || before == 0 {
		t.Errorf("revision %d after %d, %d grants", o.Status.Revision, before, len(o.Status.Grants))
	}
}
