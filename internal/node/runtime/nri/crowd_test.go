package nri

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

// leftBy is the dumb twin of crowd: it looks at each container each time.
type leftBy map[string]leaving

func (l leftBy) blocks(id string, gets cpuset.Set, own bool) bool {
	for other, rest := range l {
		if other != id && (own || rest.own) && rest.cpus.Intersects(gets) {
			return true
		}
	}
	return false
}

// order is the dumb twin of queue: in each turn the first update, in their order, that no container
// is in the way of, and that is the first of its container.
func (l leftBy) order(updates []converge.Update, own func(converge.Update) bool, rest func(converge.Update) cpuset.Set) (ids []string) {
	for left := slices.Clone(updates); len(left) > 0; {
		passed := map[string]bool{}
		next := max(0, slices.IndexFunc(left, func(u converge.Update) bool {
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

// TestCrowdAndQueue: both answer as their twins, for any containers and updates.
func TestCrowdAndQueue(t *testing.T) {
	s, err := node.New(scenario.Machine("numa=2 cores=4 memory=1Gi"), node.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	w := converge.Want(s)
	cpus := rapid.Custom(func(t *rapid.T) cpuset.Set {
		return cpuset.Of(rapid.SliceOfN(rapid.IntRange(0, 5), 0, 4).Draw(t, "CPUs")...)
	})
	rapid.Check(t, func(t *rapid.T) {
		over, twin := newCrowd(8), leftBy{}
		containers := map[string]*container{}
		for i := range rapid.IntRange(1, 8).Draw(t, "containers") {
			c := &container{id: fmt.Sprint(i), own: rapid.Bool().Draw(t, "own")}
			rest := cpus.Draw(t, "rest")
			containers[c.id] = c
			over.set(c, cpus.Draw(t, "rest before"))
			over.set(c, rest)
			twin[c.id] = leaving{rest, c.own}
		}
		var updates []converge.Update
		for range rapid.IntRange(0, 12).Draw(t, "updates") {
			u := converge.Update{ID: fmt.Sprint(rapid.IntRange(0, len(containers)-1).Draw(t, "ID"))}
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
		own := func(u converge.Update) bool {
			return takes[slices.IndexFunc(updates, func(o converge.Update) bool { return o.ID == u.ID && o.After.CPUs.Equal(u.After.CPUs) })]
		}
		// A container only ever leaves CPUs.
		rest := func(u converge.Update) cpuset.Set { return twin[u.ID].cpus.Difference(u.After.CPUs) }
		q := newQueue(w, updates)
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
			q.take(next, over, over.set(containers[u.ID], over.rest[u.ID].cpus.Difference(u.After.CPUs)))
		}
		if want := twin.order(updates, own, rest); !slices.Equal(got, want) {
			t.Fatalf("order %q, want %q", got, want)
		}
	})
}
