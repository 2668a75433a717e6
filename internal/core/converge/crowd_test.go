package converge

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/cpuset"
)

// leftBy is the dumb twin of crowd: it examines every container each time.
type leftBy map[string]leaving

func (l leftBy) blocks(id string, gets cpuset.Set, own bool) bool {
	for other, rest := range l {
		if other != id && (own || rest.own) && rest.cpus.Intersects(gets) {
			return true
		}
	}
	return false
}

// order is the dumb twin of queue: in each turn it takes the first update, in their order, that no
// container blocks, and that is the first one of its container.
func (l leftBy) order(updates []Update, own func(Update) bool, rest func(Update) cpuset.Set) (ids []string) {
	for left := slices.Clone(updates); len(left) > 0; {
		passed := map[string]bool{}
		next := max(0, slices.IndexFunc(left, func(u Update) bool {
			first := !passed[u.ID]
			passed[u.ID] = true
			return first && !l.blocks(u.ID, u.After.CPUs, own(u))
		}))
		u := left[next]
		l[u.ID] = leaving{rest(u), l[u.ID].own}
		ids, left = append(ids, u.ID+" "+u.After.CPUs.String()), slices.Delete(left, next, next+1)
	}
	return ids
}

// TestCrowdAndQueue checks that both give the same answers as their twins, for any containers and
// updates.
func TestCrowdAndQueue(t *testing.T) {
	cpus := rapid.Custom(func(t *rapid.T) cpuset.Set {
		return cpuset.Of(rapid.SliceOfN(rapid.IntRange(0, 5), 0, 4).Draw(t, "CPUs")...)
	})
	rapid.Check(t, func(t *rapid.T) {
		over, twin := newCrowd(8), leftBy{}
		f := &floor{of: map[string]*occupant{}}
		for i := range rapid.IntRange(1, 8).Draw(t, "containers") {
			c := &Container{ID: fmt.Sprint(i), Owns: rapid.Bool().Draw(t, "own")}
			rest := cpus.Draw(t, "rest")
			f.of[c.ID] = &occupant{Container: c}
			over.set(c.ID, c.Owns, cpus.Draw(t, "rest before"))
			over.set(c.ID, c.Owns, rest)
			twin[c.ID] = leaving{rest, c.Owns}
		}
		var updates []Update
		for range rapid.IntRange(0, 12).Draw(t, "updates") {
			u := Update{ID: fmt.Sprint(rapid.IntRange(0, len(f.of)-1).Draw(t, "ID"))}
			u.After.CPUs = cpus.Draw(t, "after")
			updates = append(updates, u)
		}
		for _, u := range updates {
			for _, own := range []bool{false, true} {
				if got, want := over.blocks(u.ID, u.After.CPUs, own), twin.blocks(u.ID, u.After.CPUs, own); got != want {
					t.Fatalf("container %s with CPUs %s, own %t: blocked %t, want %t", u.ID, u.After.CPUs, own, got, want)
				}
			}
		}
		takes := rapid.SliceOfN(rapid.Bool(), len(updates), len(updates)).Draw(t, "takes")
		own := func(u Update) bool {
			return takes[slices.IndexFunc(updates, func(o Update) bool { return o.ID == u.ID && o.After.CPUs.Equal(u.After.CPUs) })]
		}
		// A container only ever leaves CPUs.
		rest := func(u Update) cpuset.Set { return twin[u.ID].cpus.Difference(u.After.CPUs) }
		q := f.queue(updates)
		for i, u := range updates {
			q.takes[i] = own(u)
		}
		var got []string
		for len(got) < len(updates) {
			next := q.next(over)
			if next < 0 {
				next = q.first
			}
			u := updates[next]
			got = append(got, u.ID+" "+u.After.CPUs.String())
			q.take(next, over, over.set(u.ID, f.of[u.ID].Owns, over.rest[u.ID].cpus.Difference(u.After.CPUs)))
		}
		if want := twin.order(updates, own, rest); !slices.Equal(got, want) {
			t.Fatalf("order %q, want %q", got, want)
		}
	})
}
