package nodemap_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/testing/golden"
	"github.com/paddock-project/paddock/internal/testing/scenario"
	"github.com/paddock-project/paddock/internal/ui/nodemap"
)

// beingMoved returns a node on which two pods are being moved to the other NUMA node: "cpus" has
// exclusive CPUs, "memory" has none.
func beingMoved(t *testing.T) *node.State {
	t.Helper()
	s, err := node.New(scenario.Machine("sockets=2 cores=4 memory=2Gi"), node.Policy{
		Topology: node.TopologyRestricted, StaticCPU: true, ReservedCPUs: cpuset.Of(0), StaticMemory: true,
		ReservedMemory: map[int]map[string]int64{0: {machine.Memory: 64 << 20}},
	})
	if err != nil {
		t.Fatal(err)
	}
	of := func(name string, cpus int, memory int64) request.Pod {
		c := request.Container{Name: "app", Type: request.App, CPUs: cpus, Equivalent: true, Memory: request.Amounts{{Resource: machine.Memory, Value: memory << 20}}}
		if cpus == 0 {
			c.Sharing = request.FractionalCPU
		}
		return request.Pod{Identity: request.Identity{UID: "uid-" + name, Namespace: "default", Name: name}, Ask: request.Ask{QoS: request.Guaranteed, Containers: []request.Container{c}}}
	}
	s = admit(t, s, of("filler", 0, 1900), of("cpus", 2, 256), of("memory", 0, 256), of("stays", 1, 256)).Release("uid-filler")
	for _, uid := range []string{"uid-cpus", "uid-memory"} {
		old, _ := s.Grant(uid)
		to := scenario.Elsewhere(s, old)
		if to.Rejection != nil {
			t.Fatal(to.Rejection)
		}
		if s, err = s.BeginMove(to.Grant); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// TestMapOfMoves checks that moves that are under way are arrows from the old place to the new one
// in every form, and sentences. Moves that come next have numbers.
func TestMapOfMoves(t *testing.T) {
	s := beingMoved(t)
	m := mapOf("two", s)
	if want := []string{
		"default/cpus is being moved from CPUs 4-5 to 1-2", "default/memory is being moved from NUMA node 1 to 0",
	}; !slices.Equal(m.Moves(), want) {
		t.Errorf("got %q, want %q", m.Moves(), want)
	}
	stays, _ := s.Grant("uid-stays")
	next := m.WithArrows([]nodemap.Arrow{nodemap.ArrowOf(stays, stays)})
	if len(next.Moves()) != 2 || len(mapOf("two", s.EndMove("uid-cpus", true)).Moves()) != 1 {
		t.Error("a move that is not under way is one, or one that has ended")
	}
	var picture, page strings.Builder
	if err := next.SVG(&picture, true); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/moves.svg", picture.String())
	golden.Compare(t, "testdata/moves.txt", next.Term(terminal.Style{Width: 120}))
	if err := m.HTML(&page); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`<g class="move underway"><title>default/cpus is being moved from CPUs 4-5 to 1-2</title>`, ".map .underway path {", "4 CPUs 1-2,4-5, 256 MiB + 256 MiB, being moved to CPUs 1-2"} {
		if !strings.Contains(page.String(), part) {
			t.Errorf("%q is not in the page", part)
		}
	}
	if m.Pods[0].MovingFrom != "4-5" || m.Pods[0].MovingTo != "1-2" || m.CPUs[1].Use != nodemap.UseMoving || m.CPUs[4].Use != nodemap.UseExclusive {
		t.Errorf("%+v, %+v", m.Pods[0], m.CPUs)
	}
}
