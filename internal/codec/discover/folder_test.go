package discover

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/cadvisor/lib/model"
	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
)

// The files of a server with two sockets of two cores with two threads.
const (
	tableText = `{
   "cpus": [
      {"cpu": 0, "node": 0, "socket": 0, "core": 0, "l1d:l1i:l2:l3": "0:0:0:0", "online": true},
      {"cpu": 1, "node": 0, "socket": 0, "core": 1, "l1d:l1i:l2:l3": "1:1:1:0", "online": true},
      {"cpu": 2, "node": 1, "socket": 1, "core": 2, "l1d:l1i:l2:l3": "2:2:2:1", "online": true},
      {"cpu": 3, "node": 1, "socket": 1, "core": 3, "l1d:l1i:l2:l3": "3:3:3:1", "online": true},
      {"cpu": 4, "node": 0, "socket": 0, "core": 0, "l1d:l1i:l2:l3": "0:0:0:0", "online": true},
      {"cpu": 5, "node": 0, "socket": 0, "core": 1, "l1d:l1i:l2:l3": "1:1:1:0", "online": true},
      {"cpu": 6, "node": 1, "socket": 1, "core": 2, "l1d:l1i:l2:l3": "2:2:2:1", "online": true},
      {"cpu": 7, "node": 1, "socket": 1, "core": 3, "l1d:l1i:l2:l3": "3:3:3:1", "online": true}
   ]
}
`
	offlineRow  = `"cpu": 7, "node": -, "socket": -, "core": -, "l1d:l1i:l2:l3": "-", "online": false`
	onlineRow   = `"cpu": 7, "node": 1, "socket": 1, "core": 3, "l1d:l1i:l2:l3": "3:3:3:1", "online": true`
	numactlFile = `available: 2 nodes (0-1)
node 0 cpus: 0 1 4 5
node 0 size: 16048 MB
node 0 free: 9000 MB
node 1 cpus: 2 3 6 7
node 1 size: 16112 MB
node 1 free: 15000 MB
node distances:
node   0   1 
  0:  10  21 
  1:  21  10 
`
	summaryFile = `{
   "lscpu": [
      {"field": "Architecture:", "data": "x86_64", "children": [
         {"field": "CPU op-mode(s):", "data": "32-bit, 64-bit"}]},
      {"field": "CPU(s):", "data": "4", "children": [
         {"field": "On-line CPU(s) list:", "data": "0-3"}]},
      {"field": "Vendor ID:", "data": "GenuineIntel", "children": [
         {"field": "Model name:", "data": "a model", "children": [
            {"field": "Thread(s) per core:", "data": "1"},
            {"field": "Core(s) per socket:", "data": "4"},
            {"field": "Socket(s):", "data": "1"}]}]},
      {"field": "NUMA:", "data": null, "children": [
         {"field": "NUMA node(s):", "data": "2"},
         {"field": "NUMA node0 CPU(s):", "data": "0,1"},
         {"field": "NUMA node4 CPU(s):", "data": "2,3"}]}
   ]
}
`
)

// countedByKubelet is the memory of the same server, as its kubelet counts it.
var countedByKubelet = &Memory{File: "d/memory", Nodes: map[int]NodeMemory{
	0: {16048<<20 + 4096, map[string]uint64{"hugepages-2Mi": 512 << 21, "hugepages-1Gi": 0}},
	1: {16112<<20 + 8192, map[string]uint64{"hugepages-2Mi": 512 << 21, "hugepages-1Gi": 0}},
}}

// files returns the files of a directory d by name, and their names without the directory.
func files(byName map[string]string) []File {
	var list []File
	for name, text := range byName {
		list = append(list, File{"d/" + name, []byte(text)})
	}
	slices.SortFunc(list, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// The shapes of the server, with the memory of numactl and of the kubelet.
const (
	serverExact = "0: 0,4 1,5 s0 16048Mi+4096 2048*512 1048576*0 [10 21]; 1: 2,6 3,7 s1 16112Mi+8192 2048*512 1048576*0 [21 10]"
	serverInMiB = "0: 0,4 1,5 s0 16048Mi [10 21]; 1: 2,6 3,7 s1 16112Mi [21 10]"
)

// assembleCases are directories d with the files and the memory of a kubelet, and their machines.
var assembleCases = []struct {
	name          string
	files         map[string]string
	memory        *Memory
	want, offline string
	notes         []string
}{
	{
		"all files, beside others",
		map[string]string{"a": tableText, "b": numactlFile, "pods.json": `{"kind":"List"}`, "config.yaml": "kind: KubeletConfiguration\n", "empty": ""},
		countedByKubelet, serverExact, "", nil,
	},
	{"values as text", map[string]string{"a": asText(tableText), "b": numactlFile}, countedByKubelet, serverExact, "", nil},
	{
		"an offline CPU, no distances",
		map[string]string{"a": strings.Replace(tableText, onlineRow, offlineRow, 1)},
		countedByKubelet,
		"0: 0,4 1,5 s0 16048Mi+4096 2048*512 1048576*0 []; 1: 2,6 3 s1 16112Mi+8192 2048*512 1048576*0 []", "7",
		[]string{`d: the distances between NUMA nodes are not known: add the output of "numactl -H"`},
	},
	{
		"an offline CPU as text",
		map[string]string{"a": asText(strings.Replace(tableText, onlineRow, offlineRow, 1)), "b": strings.Replace(numactlFile, " 6 7", " 6", 1)},
		countedByKubelet,
		strings.Replace(serverExact, "3,7", "3", 1), "7", nil,
	},
	{
		"no column ONLINE",
		map[string]string{"a": strings.ReplaceAll(strings.Replace(tableText, onlineRow, offlineRow, 1), `"online"`, `"mhz"`), "b": strings.Replace(numactlFile, " 6 7", " 6", 1)},
		countedByKubelet,
		strings.Replace(serverExact, "3,7", "3", 1), "7", nil,
	},
	{
		"memory of numactl",
		map[string]string{"a": tableText, "b": numactlFile},
		nil, serverInMiB, "",
		[]string{"d/b has the memory of the NUMA nodes in MiB, rounded down", "d/b has no huge pages: none are assumed; add a copy of the node's /var/lib/kubelet/memory_manager_state"},
	},
	{
		"a kubelet that does not count",
		map[string]string{"a": tableText, "b": numactlFile},
		&Memory{File: "d/memory"}, serverInMiB, "",
		[]string{"d/b has the memory of the NUMA nodes rounded down to MiB and no huge pages: the policy of the kubelet's Memory Manager is None (d/memory), so that it decides by neither"},
	},
	{
		"memory that changed",
		map[string]string{"a": tableText, "b": strings.Replace(numactlFile, "16048", "8000", 1)},
		countedByKubelet, serverExact, "",
		[]string{"NUMA node 0 has 16048 MiB in d/memory, and 8000 MiB in d/b"},
	},
	{
		"no NUMA nodes",
		map[string]string{"a": strings.NewReplacer(`"node": 0`, `"node": -`, `"node": 1`, `"node": -`).Replace(tableText)},
		&Memory{File: "d/memory", Nodes: map[int]NodeMemory{0: {Total: 1 << 30}}}, "0: 0,4 1,5 2,6 3,7 s0-1 1024Mi []", "",
		[]string{"d/a has no NUMA nodes: all CPUs are taken as on NUMA node 0, the only one of d/memory"},
	},
	{
		"no sockets and no caches",
		map[string]string{"a": strings.NewReplacer(`"socket": 0`, `"socket": null`, `"socket": 1`, `"socket": null`, "l1d:l1i:l2:l3", "mhz").Replace(tableText), "b": numactlFile},
		countedByKubelet,
		strings.Replace(serverExact, "s1", "s0", 1), "",
		[]string{"d/a has no sockets: the machine is taken as one", "d/a has no column CACHE"},
	},
	{
		"caches that are not clear",
		map[string]string{"a": strings.ReplaceAll(tableText, "2:2:2:1", "2:2:2"), "b": numactlFile},
		countedByKubelet, serverExact, "",
		[]string{"d/a does not have the L3 cache of CPUs 2,6"},
	},
	{
		"a summary, ids with a gap, and a NUMA node without CPUs",
		map[string]string{"a": summaryFile},
		&Memory{File: "d/memory", Nodes: map[int]NodeMemory{0: {Total: 1 << 30}, 2: {Total: 1 << 40}, 4: {}}},
		"0: 0 1 s0 1024Mi []; 2: s 1048576Mi []; 4: 2 3 s0 0Mi []", "",
		[]string{"d/a is the summary of lscpu: which CPUs share an L3 cache", "distances"},
	},
	{
		"a summary of two sockets",
		map[string]string{"a": strings.Replace(summaryFile, `"Socket(s):", "data": "1"`, `"Socket(s):", "data": "2"`, 1)},
		&Memory{File: "d/memory", Nodes: map[int]NodeMemory{0: {Total: 1 << 30}, 4: {}}}, "0: 0 1 s0 1024Mi []; 4: 2 3 s1 0Mi []", "",
		[]string{"each of these NUMA nodes is taken as a socket", "L3", "distances"},
	},
	{"a MachineInfo", map[string]string{"a": tableText, "b": "node 0 cpus: x", "m": small}, nil, "0: 0-1 s0 0Mi+1024 []", "", nil},
}

// TestAssemble checks machines, their offline CPUs and their notes.
func TestAssemble(t *testing.T) {
	for _, c := range assembleCases {
		t.Run(c.name, func(t *testing.T) {
			var memory []Memory
			if c.memory != nil {
				memory = append(memory, *c.memory)
			}
			f, err := Assemble("d", files(c.files), memory)
			if err != nil {
				t.Fatal(err)
			}
			if got := shape(f.Machine); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if got := f.Offline.String(); got != c.offline {
				t.Errorf("offline are %q, want %q", got, c.offline)
			}
			if !slices.EqualFunc(f.Notes, c.notes, strings.Contains) {
				t.Errorf("notes %q, want %q", f.Notes, c.notes)
			}
		})
	}
}

// asText returns a table with text in place of numbers and booleans, as older versions write it.
func asText(table string) string {
	table = regexp.MustCompile(`: (\d+|-)([,}])`).ReplaceAllString(table, `: "$1"$2`)
	return strings.NewReplacer("true", `"yes"`, "false", `"no"`).Replace(table)
}

// shape returns each NUMA node with the threads of its cores, sockets, memory, huge pages and
// distances.
func shape(m *machine.Machine) string {
	var nodes []string
	for _, n := range m.Nodes() {
		text := fmt.Sprintf("%d:", n.ID)
		var sockets cpuset.Builder
		for _, core := range m.Cores() {
			if c, _ := m.CPU(core.ID); c.Node == n.ID {
				text += " " + core.CPUs.String()
				sockets.Add(c.Socket)
			}
		}
		text += fmt.Sprintf(" s%s %dMi", sockets.Set(), n.Memory>>20)
		if rest := n.Memory % (1 << 20); rest > 0 {
			text += fmt.Sprintf("+%d", rest)
		}
		for _, p := range n.HugePages {
			text += fmt.Sprintf(" %d*%d", p.SizeKiB, p.Count)
		}
		nodes = append(nodes, fmt.Sprintf("%s %d", text, distances(m, n.ID)))
	}
	return strings.Join(nodes, "; ")
}

// server is the directory of the server without its memory.
var server = map[string]string{"a": tableText, "b": numactlFile}

// with returns the server with a change of one file.
func with(file, from, to string) map[string]string {
	changed := maps.Clone(server)
	if changed[file] = strings.Replace(server[file], from, to, 1); changed[file] == server[file] {
		panic(from + " is not in the file")
	}
	return changed
}

// summary returns a directory with a changed summary.
func summary(from, to string) map[string]string {
	return map[string]string{"a": strings.Replace(summaryFile, from, to, 1)}
}

// same ends errors about contradictions.
const same = ": take both files from the same node, at the same time"

// rejectedCases are directories d, and parts of their errors.
var rejectedCases = []struct {
	name   string
	files  map[string]string
	memory *Memory
	want   string
}{
	{"nothing", map[string]string{"pods.json": "{}"}, nil, `d has no file about the machine: expected what "paddock topology -o json" writes`},
	{"no CPUs", map[string]string{"b": numactlFile}, countedByKubelet, `d: the CPUs and cores of the machine are missing: add the output of "lscpu -J -e=CPU`},
	{"no memory", map[string]string{"a": tableText}, nil, `d: the memory of the NUMA nodes is missing: add a copy of the node's /var/lib/kubelet/memory_manager_state, which is exact, or the output of "numactl -H"`},
	{"no counted memory", map[string]string{"a": tableText}, &Memory{File: "d/memory"}, `d/memory has no memory, because the policy of the kubelet's Memory Manager is None: add the output of "numactl -H"`},
	{"no size", with("b", "16112 MB", "<not available>"), nil, "d/b does not have the size of NUMA node 1: add a copy of the node's /var/lib/kubelet"},
	{"two machines", map[string]string{"a": small, "b": small}, nil, "d has 2 machines, among them d/a and d/b: keep"},
	{"two tables", map[string]string{"a": tableText, "b": tableText}, countedByKubelet, `d has 2 outputs of "lscpu -J -e", among them d/a and d/b: keep`},
	{"another NUMA node", with("b", "0 1 4 5", "0 1 4"), countedByKubelet, "d: CPU 5 is online on NUMA node 0 in d/a, and on no NUMA node in d/b" + same},
	{"CPUs changed", with("a", `"cpu": 1, "node": 0`, `"cpu": 1, "node": 1`), countedByKubelet, "d: CPU 1 is on NUMA node 1 in d/a, and on NUMA node 0 in d/b" + same},
	{"CPU offline", with("a", onlineRow, offlineRow), countedByKubelet, "d: CPU 7 is offline in d/a, and is on NUMA node 1 in d/b" + same},
	{"CPU missing", with("b", "6 7", "6 7 8"), countedByKubelet, "d: CPU 8 is missing in d/a, and is on NUMA node 1 in d/b" + same},
	{"CPU twice in numactl", with("b", "6 7", "6 7 0"), countedByKubelet, "d/b: CPU 0 is on NUMA nodes 0 and 1"},
	{"NUMA node missing", map[string]string{"a": tableText}, &Memory{File: "d/memory", Nodes: map[int]NodeMemory{0: {}}}, "d: CPU 2 is on NUMA node 1 in d/a, and d/memory has no such NUMA node (it has 0)" + same},
	{"more NUMA nodes", server, &Memory{File: "d/memory", Nodes: map[int]NodeMemory{0: {}, 1: {}, 2: {}}}, "d: d/memory has NUMA nodes 0-2, and d/b has 0-1" + same},
	{"NUMA nodes of the kernel", map[string]string{"a": strings.NewReplacer(`"node": 0`, `"node": -`, `"node": 1`, `"node": -`).Replace(tableText), "b": numactlFile}, countedByKubelet, "d: d/a does not have the NUMA nodes of the CPUs, and d/memory has NUMA nodes 0-1: run"},
	{"huge pages", server, &Memory{File: "d/memory", Nodes: map[int]NodeMemory{0: {}, 1: {HugePages: map[string]uint64{"hugepages-2Mi": 5}}}}, `d/memory: NUMA node 1 has 5 bytes of "hugepages-2Mi"`},
	{"table cut off", with("a", "   ]\n}", ""), countedByKubelet, "d/a: the JSON is cut off: expected the output of"},
	{"CPU twice", with("a", `"cpu": 1,`, `"cpu": 0,`), countedByKubelet, "d/a: CPU 0 is listed twice"},
	{"CPU without number", with("a", `"cpu": 1,`, `"cpu": "one",`), countedByKubelet, `d/a: entry 1: its "cpu" is "one", expected a number`},
	{"CPU without core", with("a", `"core": 3`, `"core": -`), countedByKubelet, "d/a: CPU 3 is online and has no core: run"},
	{"CPU without NUMA node", with("a", `"node": 0`, `"node": -`), countedByKubelet, "d/a: CPU 0 is online and has no NUMA node: run"},
	{"no cores", map[string]string{"a": strings.ReplaceAll(tableText, `"core"`, `"book"`), "b": numactlFile}, countedByKubelet, "d/a: it has no column CORE: run"},
	{"another language", with("a", "true", `"ja"`), countedByKubelet, `d/a: entry 0: its "online" is "ja", expected yes or no: run lscpu with LC_ALL=C`},
	{"numactl cut off", with("b", "  1:  21  10 \n", ""), countedByKubelet, `d/b: it does not have the distances of each NUMA node: it is cut off; run "numactl -H" again`},
	{"numactl cut off early", map[string]string{"a": tableText, "b": numactlFile[:60]}, countedByKubelet, "d/b: 2 NUMA nodes are available, and it lists 0: it is cut off"},
	{"large id", with("b", "node 1 size", "node 99 size"), countedByKubelet, "NUMA node id 99 is outside 0..63"},
	{"summary with threads", summary(`per core:", "data": "1"`, `per core:", "data": "2"`), countedByKubelet, "d/a is the summary of lscpu, which does not list the threads of each core: add the output of"},
	{"summary with sockets", summary(`"Socket(s):", "data": "1"`, `"Socket(s):", "data": "4"`), countedByKubelet, "which does not list the CPUs of each socket: add"},
	{"summary in another language", summary("On-line", "Verfügbare"), &Memory{File: "d/memory", Nodes: map[int]NodeMemory{0: {}}}, "CPU 2 is on NUMA node 4 in d/a"},
	{"summary that contradicts itself", summary(`"0,1"`, `"0,1,2"`), countedByKubelet, "are on another NUMA node too"},
}

// TestAssembleRejects checks that errors name the files, what each of them has, and what to do.
func TestAssembleRejects(t *testing.T) {
	for _, c := range rejectedCases {
		t.Run(c.name, func(t *testing.T) {
			var memory []Memory
			if c.memory != nil {
				memory = append(memory, *c.memory)
			}
			f, err := Assemble("d", files(c.files), memory)
			if f != nil || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, %v; want %q", f, err, c.want)
			}
		})
	}
}

// TestAssembleExamples checks that the machines of examples/machines are the same after they were
// written as a node without Paddock writes them.
func TestAssembleExamples(t *testing.T) {
	names, err := filepath.Glob("../../../examples/machines/*.json")
	if err != nil || len(names) == 0 {
		t.Fatalf("%d examples, %v", len(names), err)
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			read, err := Read(name, data)
			if err != nil {
				t.Fatal(err)
			}
			want, err := found(name, withNodeCaches(read.Info), kernel{})
			if err != nil {
				t.Fatal(err)
			}
			table, numactl, memory := stock(want)
			got, err := Assemble("d", files(map[string]string{"lscpu": table, "numactl": numactl}), []Memory{memory})
			if err != nil {
				t.Fatal(err)
			}
			a, err := Describe(want.Machine)
			if err != nil {
				t.Fatal(err)
			}
			b, err := Describe(got.Machine)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(a, b) || len(got.Notes) > 0 {
				at := 0
				for at < min(len(a), len(b)) && a[at] == b[at] {
					at++
				}
				t.Errorf("from byte %d on got  %.300s\nwant %.300s\nnotes %q", at, b[at:], a[at:], got.Notes)
			}
		})
	}
}

// withNodeCaches moves each L3 cache that exactly one NUMA node has to the NUMA node, as cAdvisor
// does. Some examples, which are invented, have it at the cores.
func withNodeCaches(info *model.MachineInfo) *model.MachineInfo {
	nodes := map[int]map[int]bool{} // by cache
	for _, n := range info.Topology {
		for _, core := range n.Cores {
			for _, c := range core.UncoreCaches {
				if nodes[c.Id] == nil {
					nodes[c.Id] = map[int]bool{}
				}
				nodes[c.Id][n.Id] = true
			}
		}
	}
	for i := range info.Topology {
		n := &info.Topology[i]
		one := len(n.Cores) > 0 && !slices.ContainsFunc(n.Cores, func(core model.Core) bool {
			return !slices.Equal(core.UncoreCaches, n.Cores[0].UncoreCaches) || len(core.Threads) != len(n.Cores[0].Threads)
		})
		if one && len(n.Cores[0].UncoreCaches) == 1 && len(nodes[n.Cores[0].UncoreCaches[0].Id]) == 1 {
			n.Caches = n.Cores[0].UncoreCaches
			for c := range n.Cores {
				n.Cores[c].UncoreCaches = nil
			}
		}
	}
	return info
}

// stock returns what the commands and the kubelet of a node write about a machine. The numbers of
// cores are those of lscpu, which are unique on the machine.
func stock(f *Found) (table, numactl string, memory Memory) {
	memory = Memory{File: "d/memory", Nodes: map[int]NodeMemory{}}
	var rows []string
	var header, sizes, rest strings.Builder
	header.WriteString("node ")
	for _, n := range f.Info.Topology {
		var cpus cpuset.Builder
		for _, core := range n.Cores {
			l3 := slices.Concat(core.UncoreCaches, n.Caches, []model.Cache{{Id: -1}})[0].Id
			for _, cpu := range core.Threads {
				cpus.Add(cpu)
				caches := fmt.Sprintf(`"l1d:l2:l3":"0:0:%d"`, l3)
				if l3 < 0 {
					caches = `"l1d:l2":"0:0"`
				}
				rows = append(rows, fmt.Sprintf(`{"cpu":%d,"node":%d,"socket":%d,"core":%d,%s,"online":true}`, cpu, n.Id, core.SocketID, slices.Min(core.Threads), caches))
			}
		}
		fmt.Fprintf(&sizes, "node %d cpus: %s\nnode %d size: %d MB\nnode %d free: 5 MB\n", n.Id, strings.Trim(fmt.Sprint(cpus.Set().IDs()), "[]"), n.Id, n.Memory>>20, n.Id)
		fmt.Fprintf(&header, "%4d", n.Id)
		fmt.Fprintf(&rest, "%3d:", n.Id)
		for _, d := range n.Distances {
			fmt.Fprintf(&rest, " %3d ", d)
		}
		rest.WriteString("\n")
		counted := NodeMemory{n.Memory, map[string]uint64{}}
		for _, p := range n.HugePages {
			counted.HugePages[machine.HugePageType(int64(p.PageSize))] = p.PageSize * 1024 * p.NumPages
		}
		memory.Nodes[n.Id] = counted
	}
	table = "{\"cpus\": [" + strings.Join(rows, ",") + "]}"
	return table, fmt.Sprintf("available: %d nodes (…)\n%snode distances:\n%s\n%s", len(f.Info.Topology), &sizes, &header, &rest), memory
}

// TestAssembleDamaged checks that damaged files are an error or a machine, and never a panic.
func TestAssembleDamaged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		damage := func(text string) []byte {
			data := []byte(text)
			for range rapid.IntRange(0, 3).Draw(t, "damages") {
				at := rapid.IntRange(0, len(data)-1).Draw(t, "at")
				with := rapid.SampledFrom([]string{"", "0", "9", "-", `"`, ",", "[]", "null", " ", "\n", "999999999999"}).Draw(t, "with")
				data = slices.Concat(data[:at], []byte(with), data[min(len(data), at+rapid.IntRange(0, 3).Draw(t, "length")):])
			}
			return data
		}
		if err := assembled(damage(tableText), damage(numactlFile), damage(summaryFile)); err != nil {
			t.Fatal(err)
		}
	})
}

// assembled returns an error unless there is either a machine or an error, for each selection of
// the files.
func assembled(table, numactl, summary []byte) error {
	list := []File{{"d/a", table}, {"d/b", numactl}, {"d/c", summary}}
	for _, files := range [][]File{list, list[:2], list[1:], list[2:]} {
		for _, memory := range [][]Memory{nil, {*countedByKubelet}} {
			if f, err := Assemble("d", files, memory); (f == nil) == (err == nil) {
				return fmt.Errorf("got %v and %w, want one of them", f, err)
			}
		}
	}
	return nil
}

func FuzzAssemble(f *testing.F) {
	f.Add([]byte(tableText), []byte(numactlFile), []byte(summaryFile))
	f.Add([]byte(asText(tableText)), []byte("node 0 size: 1 MB"), []byte(`{"lscpu":[{"field":"On-line CPU(s) list:","data":"0"}]}`))
	f.Add([]byte(strings.Replace(tableText, onlineRow, offlineRow, 1)), []byte(numactlFile), []byte(small))
	f.Add([]byte(tableText), []byte(numactlFile), []byte("/sys/devices/system/cpu/isolated:1-3\n/proc/cmdline:isolcpus=managed_irq,1-3\n"))
	f.Fuzz(func(t *testing.T, table, numactl, summary []byte) {
		if err := assembled(table, numactl, summary); err != nil {
			t.Fatal(err)
		}
	})
}
