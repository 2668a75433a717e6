package capacity

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// with returns the item with other memory and GPUs.
func (i Item) with(memory, gpus int64) Item {
	c := &i.Pod.Containers[0]
	c.Memory = request.Amounts{{Resource: request.Memory, Value: memory}}
	i.Pod.Asks.Memory = memory
	if gpus > 0 {
		c.Devices = request.Amounts{{Resource: gpu, Value: gpus}}
		i.Pod.Asks.Others = request.Amounts{{Resource: gpu, Value: gpus}}
	}
	return i
}

// withGPUs returns the kind with a GPU on each NUMA node.
func (k Kind) withGPUs(t *testing.T) Kind {
	t.Helper()
	inventory, err := device.NewInventory(k.State.Machine(), map[string][]device.Device{
		gpu: {{ID: "gpu0", Nodes: mask.Of(0), Healthy: true}, {ID: "gpu1", Nodes: mask.Of(1), Healthy: true}},
	})
	if err == nil {
		k.State, err = k.State.WithDevices(inventory)
	}
	if err != nil {
		t.Fatal(err)
	}
	k.Allocatable.Others = request.Amounts{{Resource: gpu, Value: 2}}
	return k
}

// under returns the kind with another policy.
func (k Kind) under(t *testing.T, change func(*node.Policy)) Kind {
	t.Helper()
	policy := k.State.Policy()
	change(&policy)
	s, err := node.New(k.State.Machine(), policy)
	if err != nil {
		t.Fatal(err)
	}
	k.State = s
	return k
}

// String has the counts of a shape in one line.
func (s *Scarce) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d pods, %d NUMA nodes, %d nodes: nothing %d, several %d, barred %d, not allowed %d", s.Pods, s.NUMANodes, s.Nodes, s.Nothing, s.Several, s.Barred, s.NotAllowed)
	for _, l := range s.Missing {
		fmt.Fprintf(&b, "; %s alone %d by %d to %d, with others %d", l.Resource, l.Alone, l.Least, l.Most, l.WithOthers)
	}
	for _, x := range s.Bars {
		fmt.Fprintf(&b, "; %s alone %d, with amounts %d", x.Reason, x.Alone, x.WithAmounts)
	}
	for _, r := range s.Reserved {
		fmt.Fprintf(&b, "; reserved %d keep %d %s off %d", r.Most, r.Value, r.Resource, r.Places)
	}
	for _, x := range s.Smaller {
		fmt.Fprintf(&b, "; %d %s places %d", x.To, x.Resource, x.Pods)
	}
	return b.String()
}

// scarcity is a fleet with pods, and the counts of the shapes that it rejects.
type scarcity struct {
	name  string
	kind  Kind
	items []Item
	want  []string
}

// onNUMANodes has fleets whose places are NUMA nodes: of 7 and 8 CPUs, and of 31 and 32 GiB.
func onNUMANodes(t *testing.T) []scarcity {
	t.Helper()
	return []scarcity{
		{
			// NUMA node 1 of each node takes a pod. NUMA node 0 has 7 CPUs, because 1 is reserved.
			"a reserved CPU", kind(t, 2),
			[]Item{item("eight", 8, 4)},
			[]string{"2 pods, 4 NUMA nodes, 0 nodes: nothing 0, several 0, barred 0, not allowed 0; cpu alone 4 by 1 to 8, with others 0; reserved 1 keep 8 cpu off 2; 7 cpu places 2"},
		},
		{
			// Three CPUs are left on NUMA node 1, and 2 on NUMA node 0. Memory is left everywhere.
			"no CPUs beside memory", kind(t, 1),
			[]Item{item("five", 5, 4)},
			[]string{"2 pods, 2 NUMA nodes, 0 nodes: nothing 0, several 0, barred 0, not allowed 0; cpu alone 2 by 2 to 3, with others 0; 3 cpu places 1"},
		},
		{
			// Of 31 and 32 GiB, 11 and 12 are left beside 5 and 6 CPUs.
			"no memory beside CPUs", kind(t, 1),
			[]Item{item("fat", 2, 3).with(20*gib, 0)},
			[]string{"1 pods, 2 NUMA nodes, 0 nodes: nothing 0, several 0, barred 0, not allowed 0; memory alone 2 by 8589934592 to 9663676416, with others 0; 12884901888 memory places 1"},
		},
		{
			// The other pods have 4 CPUs of each NUMA node. The GPUs are free beside 4 and 3 CPUs.
			"no CPUs beside GPUs", kind(t, 1).withGPUs(t),
			[]Item{item("small", 4, 2), item("train", 6, 2).with(gib, 1)},
			[]string{"2 pods, 2 NUMA nodes, 0 nodes: nothing 0, several 0, barred 0, not allowed 0; cpu alone 2 by 2 to 3, with others 0; 4 cpu places 1"},
		},
		{
			// The pods with a GPU leave 4 and 3 CPUs, and no GPU.
			"several", kind(t, 1).withGPUs(t),
			[]Item{item("train", 4, 2).with(gib, 1), item("more", 5, 1).with(gib, 1)},
			[]string{"1 pods, 2 NUMA nodes, 0 nodes: nothing 0, several 2, barred 0, not allowed 0; cpu alone 0 by 0 to 0, with others 2; example.com/gpu alone 0 by 0 to 0, with others 2"},
		},
	}
}

// onSomeNodes has fleets with other places, with nodes that some pods avoid, and with several
// shapes.
func onSomeNodes(t *testing.T) []scarcity {
	t.Helper()
	elsewhere := func(i Item) Item {
		i.Pod.Constraint, i.Pod.Allowed = "n-2", func(n *fleet.Node) bool { return n.Name == "n-2" }
		return i
	}
	return []scarcity{
		{
			// Nothing is aligned, so the node is one place. Its 15 CPUs have 5 left.
			"the whole node", kind(t, 1).under(t, func(p *node.Policy) { p.Topology = node.TopologyNone }),
			[]Item{item("ten", 10, 2)},
			[]string{"1 pods, 0 NUMA nodes, 1 nodes: nothing 0, several 0, barred 0, not allowed 0; cpu alone 1 by 5 to 5, with others 0; 5 cpu places 1"},
		},
		{
			// Each NUMA node gives memory to a pod, so no pod has memory of both (R-MEM-22).
			// That keeps nothing off: a pod has its memory on one of them, and its CPUs on both.
			"the whole node, with memory of one NUMA node", kind(t, 1).under(t, func(p *node.Policy) { p.Topology = node.TopologyBestEffort }),
			[]Item{item("five", 5, 2), item("six", 6, 1)},
			[]string{"1 pods, 0 NUMA nodes, 1 nodes: nothing 0, several 0, barred 0, not allowed 0; cpu alone 1 by 1 to 1, with others 0; 5 cpu places 1"},
		},
		{
			// Of the NUMA nodes, which have 2 and 3 CPUs left beside 5, the last pod takes 3.
			"a smaller and a much smaller request", kind(t, 2),
			[]Item{item("five", 5, 8), item("three", 3, 1)},
			[]string{"4 pods, 4 NUMA nodes, 0 nodes: nothing 0, several 0, barred 0, not allowed 0; cpu alone 4 by 2 to 5, with others 0; 3 cpu places 1; 2 cpu places 3"},
		},
		{
			// The first pod has memory of both NUMA nodes as a group, and all of NUMA node 0. No
			// pod on one NUMA node gets memory of the group (R-MEM-22). CPUs are missing as well.
			"memory of a group, beside CPUs", kind(t, 1).under(t, func(p *node.Policy) { p.Topology = node.TopologyRestricted }),
			[]Item{item("wide", 9, 1).with(40*gib, 0), item("seven", 7, 1)},
			[]string{"1 pods, 2 NUMA nodes, 0 nodes: nothing 0, several 2, barred 0, not allowed 0; cpu alone 0 by 0 to 0, with others 2; memory alone 0 by 0 to 0, with others 1; memoryGroup alone 0, with amounts 2"},
		},
		{
			"one of two nodes is allowed", kind(t, 2),
			[]Item{elsewhere(item("eight", 8, 2))},
			[]string{"1 pods, 2 NUMA nodes, 0 nodes: nothing 0, several 0, barred 0, not allowed 1; cpu alone 2 by 1 to 8, with others 0; reserved 1 keep 8 cpu off 1; 7 cpu places 1"},
		},
		{
			// More pods are rejected of the second shape, so it comes first.
			"two shapes", kind(t, 1),
			[]Item{item("eight", 8, 2), item("wide", 9, 3)},
			[]string{
				"3 pods, 2 NUMA nodes, 0 nodes: nothing 0, several 0, barred 0, not allowed 0; cpu alone 2 by 2 to 9, with others 0; 7 cpu places 1",
				"1 pods, 2 NUMA nodes, 0 nodes: nothing 0, several 0, barred 0, not allowed 0; cpu alone 2 by 1 to 8, with others 0; reserved 1 keep 8 cpu off 1; 7 cpu places 1",
			},
		},
	}
}

// TestScarcity compares the counts of small fleets with those that a reader can count.
func TestScarcity(t *testing.T) {
	for _, test := range slices.Concat(onNUMANodes(t), onSomeNodes(t)) {
		t.Run(test.name, func(t *testing.T) {
			r, err := Fit(t.Context(), []Kind{test.kind}, test.items, Options{})
			if err != nil {
				t.Fatal(err)
			}
			s, err := r.Scarcity(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i := range s.Shapes {
				got = append(got, s.Shapes[i].String())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("shapes (-want +got):\n%s", diff)
			}
			if s.Pods != r.Rejected {
				t.Errorf("%d pods, and %d are rejected", s.Pods, r.Rejected)
			}
		})
	}
}

// TestScarcityOfMany checks that the shapes beyond the limit are counted, and which resource they
// lack.
func TestScarcityOfMany(t *testing.T) {
	var items []Item
	for cpus := range 15 {
		items = append(items, item(fmt.Sprint("wide", cpus), 9+cpus, int64(1+cpus)))
	}
	r, err := Fit(t.Context(), []Kind{kind(t, 1)}, items, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.Scarcity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Shapes) != maxShapes || s.More != 5 || s.MorePods != 1+2+3+4+5 || s.Pods != 120 {
		t.Errorf("%d shapes, and %d more with %d of %d pods; expected %d, and 5 more with 15 of 120", len(s.Shapes), s.More, s.MorePods, s.Pods, maxShapes)
	}
	if len(s.Alone) != 1 || s.Alone[0] != (PodsOf{request.CPU, 120}) {
		t.Errorf("alone is %v; expected CPUs for all", s.Alone)
	}
}

// TestScarcityOfLeftOut checks what pods lack that a number of nodes leaves out, beside others and
// alone.
func TestScarcityOfLeftOut(t *testing.T) {
	for _, items := range [][]Item{{item("small", 4, 3), item("wide", 9, 30)}, {item("wide", 9, 30)}} {
		r, _, err := Fewest(t.Context(), kind(t, 0), items, 10, Ways(), Options{})
		if r == nil {
			t.Fatal(err)
		}
		s, err := r.Scarcity(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := "30 pods, 2 NUMA nodes, 0 nodes: nothing 0, several 0, barred 0, not allowed 0; cpu alone 2 by 1 to 2, with others 0; 8 cpu places 30"
		if len(s.Shapes) != 1 || !s.Shapes[0].Empty || s.Shapes[0].String() != want {
			t.Errorf("%d items: shapes %v; expected one of an empty node: %s", len(items), s.Shapes, want)
		}
	}
}
