package hint

import (
	"fmt"
	"testing"

	"github.com/paddock-project/paddock/internal/core/mask"
)

// on returns a set of the masks that consist of the first NUMA nodes and offer the amount.
func on(preferred int, amount int64, offers ...int64) Set {
	return Set{
		Kind: Fits, Candidates: (^mask.Mask(0)).First(len(offers)), Preferred: preferred,
		Needs: []Need{{Amount: amount, Offer: offers}},
	}
}

// TestPolicies shows each rule of R-HINT-50…63 with a case that a reader can verify.
func TestPolicies(t *testing.T) {
	nearThird := [][]int{{10, 30, 12}, {30, 10, 30}, {12, 30, 10}}
	oneWay := [][]int{{10, 10, 12}, {30, 10, 30}, {12, 30, 10}}
	bound := Set{Kind: Fits, Explicit: []mask.Mask{mask.Of(1, 2)}, Preferred: 1}
	sockets := on(1, 4, 2, 2, 2, 2)
	sockets.Sockets = &SocketRule{Count: 1, Sockets: []mask.Mask{mask.Of(0, 2), mask.Of(1, 3)}}
	for _, c := range []struct {
		name   string
		policy Policy
		nodes  int
		far    [][]int
		sets   []Set
		want   string
	}{
		{"nobody cares", BestEffort, 2, nil, []Set{{}, {}}, "{0-1} preferred"},
		{"nobody cares, single", SingleNUMANode, 2, nil, nil, "nil preferred"},
		{"one cannot", Restricted, 2, nil, []Set{{Kind: None}}, "refused"},
		{"one cannot, the other chooses", BestEffort, 2, nil, []Set{{Kind: None}, on(1, 1, 0, 1)}, "{1}"},
		{"an empty set is one that cannot", Restricted, 2, nil, []Set{on(1, 9, 1, 1)}, "refused"},
		{"the lowest node", Restricted, 3, nil, []Set{on(1, 2, 1, 2, 2)}, "{1} preferred"},
		{"both agree on the last", Restricted, 2, nil, []Set{on(1, 1, 1, 1), on(1, 2, 1, 2)}, "{1} preferred"},
		{"both fit but on different nodes", Restricted, 2, nil, []Set{on(1, 1, 1, 0), on(1, 1, 0, 1)}, "refused"},
		{"so both give up the other's", BestEffort, 2, nil, []Set{on(1, 1, 1, 0), on(1, 2, 1, 1)}, "{0-1}"},
		{"3 is less than 5", Restricted, 3, nil, []Set{on(2, 2, 1, 1, 1)}, "{0-1} preferred"},
		{"but 0 is nearer to 2", Restricted, 3, nearThird, []Set{on(2, 2, 1, 1, 1)}, "{0,2} preferred"},
		{"there and back count", Restricted, 3, oneWay, []Set{on(2, 2, 1, 1, 1)}, "{0,2} preferred"},
		{"distances are not for single", SingleNUMANode, 3, nearThird, []Set{on(1, 1, 1, 1, 1)}, "{0} preferred"},
		{"two nodes are not single", SingleNUMANode, 2, nil, []Set{on(2, 2, 1, 1)}, "refused"},
		{"one node is the default", SingleNUMANode, 1, nil, []Set{on(1, 1, 1)}, "nil preferred"},
		{"a memory group is taken as it is", BestEffort, 3, nil, []Set{bound}, "{1-2}"},
		{"and cut by what the others have", BestEffort, 3, nil, []Set{bound, on(1, 2, 1, 2)}, "{1}"},
		{"by socket, 0 and 2 are as good as one", Restricted, 4, nil, []Set{sockets}, "{0,2} preferred"},
	} {
		got := Merge(c.sets, Rules{Policy: c.policy, Nodes: (^mask.Mask(0)).First(c.nodes), Distances: c.far})
		if text := brief(got); text != c.want {
			t.Errorf("%s: got %s, want %s", c.name, text, c.want)
		}
	}
}

func brief(c Choice) string {
	text := c.Mask.String()
	switch {
	case !c.Admit:
		return "refused"
	case !c.HasMask:
		text = "nil"
	}
	if c.Preferred {
		text += " preferred"
	}
	return text
}

// TestMachinesThatStopTheKubelet merges cases for which the kubelet takes minutes or does not end.
func TestMachinesThatStopTheKubelet(t *testing.T) {
	beds := testbeds()
	gb200, server := beds[0], beds[3]
	gb200.fill("empty", nil)
	server.fill("half", nil)
	for _, c := range []struct {
		name    string
		machine *testbed
		sets    []Set
		want    string
	}{
		{
			"kubernetes#135541, a GB200 tray with 34 NUMA nodes", gb200,
			[]Set{gb200.cpu(72), gb200.mem(1, 400*gib), gb200.device(0, 2)},
			"{0} preferred",
		},
		{
			"kubernetes#137700, 8 NUMA nodes and four providers", server,
			[]Set{server.cpu(48), server.mem(2, 150*gib), server.device(0, 3), server.device(1, 2)},
			"{1,5}",
		},
	} {
		got := Merge(c.sets, Rules{Nodes: (^mask.Mask(0)).First(len(c.machine.cpus))})
		if text := brief(got); text != c.want || got.Steps > 1_000 {
			t.Errorf("%s: got %s after %d steps, want %s", c.name, text, got.Steps, c.want)
		}
	}
}

func ExampleMerge() {
	// The request is for four CPUs, which any one NUMA node of the empty machine has. NUMA node 0
	// has only two free CPUs. The GPU is attached to NUMA node 1.
	cpus := Set{
		Resource: "cpu", Kind: Fits, Candidates: mask.Of(0, 1), Preferred: 1,
		Needs: []Need{{Amount: 4, Offer: []int64{2, 8}}},
	}
	gpu := Set{
		Resource: "example.com/gpu", Kind: Fits, Candidates: mask.Of(1), Preferred: 1,
		Needs: []Need{{Amount: 1, Offer: []int64{0, 1}}},
	}
	choice := Merge([]Set{gpu, cpus}, Rules{Policy: Restricted, Nodes: mask.Of(0, 1)})
	fmt.Println(choice.Mask, choice.Preferred, choice.Admit)
	// Output: {1} true true
}
