package nri

import (
	"strings"
	"testing"
	"time"
)

// TestSlow: what took more than half of the limit is reported for ten minutes, the longest of it,
// in a text that does not change with time.
func TestSlow(t *testing.T) {
	begin := time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC)
	now := begin
	p := New(Config{Now: func() time.Time { return now }})
	note := func(what string, took time.Duration) {
		p.slow.note(what, took, now)
	}
	wants := func(want string) {
		t.Helper()
		got := ""
		if err := p.Slow(); err != nil {
			got, _, _ = strings.Cut(err.Error(), ";")
		}
		if got != want {
			t.Errorf("at %v: %q, want %q", now.Sub(begin), got, want)
		}
	}
	note("the answer to StopContainer", time.Hour) // There is no limit yet.
	p.slow.limits(800*time.Millisecond, 0)
	note("the answer to StopContainer", 400*time.Millisecond)
	wants("")
	note("the answer to CreateContainer", 612*time.Millisecond)
	now = now.Add(9 * time.Minute)
	const first = "at 2026-11-27T09:00:00Z the answer to CreateContainer took 610ms of the 800ms that the agent has"
	note("the answer to StopContainer", 500*time.Millisecond)
	wants(first)
	now = now.Add(61 * time.Second)
	wants("")
	note("the answer to StopContainer", 500*time.Millisecond)
	wants("at 2026-11-27T09:10:01Z the answer to StopContainer took 500ms of the 800ms that the agent has")
	note("the answer to RunPodSandbox", 3*time.Second)
	wants("at 2026-11-27T09:10:01Z the answer to RunPodSandbox took 3s of the 800ms that the agent has")
}
