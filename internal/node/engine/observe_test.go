package engine_test

import (
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/node/engine"
)

// witness keeps the states that the engine reports to an observer.
type witness struct {
	bases, written []*node.State
	plans          []*node.Plan
}

func (w *witness) Decided(d engine.Decision) {
	w.bases, w.plans = append(w.bases, d.Base), append(w.plans, d.Plan)
}
func (w *witness) Wrote(write engine.Write) { w.written = append(w.written, write.State) }
func (w *witness) Released(string)          {}

// TestObserversCanAskAgain: an observer gets the state on which a decision was made, which gives
// the same plan again, and the state that was written, which is what readers see next.
func TestObserversCanAskAgain(t *testing.T) {
	first, _, _ := newEngine(t)
	w := &witness{}
	e := engine.New(first.State(), engine.Config{
		Store: &disk{}, Now: time.Now, Observer: w, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Encode: func(*node.State) ([]byte, error) { return []byte("state"), nil },
	})
	for _, p := range []struct {
		name string
		cpus int
	}{{"a", 2}, {"b", 9}, {"c", 3}, {"a", 2}} {
		if _, err := e.Admit(t.Context(), pod(p.name, p.cpus)); err != nil {
			t.Fatal(err)
		}
	}
	for i, plan := range w.plans {
		again := w.bases[i].Plan(plan.Pod)
		same := again.Base == plan.Base && again.Known == plan.Known && (again.Grant == nil) == (plan.Grant == nil)
		if same && plan.Grant != nil {
			same = again.Grant.Sequence == plan.Grant.Sequence && again.Grant.CPUs().Equal(plan.Grant.CPUs())
		}
		if !same {
			t.Errorf("%s: asked again the state gives another plan", plan.Pod.Name)
		}
	}
	if len(w.written) != 2 || !slices.Contains(w.written, e.State()) {
		t.Errorf("%d states were written, the published one among them: %t", len(w.written), slices.Contains(w.written, e.State()))
	}
}

// sizes is a book that also records resizes.
type sizes struct{ book }

func (s *sizes) Resized(d engine.Decision) {
	verdict := "not written"
	switch {
	case d.Plan.Rejection != nil:
		verdict = string(d.Plan.Rejection.Reason)
	case d.Err == nil:
		verdict = d.Plan.Before.CPUs().String() + " to " + d.Plan.Grant.CPUs().String()
	}
	s.lines = append(s.lines, "resize "+d.Plan.Pod.Name+" "+verdict)
}

// TestObserversOfResizes: observers are notified of each decision when its outcome is known. They
// are not notified of a size that the pod already has, or of a preview.
func TestObserversOfResizes(t *testing.T) {
	first, _, _ := newEngine(t)
	w, store := &sizes{}, &disk{}
	e := engine.New(first.State(), engine.Config{
		Store: store, Now: time.Now, Observer: w, Log: slog.New(slog.DiscardHandler),
		Encode: func(*node.State) ([]byte, error) { return []byte("state"), nil },
	})
	if _, err := e.Admit(t.Context(), pod("a", 2)); err != nil {
		t.Fatal(err)
	}
	w.take()
	for _, cpus := range []int{3, 3, 9} {
		_, _ = e.Resize(t.Context(), pod("a", cpus))
	}
	store.broken = true
	if _, err := e.Resize(t.Context(), pod("a", 4)); err == nil {
		t.Error("a resize that is not written is done")
	}
	got := slices.DeleteFunc(w.take(), func(line string) bool { return !strings.HasPrefix(line, "resize") })
	if want := []string{"resize a 1-2 to 1-3", "resize a Infeasible", "resize a not written"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
