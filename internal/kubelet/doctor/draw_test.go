package doctor_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/codec/statefile"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/kubelet/doctor"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
)

// drawn is a node with pods, as in the files of a kubelet.
type drawn struct {
	setup doctor.Setup // the setup of the kubelet that wrote the files
	whole *doctor.State
}

// drawKubelet draws a kubelet from 1.21 to 1.37 and, if it has the gate, the value of the gate.
func drawKubelet(t *rapid.T, label string) kubeletstate.Kubelet {
	k := kubeletstate.Kubelet{Minor: rapid.IntRange(21, 37).Draw(t, label+" minor")}
	if rapid.Bool().Draw(t, label+" is new") {
		k.Minor = rapid.IntRange(35, 37).Draw(t, label+" new minor")
	}
	k.PodLevelManagers = k.Minor >= 36 && rapid.Bool().Draw(t, label+" gate")
	return k
}

// drawNode draws a machine, a policy and pods, admits the pods, and converts the result to the
// state of the kubelet.
func drawNode(t *rapid.T, k kubeletstate.Kubelet) drawn {
	m := drawMachine(t)
	p := node.Policy{
		Topology: node.TopologyRestricted, Scope: node.PodScope, StaticCPU: true, ReservedCPUs: cpuset.Of(0),
		StaticMemory: rapid.Bool().Draw(t, "memory"), PodLevelResources: true, PodLevelManagers: true,
	}
	p.CPU.StrictReservation = rapid.IntRange(0, 3).Draw(t, "strict") == 3
	if rapid.Bool().Draw(t, "container scope") {
		p.Scope = node.ContainerScope
	}
	state, err := node.New(m, p)
	if err != nil {
		t.Fatal(err)
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "pods") {
		if state, err = state.Apply(state.Plan(drawPod(t, i))); err != nil {
			t.Fatal(err)
		}
	}
	paddock, _, err := doctor.FromPaddock(&statefile.File{Policy: p, Grants: state.Grants()}, m)
	if err != nil {
		t.Fatal(err)
	}
	whole, _, err := doctor.Convert(paddock, k, nil)
	if err != nil {
		t.Fatal(err)
	}
	return drawn{under(doctor.Setup{Machine: m, Policy: &p}, k), whole}
}

// changed draws the setup in which the next kubelet starts. It is often the same, and sometimes has
// another policy, other reservations, or another machine.
func (n *drawn) changed(t *rapid.T) doctor.Setup {
	s, p := n.setup, *n.setup.Policy
	s.Policy = &p
	switch rapid.IntRange(0, 9).Draw(t, "changed setup") {
	case 0:
		p.StaticCPU, p.ReservedCPUs = false, cpuset.Set{}
	case 1:
		p.StaticMemory = !p.StaticMemory
	case 2:
		p.ReservedCPUs = cpuset.Of(0, 1)
	case 3:
		p.CPU.StrictReservation = !p.CPU.StrictReservation
	case 4:
		s.Machine = drawMachine(t)
	}
	return s
}

func drawMachine(t *rapid.T) *machine.Machine {
	nodes, cores, threads := rapid.IntRange(1, 3).Draw(t, "NUMA nodes"), rapid.IntRange(2, 4).Draw(t, "cores"), rapid.IntRange(1, 2).Draw(t, "threads")
	var d machine.Description
	for n := range nodes {
		described := machine.NodeDescription{ID: n, Memory: 1 << 20}
		for c := range cores {
			var ids []int
			for thread := range threads {
				ids = append(ids, (n*cores+c)*threads+thread)
			}
			described.Cores = append(described.Cores, machine.CoreDescription{Threads: ids, Uncore: machine.NoUncore})
		}
		d.Nodes = append(d.Nodes, described)
	}
	m, err := machine.New(d)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// drawPod draws a Guaranteed pod with app containers and possibly an init container. It may have
// its own pool.
func drawPod(t *rapid.T, i int) request.Pod {
	amount := func(label string) request.Amounts {
		return request.Amounts{{Resource: machine.Memory, Value: int64(rapid.IntRange(1, 256).Draw(t, label)) << 10}}
	}
	name := rapid.StringMatching(`[a-f0-9]{4}`).Draw(t, "uid")
	pod := request.Pod{Identity: request.Identity{UID: fmt.Sprintf("%s-%d", name, i), Namespace: "default", Name: fmt.Sprintf("p%d", i)}, Ask: request.Ask{QoS: request.Guaranteed}}
	if rapid.Bool().Draw(t, "init container") {
		pod.Containers = append(pod.Containers, request.Container{Name: "init", Type: request.Init, CPUs: 1, Equivalent: true, Memory: amount("init memory")})
	}
	exclusive := 0
	for c := range rapid.IntRange(1, 3).Draw(t, "containers") {
		container := request.Container{Name: fmt.Sprintf("c%d", c), Type: request.App, CPUs: rapid.IntRange(0, 2).Draw(t, "cpus"), Equivalent: true}
		if container.CPUs == 0 {
			container.Sharing, container.Equivalent = request.FractionalCPU, false
		} else {
			container.Memory = amount("container memory")
		}
		exclusive += container.CPUs
		pod.Containers = append(pod.Containers, container)
	}
	if rapid.Bool().Draw(t, "pool") {
		pod.Kind = request.PodLevel
		pod.BudgetCPUs = exclusive + rapid.IntRange(1, 2).Draw(t, "more CPUs")
		pod.BudgetCPUMilli = int64(pod.BudgetCPUs) * 1000
		pod.BudgetMemory = request.Amounts{{Resource: machine.Memory, Value: 1 << 20}}
	}
	return pod
}

// encoded returns the files of the state as its kubelet writes them.
func (n *drawn) encoded(t *rapid.T, s *doctor.State) nodeFiles {
	files, err := s.Encode(n.setup.Kubelet)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// damaged returns the files of the node after random damage: first to their content, with correct
// checksums, and then to their bytes.
func (n *drawn) damaged(t *rapid.T) nodeFiles {
	s := &doctor.State{CPU: cloneCPU(n.whole.CPU), Memory: cloneMemory(n.whole.Memory)}
	for range rapid.IntRange(0, 2).Draw(t, "changes") {
		n.change(t, s)
	}
	files := n.encoded(t, s)
	for _, m := range slices.Sorted(maps.Keys(files)) {
		text := string(files[m])
		switch rapid.IntRange(0, 9).Draw(t, "damage") {
		case 0:
			text = strings.Replace(text, `"checksum":`, `"checksum":1`, 1)
		case 1:
			text = strings.Replace(text, `"checksum":`, `"was":`, 1)
		case 2:
			text = string(rot(t, []byte(text)))
		case 3:
			text = strings.Replace(text, `"dataChecksum":`, `"dataChecksum":1`, 1)
		case 4:
			text = text[:rapid.IntRange(0, len(text)).Draw(t, "cut off")]
		}
		files[m] = []byte(text)
	}
	return files
}

// rot changes one byte.
func rot(t *rapid.T, data []byte) []byte {
	out := slices.Clone(data)
	at := rapid.IntRange(0, len(out)-1).Draw(t, "rotten byte")
	if rapid.Bool().Draw(t, "of a number") {
		var digits []int
		for i, b := range out {
			if b >= '0' && b <= '9' {
				digits = append(digits, i)
			}
		}
		at = rapid.SampledFrom(digits).Draw(t, "rotten digit")
	}
	out[at] = rapid.OneOf(
		rapid.SampledFrom([]byte("0123456789-,")), rapid.Byte(), rapid.Just(out[at]^1<<rapid.IntRange(0, 7).Draw(t, "bit")),
	).Draw(t, "becomes")
	return out
}

func cloneCPU(c *kubeletstate.CPU) *kubeletstate.CPU {
	out := *c
	out.Entries, out.Pools = map[string]map[string]string{}, maps.Clone(c.Pools)
	for uid, containers := range c.Entries {
		out.Entries[uid] = maps.Clone(containers)
	}
	return &out
}

func cloneMemory(m *kubeletstate.Memory) *kubeletstate.Memory {
	out := *m
	out.Entries, out.Pools, out.Nodes = map[string]map[string][]kubeletstate.Block{}, maps.Clone(m.Pools), map[int]*kubeletstate.NodeState{}
	for uid, containers := range m.Entries {
		out.Entries[uid] = maps.Clone(containers)
	}
	for id, n := range m.Nodes {
		c := *n
		c.Tables = map[string]*kubeletstate.Table{}
		for name, table := range n.Tables {
			t := *table
			c.Tables[name] = &t
		}
		out.Nodes[id] = &c
	}
	return &out
}

// change makes one of the content errors that were seen in files with a correct checksum.
func (n *drawn) change(t *rapid.T, s *doctor.State) {
	list := rapid.SampledFrom([]string{"", "0", "1", "0-3", "2-3", "1,3", "5", "1-", "70"}).Draw(t, "list")
	uids := s.Pods()
	uid := "gone"
	if len(uids) > 0 {
		uid = rapid.SampledFrom(uids).Draw(t, "pod")
	}
	containers := slices.Sorted(maps.Keys(s.CPU.Entries[uid]))
	switch kind := rapid.IntRange(0, 8).Draw(t, "change"); {
	case kind == 0:
		s.CPU.Default = list
	case kind == 1 && len(containers) > 0:
		s.CPU.Entries[uid][rapid.SampledFrom(containers).Draw(t, "container")] = list
	case kind == 2 && len(containers) > 0:
		delete(s.CPU.Entries, uid)
	case kind == 3:
		s.CPU.Policy = rapid.SampledFrom([]string{"none", "", "stbtic"}).Draw(t, "policy")
	case kind == 4:
		s.Memory.Policy = rapid.SampledFrom([]string{"None", "Static", "x"}).Draw(t, "memory policy")
	case kind == 5 && s.CPU.Pools[uid].Len() > 0:
		s.CPU.Pools[uid] = s.CPU.Pools[uid].Union(cpuset.Of(rapid.IntRange(0, 9).Draw(t, "CPU")))
	case kind == 6 && s.Memory.Nodes[0] != nil:
		s.Memory.Nodes[0].Tables[machine.Memory].Free += 4096
	case kind == 7 && len(s.Memory.Nodes) > 0:
		delete(s.Memory.Nodes, 0)
	case kind == 8 && len(s.Memory.Entries[uid]) > 0:
		block := kubeletstate.Block{Nodes: []int{rapid.IntRange(0, 4).Draw(t, "NUMA node")}, Type: machine.Memory, Size: rapid.Uint64().Draw(t, "size")}
		s.Memory.Entries[uid][slices.Sorted(maps.Keys(s.Memory.Entries[uid]))[0]] = []kubeletstate.Block{block}
	}
}
