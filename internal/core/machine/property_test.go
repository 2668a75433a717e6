package machine_test

import (
	"errors"
	"maps"
	"math"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
)

// descriptions draws machines that New must accept: sparse NUMA node ids in any order; NUMA nodes
// without CPUs or memory; cores with one to three threads; gaps where threads are offline; sockets
// and caches that span NUMA nodes; and distances by id, by position, or for only some NUMA nodes.
func descriptions() *rapid.Generator[machine.Description] {
	return rapid.Custom(func(t *rapid.T) machine.Description {
		count := rapid.IntRange(1, 6).Draw(t, "nodes")
		ids := rapid.SliceOfNDistinct(rapid.IntRange(0, rapid.SampledFrom([]int{count - 1, 12, mask.MaxNode}).Draw(t, "highest")),
			count, count, rapid.ID).Draw(t, "ids")
		threads := make([]int, 81)
		for i := range threads {
			threads[i] = i
		}
		threads = rapid.Permutation(threads).Draw(t, "threads")
		byPosition, someRows := rapid.Bool().Draw(t, "byPosition"), rapid.Bool().Draw(t, "someRows")
		d := machine.Description{Nodes: make([]machine.NodeDescription, count)}
		for i, id := range ids {
			n := &d.Nodes[i]
			n.ID, n.Memory = id, rapid.Int64Range(0, 1<<40).Draw(t, "memory")
			for _, size := range rapid.SliceOfNDistinct(rapid.SampledFrom([]int64{64, 2048, 1 << 20}), 0, 3, rapid.ID).Draw(t, "sizes") {
				n.HugePages = append(n.HugePages, machine.HugePages{SizeKiB: size, Count: rapid.Int64Range(0, 100).Draw(t, "pages")})
			}
			least := 0
			if i == 0 {
				least = 1
			}
			for range rapid.IntRange(least, 4).Draw(t, "cores") {
				width := rapid.IntRange(1, 3).Draw(t, "width")
				n.Cores = append(n.Cores, machine.CoreDescription{
					Socket: rapid.IntRange(0, 3).Draw(t, "socket"), Threads: threads[:width:width],
					Uncore: rapid.IntRange(machine.NoUncore, 5).Draw(t, "uncore"),
				})
				threads = threads[width:]
			}
			length := slices.Max(ids) + 1
			if byPosition {
				length = count
			}
			if !someRows || rapid.Bool().Draw(t, "row") {
				n.Distances = rapid.SliceOfN(rapid.IntRange(0, 255), length, length).Draw(t, "distances")
			}
		}
		return d
	})
}

// twin computes answers from the whole description.
type twin struct{ d machine.Description }

func (w twin) node(id int) (machine.NodeDescription, int) {
	nodes := slices.Clone(w.d.Nodes)
	slices.SortFunc(nodes, func(a, b machine.NodeDescription) int { return a.ID - b.ID })
	i := slices.IndexFunc(nodes, func(n machine.NodeDescription) bool { return n.ID == id })
	return nodes[i], i
}

func (w twin) cpus() map[int]machine.CPU {
	all := map[int]machine.CPU{}
	for _, n := range w.d.Nodes {
		for _, c := range n.Cores {
			for _, id := range c.Threads {
				all[id] = machine.CPU{ID: id, Core: slices.Min(c.Threads), Uncore: c.Uncore, Node: n.ID, Socket: c.Socket}
				if c.Uncore == machine.NoUncore {
					all[id] = machine.CPU{ID: id, Core: slices.Min(c.Threads), Uncore: c.Socket, Node: n.ID, Socket: c.Socket}
				}
			}
		}
	}
	return all
}

// units returns the ids of the CPUs of each unit.
func (w twin) units(of func(machine.CPU) int) map[int][]int {
	all := map[int][]int{}
	cpus := w.cpus()
	for _, id := range slices.Sorted(maps.Keys(cpus)) {
		u := of(cpus[id])
		all[u] = append(all[u], id)
	}
	return all
}

func (w twin) distance(a, b int) int {
	for _, n := range w.d.Nodes {
		if len(n.Distances) == 0 {
			return 0
		}
	}
	highest := 0
	for _, n := range w.d.Nodes {
		highest = max(highest, n.ID)
	}
	row, _ := w.node(a)
	if len(row.Distances) > highest {
		return row.Distances[b]
	}
	_, position := w.node(b)
	return row.Distances[position]
}

func TestMachineIsItsDescription(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := descriptions().Draw(t, "description")
		m, err := machine.New(d)
		if err != nil {
			t.Fatal(err)
		}
		w := twin{d}
		cpus := w.cpus()
		if got := m.AllCPUs().IDs(); !slices.Equal(got, slices.Sorted(maps.Keys(cpus))) || len(m.CPUs()) != len(cpus) {
			t.Fatalf("CPUs %v", got)
		}
		for i, id := range m.AllCPUs().IDs() {
			if got, ok := m.CPU(id); !ok || got != cpus[id] || m.CPUs()[i] != got {
				t.Fatalf("CPU %d is %+v, want %+v", id, got, cpus[id])
			}
		}
		for name, c := range map[string]struct {
			got []machine.Unit
			of  func(machine.CPU) int
		}{
			"cores": {m.Cores(), func(c machine.CPU) int { return c.Core }}, "sockets": {m.Sockets(), func(c machine.CPU) int { return c.Socket }},
			"uncore caches": {m.Uncores(), func(c machine.CPU) int { return c.Uncore }}, "nodes": {m.CPUNodes(), func(c machine.CPU) int { return c.Node }},
		} {
			got := map[int][]int{}
			for i, u := range c.got {
				if got[u.ID] = u.CPUs.IDs(); u.Size != len(got[u.ID]) || (i > 0 && c.got[i-1].ID >= u.ID) {
					t.Fatalf("%s: unit %d of size %d with %s", name, u.ID, u.Size, u.CPUs)
				}
			}
			if want := w.units(c.of); !reflect.DeepEqual(got, want) {
				t.Fatalf("%s are %v, want %v", name, got, want)
			}
		}
	})
}

func TestNodesAreTheirDescription(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := descriptions().Draw(t, "description")
		m, err := machine.New(d)
		if err != nil {
			t.Fatal(err)
		}
		w := twin{d}
		byNode := w.units(func(c machine.CPU) int { return c.Node })
		types := map[string]bool{machine.Memory: true}
		for i, n := range m.Nodes() {
			want, position := w.node(n.ID)
			if i != position || n.Memory != want.Memory || !slices.Equal(n.CPUs.IDs(), slices.Clone(byNode[n.ID])) {
				t.Fatalf("at %d stands %+v, want %+v", i, n, want)
			}
			if got, ok := m.Node(n.ID); !ok || got.ID != n.ID || !m.NodeMask().Has(n.ID) {
				t.Fatalf("NUMA node %d is not found", n.ID)
			}
			for k, p := range n.HugePages {
				if !slices.Contains(want.HugePages, p) || (k > 0 && n.HugePages[k-1].SizeKiB >= p.SizeKiB) {
					t.Fatalf("NUMA node %d has huge pages %v, want %v", n.ID, n.HugePages, want.HugePages)
				}
				types[machine.HugePageType(p.SizeKiB)] = true
			}
			if len(n.HugePages) != len(want.HugePages) {
				t.Fatalf("NUMA node %d has huge pages %v, want %v", n.ID, n.HugePages, want.HugePages)
			}
			for _, other := range m.Nodes() {
				if got := m.Distance(n.ID, other.ID); got != w.distance(n.ID, other.ID) {
					t.Fatalf("from %d to %d it is %d, want %d", n.ID, other.ID, got, w.distance(n.ID, other.ID))
				}
			}
		}
		if len(m.Nodes()) != len(d.Nodes) || m.NodeMask().Len() != len(d.Nodes) {
			t.Fatalf("%d NUMA nodes, mask %s", len(m.Nodes()), m.NodeMask())
		}
		if got := m.MemoryTypes(); len(got) != len(types) || slices.ContainsFunc(got, func(name string) bool { return !types[name] }) {
			t.Fatalf("memory types %v, want %v", got, types)
		}
	})
}

func TestIndexIsConsistent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, err := machine.New(descriptions().Draw(t, "description"))
		if err != nil {
			t.Fatal(err)
		}
		x := m.Index()
		for id, p := range x.Places {
			c, ok := m.CPU(id)
			if !ok {
				if p != (machine.Place{Core: -1, Uncore: -1, Node: -1, Socket: -1}) {
					t.Fatalf("thread %d is offline and lies at %+v", id, p)
				}
				continue
			}
			at := machine.CPU{
				ID: id, Core: m.Cores()[p.Core].ID, Uncore: m.Uncores()[p.Uncore].ID, Node: m.CPUNodes()[p.Node].ID, Socket: m.Sockets()[p.Socket].ID,
			}
			if at != c {
				t.Fatalf("thread %d lies at %+v, it is %+v", id, at, c)
			}
		}
		checkCores(t, m, m.Sockets(), x.SocketCores)
		checkCores(t, m, m.CPUNodes(), x.NodeCores)
		checkCores(t, m, m.Uncores(), x.UncoreCores)
		checkParts(t, m.CPUNodes(), m.Sockets(), x.NodeSockets)
		checkParts(t, m.CPUNodes(), m.Uncores(), x.NodeUncores)
		checkParts(t, m.Sockets(), m.CPUNodes(), x.SocketNodes)
	})
}

func checkCores(t *rapid.T, m *machine.Machine, units []machine.Unit, lists [][]int32) {
	for i, u := range units {
		var want []int32
		for c, core := range m.Cores() {
			if u.CPUs.Contains(core.CPUs) {
				want = append(want, int32(c))
			}
		}
		if !slices.Equal(lists[i], want) {
			t.Fatalf("unit %d has cores %v, want %v", u.ID, lists[i], want)
		}
	}
}

func checkParts(t *rapid.T, outer, inner []machine.Unit, lists [][]machine.Part) {
	for i, o := range outer {
		var want []machine.Part
		for k, in := range inner {
			if o.CPUs.Intersects(in.CPUs) {
				want = append(want, machine.Part{Unit: int32(k), CPUs: o.CPUs.Intersection(in.CPUs)})
			}
		}
		same := func(a, b machine.Part) bool { return a.Unit == b.Unit && a.CPUs.Equal(b.CPUs) }
		if !slices.EqualFunc(lists[i], want, same) {
			t.Fatalf("unit %d has parts %v, want %v", o.ID, lists[i], want)
		}
	}
}

// TestDescriptionIsCopied checks that later changes to the description do not affect the machine.
func TestDescriptionIsCopied(t *testing.T) {
	d := dual()
	distances(&d, []int{10, 20, 30})
	m, same := mustNew(t, d), mustNew(t, d)
	for i := range d.Nodes {
		n := &d.Nodes[i]
		n.ID, n.Memory, n.Distances[0] = 9, 9, 9
		clear(n.HugePages)
		for _, c := range n.Cores {
			clear(c.Threads)
		}
		clear(n.Cores)
	}
	if !reflect.DeepEqual(m, same) || m.Distance(0, 0) != 10 || m.AllCPUs().String() != "0-7" {
		t.Errorf("the machine changed with its description: %+v", m)
	}
}

// FuzzNew builds a description from arbitrary numbers, four bytes per core, so that ids collide and
// exceed their ranges.
func FuzzNew(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0}, int64(1<<30), int64(2048), int64(3), 0, 0)
	f.Add([]byte{0, 0, 0, 0, 1, 1, 1, 1, 64, 2, 2, 2}, int64(-1), int64(0), int64(-1), 3, 1)
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0}, int64(math.MaxInt64), int64(math.MaxInt64), int64(1), -1, 10)
	f.Add([]byte{1, 0, 3, 4, 1, 0, 5, 6, 2, 9, 255, 255}, int64(1), int64(1<<20), int64(1<<40), 0, -10)
	f.Fuzz(func(t *testing.T, cores []byte, memory, pageSize, pages int64, offset, distance int) {
		d := machine.Description{CPUs: offset, Sockets: offset}
		for ; len(cores) >= 4; cores = cores[4:] {
			id := int(int8(cores[0]))
			i := slices.IndexFunc(d.Nodes, func(n machine.NodeDescription) bool { return n.ID == id })
			if i < 0 || cores[1] == 255 {
				i = len(d.Nodes)
				d.Nodes = append(d.Nodes, machine.NodeDescription{
					ID: id, Memory: memory, HugePages: []machine.HugePages{{SizeKiB: pageSize, Count: pages}}, Distances: make([]int, cores[1]%8),
				})
				for k := range d.Nodes[i].Distances {
					d.Nodes[i].Distances[k] = distance
				}
			}
			d.Nodes[i].Cores = append(d.Nodes[i].Cores, core(int(int8(cores[1])), int(int8(cores[2])), int(cores[2])+offset, int(cores[3])-1))
		}
		m, err := machine.New(d)
		if (m == nil) == (err == nil) {
			t.Fatalf("machine %v and error %v", m != nil, err)
		}
		if err != nil && !errors.Is(err, machine.ErrInvalid) {
			t.Fatalf("error %v is not ErrInvalid", err)
		}
		if m != nil && m.AllCPUs().IsEmpty() {
			t.Fatal("a machine without CPUs")
		}
	})
}
