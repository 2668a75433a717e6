package nodemap_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/codec/devicefile"
	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	kubeletcfg "github.com/paddock-project/paddock/internal/kubelet/config"
	"github.com/paddock-project/paddock/internal/testing/golden"
	"github.com/paddock-project/paddock/internal/ui/nodemap"
)

// read returns the content of a file.
func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// exampleMachine returns a machine of examples/machines.
func exampleMachine(t testing.TB, name string) *machine.Machine {
	t.Helper()
	found, err := discover.Read(name, read(t, "../../../examples/machines/"+name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return found.Machine
}

// admit admits pods to a node and skips those that are rejected.
func admit(t testing.TB, s *node.State, pods ...request.Pod) *node.State {
	t.Helper()
	for _, pod := range pods {
		next, err := s.Apply(s.Plan(pod))
		if err != nil {
			t.Fatal(err)
		}
		s = next
	}
	return s
}

func mapOf(name string, s *node.State) nodemap.Map {
	return nodemap.Of(name, kubeletcfg.Describe(s.Policy()), s, nodemap.NextSlots(nil, nil, s))
}

// TestMap draws testdata/map/*.yaml and compares the maps with the pictures beside them. The name
// of a file is the name of a machine and, if there are any, of its devices.
func TestMap(t *testing.T) {
	files, err := filepath.Glob("testdata/map/*.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("pods for %d machines: %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			m := drawn(t, name, file)
			var picture strings.Builder
			if err := m.SVG(&picture, true); err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, filepath.Join("testdata/map", name+".svg"), picture.String())
			golden.Compare(t, filepath.Join("testdata/map", name+".txt"), m.Term(terminal.Style{Width: 120}))
		})
	}
}

// drawn returns the map of an example machine with the pods of a file.
func drawn(t *testing.T, name, file string) nodemap.Map {
	t.Helper()
	m := exampleMachine(t, name)
	policy, _ := kubeletcfg.Default(m)
	s, err := node.New(m, policy)
	if err != nil {
		t.Fatal(err)
	}
	if devices := "testdata/map/" + name + ".devices"; exists(devices) {
		inventory, err := devicefile.Inventory(m, devices, read(t, devices))
		if err != nil {
			t.Fatal(err)
		}
		if s, err = s.WithDevices(inventory); err != nil {
			t.Fatal(err)
		}
	}
	sources, _, err := podspec.ReadFiles([]string{file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	gates := podspec.Gates{PodLevelResources: true, PodLevelManagers: true}
	for _, source := range sources {
		pod, err := podspec.Request(podspec.Default(source.Pod, gates), gates)
		if err != nil {
			t.Fatal(err)
		}
		s = admit(t, s, pod)
		if _, there := s.Grant(pod.UID); !there {
			t.Fatalf("%s is refused", pod.ID())
		}
	}
	return mapOf(name, s)
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// largest returns a machine of 512 threads: 2 sockets with 16 uncore caches and one NUMA node each.
func largest(t testing.TB) *machine.Machine {
	t.Helper()
	d := machine.Description{Nodes: []machine.NodeDescription{{ID: 0, Memory: 1 << 40}, {ID: 1, Memory: 1 << 40}}}
	for core := range 256 {
		n := &d.Nodes[core/128]
		n.Cores = append(n.Cores, machine.CoreDescription{Socket: core / 128, Threads: []int{core, core + 256}, Uncore: core / 8})
	}
	m, err := machine.New(d)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// hostile are names that try to break out of the picture.
var hostile = []string{
	`<script>alert("1")</script>`, `]]></title><image href="x" onerror=alert(1)>`, strings.Repeat("n", 253), "a&b'c\"", "\x1b[31mred\u0000\u202e",
	strings.Repeat("名", 253), "x",
}

// podOf returns a pod that asks for CPUs and memory, with one or two containers.
func podOf(i, cpus int, name string) request.Pod {
	memory := request.Amounts{{Resource: machine.Memory, Value: 1 << 20}}
	return request.Pod{
		Identity: request.Identity{UID: fmt.Sprintf("uid-%03d", i), Namespace: "default", Name: name}, Ask: request.Ask{
			QoS: request.Guaranteed,
			Containers: []request.Container{
				{Name: name, Type: request.App, CPUs: cpus, Memory: memory, Equivalent: true},
				{Name: "other", Type: request.App, Sharing: request.FractionalCPU},
			},
		},
	}
}

// crowded returns a node with many pods whose names are too long or invalid.
func crowded(t testing.TB, m *machine.Machine, pods int) *node.State {
	t.Helper()
	policy, _ := kubeletcfg.Default(m)
	s, err := node.New(m, policy)
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods {
		pod := podOf(i, 1+i%3, fmt.Sprintf("%s-%d", hostile[i%len(hostile)], i))
		if i%4 < 2 { // Two pods share each device.
			name := fmt.Sprintf("%s-%d", hostile[i/4%len(hostile)], i/4)
			pod.Containers[0].Given = []request.Given{{Driver: fmt.Sprintf("d%d.example.com", i/4%20), Pool: "<p>", Claim: "&c", Name: name, Nodes: mask.Mask(i / 4 % 4)}}
		}
		s = admit(t, s, pod)
	}
	return s
}

// TestMapIsWellFormed checks that, whatever names pods have, the picture and the page are XML,
// contain no element that we did not put there, and contain every CPU once.
func TestMapIsWellFormed(t *testing.T) {
	s := crowded(t, largest(t), 250)
	m := mapOf(`<b onload="x">&`, s)
	var svg, page strings.Builder
	if err := errors.Join(m.SVG(&svg, true), m.HTML(&page)); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, name := range strings.Fields("svg title desc style defs pattern rect path g text") {
		known[name] = true
	}
	cpus := map[string]int{}
	for decoder := xml.NewDecoder(strings.NewReader(svg.String())); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		element, is := token.(xml.StartElement)
		if is && !known[element.Name.Local] {
			t.Errorf("element %s", element.Name.Local)
		}
		for _, a := range element.Attr {
			if a.Name.Local == "data-cpu" {
				cpus[a.Value]++
			}
			if strings.HasPrefix(a.Name.Local, "on") {
				t.Errorf("attribute %s", a.Name.Local)
			}
		}
	}
	for id := range 512 {
		if n := cpus[strconv.Itoa(id)]; n != 1 {
			t.Errorf("CPU %d is drawn %d times", id, n)
		}
	}
	if text := page.String(); strings.Contains(text, "<script") || strings.Contains(text, "onerror=alert(1)>") || strings.Contains(text, "<b ") {
		t.Error("a name is markup in the page")
	}
	if svg.Len() > 1<<20 {
		t.Errorf("the picture has %d bytes", svg.Len())
	}
}

// TestMapLayout checks on all machines, full of pods, that boxes are within their outer boxes,
// cells do not overlap, texts fit and every CPU is there.
func TestMapLayout(t *testing.T) {
	files, err := filepath.Glob("../../../examples/machines/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("no machines", err)
	}
	machines := map[string]*machine.Machine{"largest": largest(t)}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		machines[name] = exampleMachine(t, name)
	}
	for name, m := range machines {
		for _, pods := range []int{0, 3, 250} {
			s := crowded(t, m, pods)
			for _, width := range []int{0, 20, 80, 200} {
				t.Run(fmt.Sprintf("%s/%d/%d", name, pods, width), func(t *testing.T) {
					cells := map[int]nodemap.Placed{}
					checkPlaced(t, mapOf(name, s).Place(width), cells)
					if len(cells) != len(m.CPUs()) {
						t.Errorf("%d of %d CPUs are drawn", len(cells), len(m.CPUs()))
					}
				})
			}
		}
	}
}

func checkPlaced(t *testing.T, b nodemap.Placed, cells map[int]nodemap.Placed) {
	t.Helper()
	if b.Texts > b.W {
		t.Errorf("a text of %d does not fit in %d", b.Texts, b.W)
	}
	if b.CPU >= 0 {
		for id, c := range cells {
			if c.X < b.X+b.W && b.X < c.X+c.W && c.Y < b.Y+b.H && b.Y < c.Y+c.H {
				t.Errorf("CPUs %d and %d overlap", id, b.CPU)
			}
		}
		cells[b.CPU] = b
	}
	for _, in := range b.Inner {
		if in.X < b.X || in.Y < b.Y || in.X+in.W > b.X+b.W || in.Y+in.H > b.Y+b.H {
			t.Errorf("a box of kind %d at %d,%d %dx%d is outside the box of kind %d at %d,%d %dx%d",
				in.Kind, in.X, in.Y, in.W, in.H, b.Kind, b.X, b.Y, b.W, b.H)
		}
		checkPlaced(t, in, cells)
	}
}

// TestTermColours checks that colours change only colours, and that no name contains an escape.
func TestTermColours(t *testing.T) {
	m := mapOf("m", crowded(t, exampleMachine(t, "xeon-2s"), 60))
	plain := m.Term(terminal.Style{Width: 100})
	if strings.ContainsRune(plain, '\x1b') {
		t.Error("an escape in plain text")
	}
	codes := regexp.MustCompile("\x1b\\[[0-9;]*m")
	var bare []string
	for line := range strings.Lines(codes.ReplaceAllString(m.Term(terminal.Style{Color: true, Width: 100}), "")) {
		bare = append(bare, strings.TrimRight(line, " \n"))
	}
	if got := strings.Join(bare, "\n") + "\n"; got != plain {
		t.Errorf("with colours:\n%s\nwithout:\n%s", got, plain)
	}
}

// TestSlots checks that pods keep their slot while they live, that no two pods have the same slot,
// and that slots stay few.
func TestSlots(t *testing.T) {
	m := exampleMachine(t, "xeon-2s")
	policy, _ := kubeletcfg.Default(m)
	rapid.Check(t, func(rt *rapid.T) {
		s, err := node.New(m, policy)
		if err != nil {
			rt.Fatal(err)
		}
		var before *node.State
		slots := nodemap.NextSlots(nil, nil, s)
		most := 0
		for i := range rapid.IntRange(1, 30).Draw(rt, "steps") {
			before = s
			if grants := s.Grants(); len(grants) > 0 && rapid.IntRange(0, 2).Draw(rt, "release") == 0 {
				s = s.Release(grants[rapid.IntRange(0, len(grants)-1).Draw(rt, "which")].Pod.UID)
			} else if s, err = s.Apply(s.Plan(podOf(i, rapid.IntRange(0, 4).Draw(rt, "cpus"), "p"))); err != nil {
				rt.Fatal(err)
			}
			most = max(most, len(s.Grants()))
			next := nodemap.NextSlots(before, slots, s)
			seen := map[int32]bool{}
			for k, g := range s.Grants() {
				if seen[next[k]] || int(next[k]) >= most || next[k] < 0 {
					rt.Fatalf("slot %d of %d pods at most", next[k], most)
				}
				seen[next[k]] = true
				for j, old := range before.Grants() {
					if old.Pod.UID == g.Pod.UID && slots[j] != next[k] {
						rt.Fatalf("%s had slot %d and has %d", g.Pod.UID, slots[j], next[k])
					}
				}
			}
			slots = next
		}
	})
}

// TestMapUses checks the uses of CPUs on which containers of several types meet.
func TestMapUses(t *testing.T) {
	m := exampleMachine(t, "vm-4cpu")
	policy, _ := kubeletcfg.Default(m)
	policy.ReservedCPUs = policy.ReservedCPUs.Difference(m.AllCPUs())
	pod := podOf(1, 2, "p")
	pod.Containers = append([]request.Container{{Name: "init", Type: request.Init, CPUs: 2}}, pod.Containers...)
	s, err := node.New(m, policy)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, c := range mapOf("m", admit(t, s, pod)).CPUs {
		got += fmt.Sprintf("%d %s %s %s\n", c.ID, c.Use, c.Container, c.Tag)
	}
	if want := "0 exclusive p A2\n1 exclusive p A2\n2 shared  \n3 shared  \n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	policy.StaticCPU = false
	none, err := node.New(m, policy)
	if err != nil {
		t.Fatal(err)
	}
	if c := mapOf("m", none).CPUs[0]; c.Use != nodemap.UseNone {
		t.Errorf("under policy none CPU 0 is %s", c.Use)
	}
}

// TestManyDevices checks that a bar replaces the cells of many devices.
func TestManyDevices(t *testing.T) {
	m := exampleMachine(t, "vm-4cpu")
	policy, _ := kubeletcfg.Default(m)
	var devices []device.Device
	for i := range 40 {
		devices = append(devices, device.Device{ID: fmt.Sprintf("vf%d", i), Healthy: i > 0, Nodes: mask.Of(0)})
	}
	inventory, err := device.NewInventory(m, map[string][]device.Device{"example.com/vf": devices})
	if err != nil {
		t.Fatal(err)
	}
	s, err := node.New(m, policy)
	if err != nil {
		t.Fatal(err)
	}
	if s, err = s.WithDevices(inventory); err != nil {
		t.Fatal(err)
	}
	pod := podOf(1, 0, "p")
	pod.Containers[0].Devices = request.Amounts{{Resource: "example.com/vf", Value: 10}}
	var svg strings.Builder
	if err := mapOf("m", admit(t, s, pod)).SVG(&svg, false); err != nil {
		t.Fatal(err)
	}
	if want := "example.com/vf: 29 of 40 free; default/p 10"; !strings.Contains(svg.String(), want) {
		t.Errorf("%q is not in the picture", want)
	}
}

func BenchmarkMapSVG(b *testing.B) {
	m := mapOf("largest", crowded(b, largest(b), 250))
	for b.Loop() {
		if err := m.SVG(io.Discard, true); err != nil {
			b.Fatal(err)
		}
	}
}
