package fleetwatch

import (
	"errors"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// TestPodsThatCannotBeKept checks since when a pod is a trouble: since its first error in a row,
// and not after it can be kept or is gone. Who asks computes an age from it.
func TestPodsThatCannotBeKept(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	w, err := New(&rest.Config{}, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	expect := func(want time.Time, reason string) {
		t.Helper()
		if since, why := w.Trouble(); !since.Equal(want) || why != reason {
			t.Errorf("trouble since %v: %q, want %v: %q", since, why, want, reason)
		}
	}
	expect(time.Time{}, "")
	first := now
	w.note("prod/b", errors.New("x"))
	now = now.Add(time.Minute)
	second := now
	w.note("prod/a", errors.New("y"))
	w.note("prod/b", errors.New("z"))
	expect(first, "pod prod/b cannot be read: z")
	w.note("prod/b", nil)
	expect(second, "pod prod/a cannot be read: y")
	if err := (store{Watch: w, resource: "pods"}).Replace(nil, ""); err != nil { // A list without the pod.
		t.Fatal(err)
	}
	expect(time.Time{}, "")
}
