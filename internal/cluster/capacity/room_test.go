package capacity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
)

// roomOf returns a room of n nodes, n-1 and so on, and of open nodes.
func roomOf(t failer, n int, open ...Open) *Room {
	t.Helper()
	k := kind(t, n)
	var nodes []fleet.Node
	for i := range n {
		nodes = append(nodes, fleet.Node{Name: fmt.Sprint("n-", i+1), State: k.State, Allocatable: k.Allocatable})
	}
	f, err := fleet.New(fleet.NewRanking(fleet.LeastStranded, nil), nodes)
	if err != nil {
		t.Fatal(err)
	}
	r := &Room{Fleet: f, Open: map[string]Open{}}
	for _, o := range open {
		r.Open[o.Name] = o
	}
	return r
}

func group(name string, cpus int, count int64, on string) Group {
	return Group{Item: item(name, cpus, count), Node: on, Exclusive: true}
}

// TestRoom checks what fits together, where, and the text about what does not.
func TestRoom(t *testing.T) {
	small := fleet.Amounts{Milli: 6_000, Memory: 8 * gib, Pods: 10}
	elsewhere := group("workers", 5, 1, "")
	elsewhere.Pod.Allowed, elsewhere.Pod.Constraint = func(*fleet.Node) bool { return false }, "nowhere"
	there := elsewhere
	there.Node = "n-1"
	for name, c := range map[string]struct {
		open   []Open
		groups []Group
		want   string
	}{
		"each NUMA node takes one":   {groups: []Group{group("workers", 5, 4, "")}, want: "[n-1 n-2 n-1 n-2] guessed 0"},
		"named nodes come first":     {groups: []Group{group("any", 7, 3, ""), group("one", 7, 1, "n-2")}, want: "[n-2 n-1 n-1 n-2] guessed 0"},
		"the sums fit, a node not":   {groups: []Group{group("workers", 5, 3, "n-1")}, want: "2 of 3 pods of workers fit on node n-1, and the next one does not: TopologyAffinityError: 5 CPUs wanted, but no single NUMA node has that much free; NUMA node 0: 2 free of 7; NUMA node 1: 3 free of 8"},
		"no node":                    {groups: []Group{group("workers", 8, 3, "")}, want: "2 of 3 pods of workers fit, and the next one does not: 2 node(s): insufficient cpu; the nearest is node n-1: insufficient cpu"},
		"an empty node neither":      {groups: []Group{group("workers", 9, 1, "n-1")}, want: "0 of 1 pods of workers fit on node n-1, and the next one does not: TopologyAffinityError: 9 CPUs wanted, but no single NUMA node has that much free; NUMA node 0: 7 free of 7; NUMA node 1: 8 free of 8. It would not fit there without other pods either"},
		"an unknown node":            {groups: []Group{group("workers", 1, 1, "gone")}, want: "0 of 1 pods of workers fit on node gone, and the next one does not: there is no node gone"},
		"an open node, by amounts":   {open: []Open{{Name: "o", Allocatable: small}}, groups: []Group{group("workers", 3, 2, "o")}, want: "[o o] guessed 2"},
		"an open node has too few":   {open: []Open{{Name: "o", Allocatable: small}}, groups: []Group{group("workers", 4, 2, "o")}, want: "1 of 2 pods of workers fit on node o, and the next one does not: insufficient cpu"},
		"a barred node":              {open: []Open{{Name: "o", Allocatable: small, Bars: "its agent is not ready"}}, groups: []Group{group("workers", 4, 1, "o")}, want: "0 of 1 pods of workers fit on node o, and the next one does not: its agent is not ready"},
		"a barred node takes others": {open: []Open{{Name: "o", Allocatable: small, Bars: "its agent is not ready"}}, groups: []Group{{Item: item("web", 4, 1), Node: "o"}}, want: "[o] guessed 1"},
		"not allowed":                {groups: []Group{elsewhere}, want: "0 of 1 pods of workers fit, and the next one does not: 2 node(s): node selector, affinity or taints; no node that it may run on has more"},
		"not allowed on the node":    {groups: []Group{there}, want: "0 of 1 pods of workers fit on node n-1, and the next one does not: they may not run there (node selector, affinity or taints)"},
		"no pods":                    {groups: []Group{group("workers", 4, -1, ""), group("none", 4, 0, "gone")}, want: "[] guessed 0"},
	} {
		t.Run(name, func(t *testing.T) {
			r := roomOf(t, 2, c.open...)
			j, err := r.Take(t.Context(), c.groups)
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprintf("%v guessed %d", nodesOf(j), j.Guessed)
			if j.Short != nil {
				got = j.Short.Text()
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func nodesOf(j *Joint) (names []string) {
	for _, p := range j.Placements {
		names = append(names, p.Node)
	}
	return names
}

// TestRoomIsAPlan checks that a node takes groups exactly if planning their pods one after the
// other, in one of two orders, succeeds, and that a room is as before if it does not.
func TestRoomIsAPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := roomOf(t, 1)
		for n := range rapid.IntRange(1, 6).Draw(t, "questions") {
			var groups []Group
			for i := range rapid.IntRange(1, 3).Draw(t, "groups") {
				groups = append(groups, group(fmt.Sprintf("g%d-%d", n, i), rapid.IntRange(1, 6).Draw(t, "cpus"), int64(rapid.IntRange(0, 2).Draw(t, "pods")), rapid.SampledFrom([]string{"", "n-1"}).Draw(t, "node")))
			}
			was, _ := r.Fleet.View("n-1")
			j, err := r.Take(t.Context(), groups)
			if err != nil {
				t.Fatal(err)
			}
			fits := inSomeOrder(was, groups)
			if fits != (j.Short == nil) {
				t.Fatalf("question %d: planned one by one, they fit: %t; the room answers %+v", n, fits, j.Short)
			}
			if is, _ := r.Fleet.View("n-1"); j.Short != nil && is != was {
				t.Fatal("what does not fit has changed the room")
			}
		}
	})
}

// inSomeOrder plans the pods of groups without a fleet: those with a node first, then the others in
// the order of their CPUs or as given.
func inSomeOrder(v *fleet.View, groups []Group) bool {
	bySize := slices.Clone(groups)
	slices.SortStableFunc(bySize, func(a, b Group) int { return int(b.Pod.Asks.Milli - a.Pod.Asks.Milli) })
	return slices.ContainsFunc([][]Group{groups, bySize}, func(order []Group) bool {
		s, used := v.State, v.Used
		for _, on := range []bool{true, false} {
			for _, g := range order {
				for k := range g.Count {
					pod := numbered(g.Item, k, g.Count)
					if on != (g.Node != "") {
						break
					}
					p := s.Plan(pod.Pod)
					if p.Rejection != nil || v.Allocatable.Short(used, pod.Asks) != "" {
						return false
					}
					next, err := s.Apply(p)
					if err != nil {
						return false
					}
					s, used = next, used.Plus(pod.Asks)
				}
			}
		}
		return true
	})
}

// TestRoomEnds checks that a question ends with its context, and leaves the room as it was.
func TestRoomEnds(t *testing.T) {
	r := roomOf(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	was, _ := r.Fleet.View("n-1")
	if _, err := r.Take(ctx, []Group{group("workers", 1, 2, "n-1")}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if is, _ := r.Fleet.View("n-1"); is != was {
		t.Error("the room has changed")
	}
}

// TestForget checks that answers are the same after classes are forgotten.
func TestForget(t *testing.T) {
	r := roomOf(t, 2)
	for i := range 4 {
		if _, err := r.Take(t.Context(), []Group{group(fmt.Sprint("g", i), 1+i, 1, "")}); err != nil {
			t.Fatal(err)
		}
	}
	if r.Fleet.Forget(4) || !r.Fleet.Forget(3) || r.Fleet.Forget(0) {
		t.Error("4 classes: more than 3, and none afterwards")
	}
	j, err := r.Take(t.Context(), []Group{group("rest", 8, 3, "")})
	if err != nil || j.Short == nil || j.Short.Placed != 2 {
		t.Errorf("%+v, %v: two NUMA nodes have 8 free CPUs", j, err)
	}
}
