package discover

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/google/cadvisor/lib/model"
	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
)

// anInfo draws a legal machine. Threads are spread arbitrarily over cores and NUMA nodes, ids have
// gaps, and NUMA nodes may lack CPUs, memory, caches or distances.
func anInfo(t *rapid.T) *model.MachineInfo {
	ids := rapid.SliceOfNDistinct(rapid.IntRange(0, mask.MaxNode), 1, 9, rapid.ID).Draw(t, "node ids")
	slices.Sort(ids)
	threads := rapid.Permutation(rapid.SliceOfNDistinct(rapid.IntRange(0, 300), 1, 40, rapid.ID).Draw(t, "ids")).Draw(t, "threads")
	info := &model.MachineInfo{NumCores: len(threads), NumSockets: rapid.IntRange(0, 3).Draw(t, "sockets")}
	distances := rapid.Bool().Draw(t, "has distances")
	for _, id := range ids {
		n := model.Node{Id: id, Memory: rapid.Uint64Range(0, 1<<45).Draw(t, "memory")}
		for _, size := range rapid.SliceOfNDistinct(rapid.SampledFrom([]uint64{64, 2048, 1 << 20}), 0, 3, rapid.ID).Draw(t, "sizes") {
			n.HugePages = append(n.HugePages, model.HugePagesInfo{PageSize: size, NumPages: rapid.Uint64Range(0, 1000).Draw(t, "pages")})
		}
		if distances {
			n.Distances = rapid.SliceOfN(rapid.Uint64Range(10, 255), len(ids), len(ids)).Draw(t, "distances")
		}
		info.Topology = append(info.Topology, n)
	}
	for len(threads) > 0 {
		size := rapid.IntRange(1, min(4, len(threads))).Draw(t, "core size")
		core := model.Core{Threads: threads[:size], SocketID: rapid.IntRange(0, 3).Draw(t, "socket")}
		for _, id := range rapid.SliceOfN(rapid.IntRange(0, 5), 0, 2).Draw(t, "uncore caches") {
			core.UncoreCaches = append(core.UncoreCaches, model.Cache{Id: id, Level: 3})
		}
		n := &info.Topology[rapid.IntRange(0, len(ids)-1).Draw(t, "node")]
		n.Cores = append(n.Cores, core)
		threads = threads[size:]
	}
	return info
}

// TestFromInfoKeepsEverything compares the machine with the info, entry by entry.
func TestFromInfoKeepsEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		info := anInfo(t)
		f, err := found("m", info, kernel{})
		if err != nil {
			t.Fatal(err)
		}
		m := f.Machine
		if m.NumCPUs() != info.NumCores || (info.NumSockets != 0 && m.NumSockets() != info.NumSockets) {
			t.Fatalf("%d CPUs and %d sockets", m.NumCPUs(), m.NumSockets())
		}
		for i, n := range info.Topology {
			node := m.Nodes()[i]
			if node.ID != n.Id || node.Memory != int64(n.Memory) || len(node.HugePages) != len(n.HugePages) {
				t.Fatalf("node %+v for %+v", node, n)
			}
			for _, p := range n.HugePages {
				if !slices.Contains(node.HugePages, machine.HugePages{SizeKiB: int64(p.PageSize), Count: int64(p.NumPages)}) {
					t.Fatalf("node %d lacks %+v", n.Id, p)
				}
			}
			for j, d := range n.Distances {
				if got := m.Distance(n.Id, info.Topology[j].Id); len(n.Distances) <= m.NodeMask().Highest() && got != int(d) {
					t.Fatalf("distance %d to %d is %d, want %d", n.Id, info.Topology[j].Id, got, d)
				}
			}
			for _, core := range n.Cores {
				checkCore(t, m, n.Id, core)
			}
		}
	})
}

func checkCore(t *rapid.T, m *machine.Machine, node int, core model.Core) {
	want := machine.CPU{Core: slices.Min(core.Threads), Uncore: core.SocketID, Node: node, Socket: core.SocketID}
	if len(core.UncoreCaches) > 0 {
		want.Uncore = core.UncoreCaches[0].Id
	}
	for _, want.ID = range core.Threads {
		if got, ok := m.CPU(want.ID); !ok || got != want {
			t.Fatalf("CPU %+v, want %+v", got, want)
		}
	}
}

// TestWriteJSONRoundTrip checks that Read returns the MachineInfo that was written, and that
// writing it again yields the same bytes.
func TestWriteJSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, err := found("m", anInfo(t), kernel{isolation: anIsolation(t), caches: aDivision(t)})
		if err != nil {
			t.Fatal(err)
		}
		var first, second bytes.Buffer
		if err := f.WriteJSON(&first); err != nil {
			t.Fatal(err)
		}
		again, err := Read("again", first.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if got, want := again.Machine.Isolation(), f.Machine.Isolation(); !reflect.DeepEqual(got, want) {
			t.Fatalf("read back %+v, want %+v", got, want)
		}
		if got, want := again.Machine.Caches(), f.Machine.Caches(); got != want || !reflect.DeepEqual(again.Machine.L3s(), f.Machine.L3s()) {
			t.Fatalf("read back %+v with %+v, want %+v with %+v", got, again.Machine.L3s(), want, f.Machine.L3s())
		}
		text, err := Describe(f.Machine)
		if err != nil {
			t.Fatal(err)
		}
		if described, err := Read("described", text); err != nil || described.Machine.Caches() != f.Machine.Caches() || !reflect.DeepEqual(described.Machine.L3s(), f.Machine.L3s()) {
			t.Fatalf("described as %s: %v", text, err)
		}
		if !reflect.DeepEqual(again.Info, f.Info) {
			t.Fatalf("read back %+v, want %+v", again.Info, f.Info)
		}
		if err := again.WriteJSON(&second); err != nil || second.String() != first.String() {
			t.Fatalf("%v: wrote\n%s\nthen\n%s", err, &first, &second)
		}
	})
}

func TestWriteJSONKeepsUnknownFields(t *testing.T) {
	file := `{"new in 2030":{"a":[1.50,-2e3,true,null,"x, \"y\": {"]},` + small[1:]
	f, err := Read("m.json", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := f.WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	const want = `{
  "new in 2030": {"a": [1.50, -2e3, true, null, "x, \"y\": {"]},
  "num_cores": 2,
  "num_sockets": 1,
  "topology": [{"node_id": 0, "memory": 1024, "cores": [{"core_id": 0, "thread_ids": [0, 1], "socket_id": 0}]}]
}
`
	if out.String() != want {
		t.Errorf("wrote %s want %s", &out, want)
	}
}

func FuzzRead(f *testing.F) {
	files, err := filepath.Glob("../../../examples/machines/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(small))
	f.Add([]byte(`{"lscpu":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := Read("m.json", data)
		if (got == nil) == (err == nil) {
			t.Fatalf("got %v and %v, want one of them", got, err)
		}
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := got.WriteJSON(&out); err != nil {
			t.Fatal(err)
		}
		again, err := Read("again.json", out.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(again.Info, got.Info) {
			t.Fatalf("read back %+v, want %+v", again.Info, got.Info)
		}
	})
}
