package machine_test

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
)

const gib = 1 << 30

func mustNew(t *testing.T, d machine.Description) *machine.Machine {
	t.Helper()
	m, err := machine.New(d)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func core(socket, uncore int, threads ...int) machine.CoreDescription {
	return machine.CoreDescription{Socket: socket, Uncore: uncore, Threads: threads}
}

// dual describes two sockets with one NUMA node each, which has two cores with two threads, and a
// third NUMA node with only memory. The NUMA nodes are out of order.
func dual() machine.Description {
	return machine.Description{Nodes: []machine.NodeDescription{
		{ID: 2, Memory: 8 * gib},
		{
			ID: 1, Memory: 4 * gib, HugePages: []machine.HugePages{{SizeKiB: 1 << 20, Count: 1}, {SizeKiB: 2048, Count: 10}},
			Cores: []machine.CoreDescription{core(1, machine.NoUncore, 6, 2), core(1, machine.NoUncore, 3, 7)},
		},
		{
			ID: 0, Memory: 4 * gib, HugePages: []machine.HugePages{{SizeKiB: 64, Count: 0}},
			Cores: []machine.CoreDescription{core(0, machine.NoUncore, 0, 4), core(0, machine.NoUncore, 1, 5)},
		},
	}}
}

func TestDescriptionBecomesMachine(t *testing.T) {
	m := mustNew(t, dual())
	for what, c := range map[string]struct{ got, want any }{
		"all CPUs":              {m.AllCPUs().String(), "0-7"},
		"NUMA nodes":            {m.NodeMask().String(), "{0-2}"},
		"units":                 {units(m.Sockets()) + " " + units(m.CPUNodes()) + " " + units(m.Uncores()), "0:0-1,4-5 1:2-3,6-7 0:0-1,4-5 1:2-3,6-7 0:0-1,4-5 1:2-3,6-7"},
		"cores":                 {units(m.Cores()), "0:0,4 1:1,5 2:2,6 3:3,7"},
		"CPU 6":                 {first(m.CPU(6)), machine.CPU{ID: 6, Core: 2, Uncore: 1, Node: 1, Socket: 1}},
		"memory types":          {strings.Join(m.MemoryTypes(), " "), "memory hugepages-64Ki hugepages-2Mi hugepages-1Gi"},
		"index of 2Mi":          {m.MemoryType("hugepages-2Mi"), 2},
		"index of unknown":      {m.MemoryType("hugepages-4Mi"), -1},
		"CPUs of {1-2}":         {m.CPUsOf(mask.Of(1, 2)).String(), "2-3,6-7"},
		"nodes of 0,7":          {m.NodesOf(cpuset.Of(0, 7)), mask.Of(0, 1)},
		"nodes of a stranger":   {m.NodesOf(cpuset.Of(8)), mask.Mask(0)},
		"averages":              {[]int{m.CPUsPerCore(), m.CPUsPerSocket(), m.CPUsPerUncore()}, []int{2, 4, 4}},
		"totals":                {[]int{m.NumCPUs(), m.NumSockets()}, []int{8, 2}},
		"node without CPUs":     {first(m.Node(2)), machine.Node{ID: 2, Memory: 8 * gib}},
		"distances, none given": {m.HasDistances(), false},
		"distance, none given":  {m.Distance(0, 1), 0},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s: %v, want %v", what, c.got, c.want)
		}
	}
}

func first[T any](v T, ok bool) any {
	if !ok {
		return "not found"
	}
	return v
}

func units(list []machine.Unit) string {
	parts := make([]string, len(list))
	for i, u := range list {
		parts[i] = fmt.Sprintf("%d:%s", u.ID, u.CPUs)
	}
	return strings.Join(parts, " ")
}

func TestUnknownIDsAreNotFound(t *testing.T) {
	m := mustNew(t, dual())
	for _, id := range []int{-1, 8, cpuset.MaxID + 1, math.MaxInt} {
		if c, ok := m.CPU(id); ok {
			t.Errorf("CPU %d is %+v", id, c)
		}
	}
	for _, id := range []int{-1, 3, 64, math.MaxInt} {
		if n, ok := m.Node(id); ok {
			t.Errorf("NUMA node %d is %+v", id, n)
		}
	}
}

// TestAveragesDivideTheReportedTotals checks that averages use the totals that the machine reports,
// not the listed CPUs and sockets, and are rounded down (R-CPU-2, R-CPU-3, Q-16).
func TestAveragesDivideTheReportedTotals(t *testing.T) {
	hybrid := machine.Description{CPUs: 7, Sockets: 2, Nodes: []machine.NodeDescription{{Cores: []machine.CoreDescription{
		core(0, 0, 0, 1), core(0, 0, 2, 3), core(0, 4, 4), core(0, 5, 5),
	}}}}
	m := mustNew(t, hybrid)
	got := []int{m.NumCPUs(), m.NumSockets(), m.CPUsPerCore(), m.CPUsPerSocket(), m.CPUsPerUncore()}
	if want := []int{7, 2, 1, 3, 2}; !reflect.DeepEqual(got, want) {
		t.Errorf("CPUs, sockets and the averages of core, socket and uncore cache are %v, want %v", got, want)
	}
}

func TestDistances(t *testing.T) {
	node := func(id int, distances ...int) machine.NodeDescription {
		return machine.NodeDescription{ID: id, Cores: []machine.CoreDescription{core(0, 0, id)}, Distances: distances}
	}
	for name, c := range map[string]struct {
		nodes []machine.NodeDescription
		a, b  int
		want  int
	}{
		"dense":                   {[]machine.NodeDescription{node(0, 10, 21), node(1, 22, 10)}, 1, 0, 22},
		"dense, out of order":     {[]machine.NodeDescription{node(1, 22, 10), node(0, 10, 21)}, 0, 1, 21},
		"sparse, by id":           {[]machine.NodeDescription{node(0, 10, -1, 12), node(2, 32, -1, 10)}, 2, 0, 32},
		"sparse, by position":     {[]machine.NodeDescription{node(0, 10, 12), node(2, 32, 10)}, 2, 0, 32},
		"sparse, without node 0":  {[]machine.NodeDescription{node(3, 10, 12), node(5, 32, 10)}, 3, 5, 12},
		"each row its own way":    {[]machine.NodeDescription{node(0, 10, 12), node(2, 32, -1, 10)}, 2, 2, 10},
		"longer than the ids":     {[]machine.NodeDescription{node(0, 10, 12, 40, 40), node(1, 32, 10, 40, 40)}, 1, 0, 32},
		"one row is missing":      {[]machine.NodeDescription{node(0, 10, 12), node(1)}, 0, 1, 0},
		"a NUMA node not there":   {[]machine.NodeDescription{node(0, 10, 12), node(2, 32, 10)}, 0, 1, 0},
		"an id out of the range":  {[]machine.NodeDescription{node(0, 10)}, 0, 64, 0},
		"a negative id":           {[]machine.NodeDescription{node(0, 10)}, -1, 0, 0},
		"zero distances are kept": {[]machine.NodeDescription{node(0, 0)}, 0, 0, 0},
	} {
		m := mustNew(t, machine.Description{Nodes: c.nodes})
		if got := m.Distance(c.a, c.b); got != c.want {
			t.Errorf("%s: from %d to %d it is %d, want %d", name, c.a, c.b, got, c.want)
		}
		if want := name != "one row is missing"; m.HasDistances() != want {
			t.Errorf("%s: distances are known: %v", name, m.HasDistances())
		}
	}
}

func TestHugePageType(t *testing.T) {
	for kib, want := range map[int64]string{
		1: "hugepages-1Ki", 64: "hugepages-64Ki", 1023: "hugepages-1023Ki", 1024: "hugepages-1Mi", 1025: "hugepages-1025Ki",
		2048: "hugepages-2Mi", 32 << 10: "hugepages-32Mi", 512 << 10: "hugepages-512Mi", 1 << 20: "hugepages-1Gi",
		16 << 20: "hugepages-16Gi", 3 << 19: "hugepages-1536Mi", 1 << 30: "hugepages-1Ti",
	} {
		if got := machine.HugePageType(kib); got != want {
			t.Errorf("pages of %d KiB are %s, want %s", kib, got, want)
		}
	}
}

// rejected lists the ways in which a description can be wrong. Each is a change of dual, with the
// words by which the error must name the location.
var rejected = map[string]struct {
	change func(d *machine.Description)
	names  string
}{
	"no NUMA node":          {func(d *machine.Description) { d.Nodes = nil }, "no NUMA node"},
	"no CPU":                {func(d *machine.Description) { d.Nodes = d.Nodes[:1] }, "lists a CPU"},
	"negative CPU count":    {func(d *machine.Description) { d.CPUs = -1 }, "-1 CPUs"},
	"negative socket count": {func(d *machine.Description) { d.Sockets = -2 }, "-2 sockets"},
	"negative node id":      {func(d *machine.Description) { d.Nodes[0].ID = -1 }, "NUMA node id -1"},
	"node id too large":     {func(d *machine.Description) { d.Nodes[0].ID = 64 }, "NUMA node id 64"},
	"node twice":            {func(d *machine.Description) { d.Nodes[0].ID = 1 }, "NUMA node 1 is listed twice"},
	"negative memory":       {func(d *machine.Description) { d.Nodes[0].Memory = -1 }, "NUMA node 2 reports -1 bytes"},
	"memory overflows":      {func(d *machine.Description) { d.Nodes[0].Memory = math.MaxInt64 }, "add up"},
	"pages overflow": {func(d *machine.Description) {
		d.Nodes[0].HugePages = []machine.HugePages{{SizeKiB: 1 << 50, Count: 1 << 50}}
	}, "NUMA node 2 reports 1125899906842624 huge pages"},
	"size overflows": {func(d *machine.Description) {
		d.Nodes[0].HugePages = []machine.HugePages{{SizeKiB: math.MaxInt64 / 1000, Count: 1}}
	}, "NUMA node 2 reports 1 huge pages"},
	"sizes overflow together": {func(d *machine.Description) {
		d.Nodes[0].HugePages = []machine.HugePages{{SizeKiB: 1 << 52, Count: 1}, {SizeKiB: 1<<52 + 1, Count: 1}}
	}, "up to NUMA node 2"},
	"page size zero":     {func(d *machine.Description) { d.Nodes[1].HugePages[0].SizeKiB = 0 }, "NUMA node 1 reports 1 huge pages of 0 KiB"},
	"negative pages":     {func(d *machine.Description) { d.Nodes[1].HugePages[0].Count = -1 }, "NUMA node 1 reports -1 huge pages"},
	"page size twice":    {func(d *machine.Description) { d.Nodes[1].HugePages[0].SizeKiB = 2048 }, "huge pages of 2048 KiB twice"},
	"core without CPUs":  {func(d *machine.Description) { d.Nodes[1].Cores[0].Threads = nil }, "NUMA node 1 lists a core without threads"},
	"negative thread":    {func(d *machine.Description) { d.Nodes[1].Cores[0].Threads[1] = -1 }, "thread -1"},
	"thread too large":   {func(d *machine.Description) { d.Nodes[1].Cores[0].Threads[1] = cpuset.MaxID + 1 }, "thread 65536"},
	"thread twice":       {func(d *machine.Description) { d.Nodes[1].Cores[0].Threads[1] = 6 }, "thread 6 is listed twice, on NUMA nodes 1 and 1"},
	"thread on two":      {func(d *machine.Description) { d.Nodes[1].Cores[0].Threads[1] = 4 }, "thread 4 is listed twice, on NUMA nodes 0 and 1"},
	"negative socket":    {func(d *machine.Description) { d.Nodes[1].Cores[1].Socket = -1 }, "NUMA node 1 lists a core on socket -1"},
	"negative uncore":    {func(d *machine.Description) { d.Nodes[1].Cores[1].Uncore = -2 }, "uncore cache -2"},
	"too few distances":  {func(d *machine.Description) { distances(d, []int{10, 20}) }, "lists 2 distances for 3 NUMA nodes"},
	"negative distance":  {func(d *machine.Description) { distances(d, []int{10, 20, -20}) }, "to 2 is -20"},
	"distance too large": {func(d *machine.Description) { distances(d, []int{10, 20, math.MaxInt32 + 1}) }, "to 2 is 2147483648"},
}

func distances(d *machine.Description, row []int) {
	for i := range d.Nodes {
		d.Nodes[i].Distances = row
	}
}

func TestRejects(t *testing.T) {
	for name, c := range rejected {
		d := dual()
		c.change(&d)
		m, err := machine.New(d)
		if m != nil || !errors.Is(err, machine.ErrInvalid) || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%s: machine %v, error %v; want no machine and an error with %q", name, m != nil, err, c.names)
		}
	}
}

// TestManyUnits uses a socket and a cache for every CPU. If the code is quadratic in the number of
// units, this test does not end.
func TestManyUnits(t *testing.T) {
	const n = 1 << 13
	var d machine.Description
	for id := range n {
		if id%(n/64) == 0 {
			d.Nodes = append(d.Nodes, machine.NodeDescription{ID: id / (n / 64)})
		}
		at := &d.Nodes[len(d.Nodes)-1]
		at.Cores = append(at.Cores, core(id, id, id))
	}
	m := mustNew(t, d)
	if len(m.Sockets()) != n || len(m.Index().NodeSockets[63]) != n/64 {
		t.Errorf("%d sockets, of which the last NUMA node has %d", len(m.Sockets()), len(m.Index().NodeSockets[63]))
	}
}

// BenchmarkNew measures New on a machine with two sockets, each with 64 cores in four NUMA nodes.
func BenchmarkNew(b *testing.B) {
	var d machine.Description
	for n := range 8 {
		node := machine.NodeDescription{ID: n, Memory: 64 * gib, Distances: make([]int, 8)}
		for c := range 16 {
			id := n*16 + c
			node.Cores = append(node.Cores, core(n/4, id/8, id, id+128))
		}
		d.Nodes = append(d.Nodes, node)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := machine.New(d); err != nil {
			b.Fatal(err)
		}
	}
}
