package absence_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/node/absence"
)

// history draws lists of a few pods, from kubelets that restart now and then.
type history struct {
	lists   []absence.List
	now     time.Time
	process absence.Process
}

func (h *history) next(t *rapid.T, steps []int) absence.List {
	h.now = h.now.Add(time.Duration(rapid.SampledFrom(steps).Draw(t, "step")) * time.Second)
	if h.process.Number == 0 || rapid.IntRange(0, 19).Draw(t, "restart") == 0 {
		h.process = absence.Process{Number: h.process.Number + 1, Since: h.now}
	}
	l := absence.List{Asked: h.now, Process: h.process, Pods: map[string]absence.Source{}, Ended: map[string]absence.Source{}}
	for i, uid := range []string{"a", "b", "c", "d"} {
		switch rapid.IntRange(0, 5).Draw(t, uid) {
		case 0, 1, 2:
			l.Pods[uid] = absence.Source(i % 2)
		case 3:
			l.Ended[uid] = absence.Source(i % 2)
		}
	}
	if rapid.IntRange(0, 9).Draw(t, "unreadable") == 0 {
		l.Unreadable = 1
	}
	h.lists = append(h.lists, l)
	return l
}

// gone implements the package comment literally, from all lists.
func gone(lists []absence.List, uid string, trace absence.Trace) bool {
	var last *absence.List
	var counting, readable []time.Time
	other := false // A later list has another pod of the same source.
	for i := range lists {
		l := &lists[i]
		if _, there := l.Pods[uid]; there {
			last, counting, readable, other = l, nil, nil, false
			continue
		}
		if l.Unreadable > 0 || !l.Asked.After(trace.Since) {
			continue
		}
		readable = append(readable, l.Asked)
		_, ended := lists[len(lists)-1].Ended[uid]
		var source absence.Source
		if last != nil {
			source = last.Pods[uid]
		}
		delivered := false
		for _, s := range l.Pods {
			delivered = delivered || s == source
		}
		for _, s := range l.Ended {
			delivered = delivered || s == source
		}
		other = other || delivered
		if ended || last != nil && last.Process.Number == l.Process.Number || delivered && l.Asked.Sub(l.Process.Since) >= absence.Settle {
			counting = append(counting, l.Asked)
		}
	}
	over := func(times []time.Time) time.Duration { return times[len(times)-1].Sub(times[0]) }
	if trace.Sandbox {
		return len(counting) >= absence.Lists && over(counting) >= absence.Grace
	}
	return len(counting) > 0 || other || len(readable) >= absence.Lists && over(readable) >= absence.Unheard
}

// TestTwin compares with the package comment taken literally. The histories are shorter than what
// is remembered.
func TestTwin(t *testing.T) {
	said := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		h := history{now: epoch}
		var tracker absence.Tracker
		for range rapid.IntRange(1, 30).Draw(t, "lists") {
			tracker.Observe(h.next(t, []int{2, 5, 10, 20, 30}))
			for _, uid := range []string{"a", "b", "c", "d"} {
				trace := absence.Trace{Sandbox: rapid.Bool().Draw(t, "sandbox"), Since: epoch.Add(-time.Hour)}
				if rapid.IntRange(0, 3).Draw(t, "recent") == 0 {
					trace.Since = h.now.Add(-time.Duration(rapid.IntRange(0, 60).Draw(t, "since")) * time.Second)
				}
				want, got := gone(h.lists, uid, trace), tracker.Gone(uid, trace)
				if got != want {
					t.Fatalf("%s %+v: gone %v, want %v", uid, trace, got, want)
				}
				said[fmt.Sprint(trace.Sandbox, want)]++
			}
		}
	})
	if len(said) != 4 {
		t.Errorf("only %v were met", said)
	}
}

// TestListedNowAndThenIsNeverGone: a pod with a sandbox that is in at least every third list is
// never gone, however often the kubelet restarts and however close or far apart the lists are.
func TestListedNowAndThenIsNeverGone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := history{now: epoch}
		var tracker absence.Tracker
		missing := 0
		for range 60 {
			l := h.next(t, []int{1, 2, 10, 60, 1000})
			delete(l.Ended, "a")
			if _, there := l.Pods["a"]; there {
				missing = 0
			} else if missing++; missing == absence.Lists {
				l.Pods["a"], missing = absence.FromAPI, 0
			}
			tracker.Observe(l)
			if tracker.Gone("a", absence.Trace{Sandbox: true}) {
				t.Fatal("a pod is gone that every third list has")
			}
		}
	})
}

// TestCloseListsAreNoShortCut: many lists in a short time never make a pod gone earlier than the
// literal rule.
func TestCloseListsAreNoShortCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := history{now: epoch}
		var tracker absence.Tracker
		for range 60 {
			tracker.Observe(h.next(t, []int{1, 1, 1, 2, 30}))
			for _, sandbox := range []bool{false, true} {
				trace := absence.Trace{Sandbox: sandbox}
				if tracker.Gone("a", trace) && !gone(h.lists, "a", trace) {
					t.Fatal("gone too early")
				}
			}
		}
	})
}

// TestMemoryIsBounded observes 10,000 lists, each with a new pod and from a new kubelet.
func TestMemoryIsBounded(t *testing.T) {
	var tracker absence.Tracker
	for i := range 10_000 {
		tracker.Observe(absence.List{
			Asked: epoch.Add(time.Duration(i) * 20 * time.Millisecond), Process: absence.Process{Number: uint64(i)},
			Pods: map[string]absence.Source{fmt.Sprint(i): absence.FromAPI, "stays": absence.FromAPI},
		})
	}
	if digests, vanished := tracker.Size(); digests > 1024 || vanished > 4096 {
		t.Errorf("it remembers %d lists and %d pods", digests, vanished)
	}
	if tracker.Gone("stays", absence.Trace{}) {
		t.Error("a pod is gone that is listed")
	}
}

// TestTooManyVanish: if there are too many vanished pods to keep their sightings, the lists that
// had these pods do not count against them.
func TestTooManyVanish(t *testing.T) {
	var tracker absence.Tracker
	list := func(seconds int, pods map[string]absence.Source) {
		tracker.Observe(absence.List{Asked: epoch.Add(time.Duration(seconds) * time.Second), Process: absence.Process{Number: 1, Since: epoch}, Pods: pods})
	}
	many := map[string]absence.Source{}
	for i := range 5000 {
		many[fmt.Sprint(i)] = absence.FromAPI
	}
	some := map[string]absence.Source{"other": absence.FromAPI}
	for _, seconds := range []int{100, 120, 140} {
		list(seconds, many)
	}
	list(160, some)
	for uid := range many {
		if tracker.Gone(uid, absence.Trace{Sandbox: true}) {
			t.Fatalf("%s is gone after one list without it", uid)
		}
	}
	list(180, some)
	list(200, some)
	for uid := range many {
		if !tracker.Gone(uid, absence.Trace{Sandbox: true}) {
			t.Fatalf("%s is not gone after three lists without it", uid)
		}
	}
}
