package converge

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/cpuset"
)

// TestEveryOrder checks, for up to six containers and any delivery, that the updates are safe after
// each of them, and that no order of the same changes brings another container to its setting.
func TestEveryOrder(t *testing.T) {
	reached := map[Delivery]int{}
	rapid.Check(t, func(t *rapid.T) {
		f := drawFloor(t)
		by := rapid.SampledFrom([]Delivery{Unsolicited, Merged, Stepwise}).Draw(t, "delivery")
		var updates []Update
		for _, id := range slices.Sorted(maps.Keys(f.of)) {
			c := f.of[id]
			if u := (Update{ID: id, Before: Setting{CPUs: c.May.CPUs}, After: Setting{CPUs: c.want}}); c.Phase != Creating && !c.May.CPUs.Equal(c.want) {
				updates = append(updates, u)
			}
		}
		safe, withheld, exchanges := f.safe(updates, by)
		got := reachedBy(f, safe)
		best := everyOrder(f, updates, by)
		if by == Unsolicited {
			everySubset(t, f, safe)
		} else if why := unsafeOf(f, safe); why != "" && !(exchanges && exchanged(f, updates)) { // See Update.
			t.Fatalf("%s\n%s", why, f)
		}
		if !got.contains(best) {
			t.Fatalf("%s: the updates %s bring %v to their settings, the best order %v\n%s", names[by], texts(safe), got, best, f)
		}
		if len(got)+withheld < len(updates) {
			t.Fatalf("%s: %d updates, of which %d arrive and %d wait\n%s", names[by], len(updates), len(got), withheld, f)
		}
		if by != Stepwise {
			onlyOne(t, safe)
		}
		reached[by] += len(got)
	})
	for _, by := range []Delivery{Unsolicited, Merged, Stepwise} {
		if reached[by] == 0 {
			t.Errorf("%s: no container ever got its setting", names[by])
		}
	}
}

var names = map[Delivery]string{Unsolicited: "unsolicited", Merged: "merged", Stepwise: "stepwise"}

// drawFloor draws containers on six CPUs. Some own CPUs alone or share those of a pool, the others
// share the rest. Where each of them may run is arbitrary.
func drawFloor(t *rapid.T) *floor {
	const cpus = 6
	f := &floor{of: map[string]*occupant{}}
	var groups [4]cpuset.Builder // the last one is shared
	var all cpuset.Builder
	for cpu := range cpus {
		all.Add(cpu)
		groups[rapid.IntRange(0, len(groups)-1).Draw(t, fmt.Sprint("owner of CPU ", cpu))].Add(cpu)
	}
	f.all = all.Set()
	some := rapid.Custom(func(t *rapid.T) cpuset.Set {
		return cpuset.Of(rapid.SliceOfN(rapid.IntRange(0, cpus-1), 1, 4).Draw(t, "CPUs")...)
	})
	for i := range rapid.IntRange(1, 6).Draw(t, "containers") {
		group := rapid.IntRange(0, len(groups)-1).Draw(t, "group")
		o := &occupant{Container: &Container{ID: fmt.Sprint(i)}, want: groups[group].Set()}
		if o.want.IsEmpty() {
			continue // Nothing has to be assigned.
		}
		if o.takes = group < len(groups)-1; o.takes {
			o.mine.own = o.want
		}
		o.May.CPUs = o.want
		if rapid.Bool().Draw(t, "elsewhere") {
			o.May.CPUs = some.Draw(t, "may")
		}
		o.Owns = o.takes || rapid.IntRange(0, 3).Draw(t, "owned before") == 0
		o.Phase = rapid.SampledFrom([]Phase{Settled, Settled, Settled, Unknown, Creating}).Draw(t, "phase")
		o.Flying = o.Phase != Creating && rapid.IntRange(0, 5).Draw(t, "flying") == 0
		f.of[o.ID] = o
	}
	f.findPlaces()
	return f
}

// ids is a set of containers.
type ids map[string]bool

func (s ids) contains(other ids) bool {
	for id := range other {
		if !s[id] {
			return false
		}
	}
	return true
}

func (s ids) String() string { return strings.Join(slices.Sorted(maps.Keys(s)), " ") }

// reachedBy returns the containers whose last update brings them to their setting.
func reachedBy(f *floor, updates []Update) ids {
	got := ids{}
	for _, u := range updates {
		got[u.ID] = u.After.CPUs.Equal(f.of[u.ID].want)
	}
	maps.DeleteFunc(got, func(_ string, there bool) bool { return !there })
	return got
}

// now has the CPUs on which each container may run at some moment.
type now map[string]cpuset.Set

func begin(f *floor) now {
	n := now{}
	for id, c := range f.of {
		n[id] = c.May.CPUs
	}
	return n
}

// after returns the moment after an update was made. An update of a container that an unsolicited
// update may reach later proves nothing.
func (n now) after(f *floor, u Update) now {
	next := maps.Clone(n)
	if next[u.ID] = u.After.CPUs; f.of[u.ID].Flying {
		next[u.ID] = f.of[u.ID].May.CPUs.Union(u.After.CPUs)
	}
	return next
}

// inTheWay returns a container that may be on CPUs that an update brings to another one, and should
// not be there, or "". A container that takes its own CPUs brings them all, because it owns them
// from then on.
func (n now) inTheWay(f *floor, u Update, brings cpuset.Set) string {
	for _, id := range slices.Sorted(maps.Keys(f.of)) {
		other := f.of[id]
		if id != u.ID && (f.takes(u) || other.Owns) && n[id].Difference(other.want).Intersects(brings) {
			return id
		}
	}
	return ""
}

// brings returns the CPUs that an update brings to its container at that moment: none if the
// container only leaves CPUs.
func (n now) brings(f *floor, u Update) cpuset.Set {
	if brings := u.After.CPUs.Difference(n[u.ID]); brings.IsEmpty() || !f.takes(u) {
		return brings
	}
	return u.After.CPUs
}

// unsafeOf returns why an update is not safe when all updates before it were made, or "" if each of
// them is safe.
func unsafeOf(f *floor, updates []Update) string {
	n := begin(f)
	for i, u := range updates {
		if id := n.inTheWay(f, u, n.brings(f, u)); id != "" {
			return fmt.Sprintf("update %d of %s: container %s gets CPUs %s and %s may still run on %s", i+1, texts(updates), u.ID, u.After.CPUs, id, n[id])
		}
		n = n.after(f, u)
	}
	return ""
}

// everySubset checks that each update is safe whichever of the others were made.
func everySubset(t *rapid.T, f *floor, updates []Update) {
	for made := range 1 << len(updates) {
		n := begin(f)
		for i, u := range updates {
			if made&(1<<i) == 0 {
				continue
			}
			if id := n.inTheWay(f, u, n.brings(f, u)); id != "" {
				t.Fatalf("%s, of which some fail: container %s gets CPUs %s and %s may still run on %s\n%s", texts(updates), u.ID, u.After.CPUs, id, n[id], f)
			}
			n = n.after(f, u)
		}
	}
}

// everyOrder is the dumb twin: it returns the containers that get their settings in the best of all
// orders, if an update that is not safe in its turn is omitted. An unsolicited update must be safe
// from the beginning. In steps, each container first leaves what others own.
func everyOrder(f *floor, updates []Update, by Delivery) ids {
	best := ids{}
	n := begin(f)
	if by == Stepwise {
		for _, u := range updates {
			if off, needed := f.off(u); needed {
				n = n.after(f, off)
			}
		}
	}
	var try func(n now, left []Update, got ids)
	try = func(at now, left []Update, got ids) {
		if len(got) > len(best) {
			best = maps.Clone(got)
		}
		for i, u := range left {
			seen := at
			if by == Unsolicited {
				seen = n
			}
			if seen.inTheWay(f, u, u.After.CPUs) != "" {
				continue
			}
			next := maps.Clone(got)
			next[u.ID] = true
			try(at.after(f, u), slices.Delete(slices.Clone(left), i, i+1), next)
		}
	}
	try(n, updates, ids{})
	return best
}

// exchanged reports whether a container cannot get its setting in any order, and runs only on CPUs
// of others. If so, there may be no safe order.
func exchanged(f *floor, updates []Update) bool {
	best := everyOrder(f, updates, Merged)
	for _, u := range updates {
		if _, needed := f.off(u); !needed && !best[u.ID] {
			return true
		}
	}
	return false
}

// onlyOne checks that no container has two updates.
func onlyOne(t *rapid.T, updates []Update) {
	seen := ids{}
	for _, u := range updates {
		if seen[u.ID] {
			t.Fatalf("two updates of container %s: %s", u.ID, texts(updates))
		}
		seen[u.ID] = true
	}
}

func texts(updates []Update) string {
	list := make([]string, 0, len(updates))
	for _, u := range updates {
		list = append(list, fmt.Sprintf("%s to %s", u.ID, u.After.CPUs))
	}
	return strings.Join(list, ", ")
}

// String returns a line for each container.
func (f *floor) String() string {
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(f.of)) {
		c := f.of[id]
		fmt.Fprintf(&b, "%s may run on %s, should on %s, is to own %t, may own %t, %s, flying %t\n", id, c.May.CPUs, c.want, c.takes, c.Owns, c.Phase, c.Flying)
	}
	return b.String()
}
