package capacity

import (
	"fmt"
	"testing"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
)

// TestRoomCost checks that a group of 1,000 pods looks at each open node once and not once for each
// pod, and that a group with Only looks at no other node.
func TestRoomCost(t *testing.T) {
	var open []Open
	for i := range 200 {
		open = append(open, Open{Name: fmt.Sprint("o-", i), Allocatable: fleet.Amounts{Milli: 6_000, Memory: 64 * gib, Pods: 10}})
	}
	looks, elsewhere := 0, 0
	g := Group{Item: item("web", 1, 1000)}
	g.Pod.Allowed, g.Pod.Constraint = func(*fleet.Node) bool { looks++; return true }, "counted"
	if j, err := roomOf(t, 2, open...).Take(t.Context(), []Group{g}); err != nil || j.Short != nil || len(j.Placements) != 1000 || looks > 1000 {
		t.Errorf("%d looks at nodes for %d pods on %d open nodes; %v, %v", looks, g.Count, len(open), j.Short, err)
	}
	g = group("workers", 5, 2, "")
	g.Pod.Allowed = func(n *fleet.Node) bool {
		if n.Name != "n-2" {
			elsewhere++
		}
		return n.Name == "n-2"
	}
	g.Pod.Constraint, g.Only = "one", []string{"n-2"}
	if j, err := roomOf(t, 4, open...).Take(t.Context(), []Group{g}); err != nil || fmt.Sprint(nodesOf(j)) != "[n-2 n-2]" || elsewhere > 0 {
		t.Errorf("placed on %v after %d looks at other nodes, %v, %v", nodesOf(j), elsewhere, j.Short, err)
	}
}

// TestRoomOnly checks that a group gets the same answer and the same text with Only and without.
func TestRoomOnly(t *testing.T) {
	for _, c := range []struct {
		cpus    int
		count   int64
		allowed []string
	}{{5, 4, []string{"n-1", "n-3"}}, {5, 5, []string{"n-1", "n-3"}}, {9, 1, []string{"n-1", "n-3"}}, {20, 1, []string{"n-2"}}, {1, 1, []string{}}, {1, 1, []string{"gone"}}} {
		g := group("workers", c.cpus, c.count, "")
		g.Pod.Allowed = func(n *fleet.Node) bool {
			for _, name := range c.allowed {
				if n.Name == name {
					return true
				}
			}
			return false
		}
		g.Pod.Constraint = "some"
		answer := func(only []string) string {
			g.Only = only
			j, err := roomOf(t, 4).Take(t.Context(), []Group{g})
			if err != nil {
				t.Fatal(err)
			}
			if j.Short != nil {
				return j.Short.Text()
			}
			return fmt.Sprint(nodesOf(j))
		}
		if got, want := answer(c.allowed), answer(nil); got != want {
			t.Errorf("%+v: got  %s\nwant %s", c, got, want)
		}
	}
}
