package doctor_test

import (
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/kubelet/doctor"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
)

// static returns a policy for the small machine, with CPU 0 reserved.
func static(strict bool) *node.Policy {
	p := &node.Policy{StaticCPU: true, ReservedCPUs: cpuset.Of(0), StaticMemory: true}
	p.CPU.StrictReservation = strict
	return p
}

// cpuFile returns a file of the given version with a node shared pool, a pod a with a container c,
// and pools.
func cpuFile(t *testing.T, v kubeletstate.Version, shared, c string, pools map[string]cpuset.Set) []byte {
	t.Helper()
	content := &kubeletstate.CPU{Policy: "static", Default: shared, Pools: pools}
	if c != "" {
		content.Entries = map[string]map[string]string{"a": {"c": c}}
	}
	data, err := kubeletstate.EncodeCPU(content, v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestWords covers causes that do not occur in the golden verdicts.
func TestWords(t *testing.T) {
	pool := map[string]cpuset.Set{"a": cpuset.Of(1, 2)}
	gate, off := kubeletstate.Kubelet{Minor: 36, PodLevelManagers: true}, kubeletstate.Kubelet{Minor: 36}
	for _, c := range []struct {
		name    string
		data    []byte
		kubelet kubeletstate.Kubelet
		strict  bool
		answer  doctor.Answer
		want    string
	}{
		{"whole", cpuFile(t, 3, "0,3", "1", pool), gate, false, doctor.Starts, ""},
		{"1.37 without its gate", cpuFile(t, 3, "0,3", "1-2", pool), kubeletstate.Kubelet{Minor: 37}, false, doctor.Starts, ""},
		{"1.37, newer part", cpuFile(t, 4, "0,3", "1", pool), kubeletstate.Kubelet{Minor: 37, PodLevelManagers: true}, false, doctor.Starts, ""},
		{
			"1.35 on a file of 1.37", cpuFile(t, 4, "0,3", "1", pool),
			kubeletstate.Kubelet{Minor: 35},
			false, doctor.Rejects,
			"CPU 2 is leaked: neither in the node shared pool nor any container's; 2 assigned to the pool of pod a, and this kubelet (1.35) does not count pools",
		},
		{"the part for older kubelets", cpuFile(t, 4, "0,3", "1-2", pool), off, false, doctor.Starts, "reads the part for older ones, which has no pools"},
		{"strict, reserved CPU shared", cpuFile(t, 2, "0,3", "1-2", nil), gate, true, doctor.Rejects, "CPU 0 is reserved strictly and in the node shared pool"},
		{"strict, reserved CPU held", cpuFile(t, 2, "2-3", "0-1", nil), gate, true, doctor.Rejects, "CPU 0 is reserved strictly and in use (0 assigned to container c of pod a)"},
		{"pool shared", cpuFile(t, 3, "0,2-3", "1", pool), gate, false, doctor.Starts, "CPU 2 is in the pool of pod a and in the node shared pool"},
		{"two pods", cpuFile(t, 3, "0,3", "1", map[string]cpuset.Set{"b": cpuset.Of(1, 2)}), gate, false, doctor.Starts, "CPU 1 is assigned to pod a and to pod b"},
		{"nothing yet", cpuFile(t, 2, "", "", nil), gate, false, doctor.Starts, ""},
		{"V1", []byte(`{"policyName":"static","defaultCpuSet":"0,3","entries":{"id9":"1-2"}}`), gate, false, doctor.Unsure, "unless the runtime has each of id9"},
		{"no JSON", []byte(`{"defaultCpuSet":"0,3","entries":`), gate, false, doctor.Rejects, "it is cut off after 33 bytes"},
		{"the other file", []byte(`{"policyName":"None","machineState":{},"checksum":512582496}`), gate, false, doctor.Rejects, "a file of the Memory Manager under the name of the CPU Manager"},
	} {
		s := doctor.Setup{Kubelet: c.kubelet, Machine: small(t), Policy: static(c.strict)}
		d := doctor.Verify(kubeletstate.CPUManager, c.data, s)
		var text strings.Builder
		for _, f := range d.Findings {
			text.WriteString(f.What + "\n")
		}
		if d.Answer() != c.answer || !strings.Contains(text.String(), c.want) || (c.want == "" && text.Len() > 0) {
			t.Errorf("%s: %s, %s; want %s, %s", c.name, d.Answer(), text.String(), c.answer, c.want)
		}
	}
}

// TestSharedMemoryCountsOnce converts a state in which each container of a pool has an entry for
// the shared memory. If the new file has no place for pools, the memory counts for the first
// container, and the others keep only their NUMA nodes.
func TestSharedMemoryCountsOnce(t *testing.T) {
	block := func(size uint64) []kubeletstate.Block {
		return []kubeletstate.Block{{Nodes: []int{1}, Type: "memory", Size: size}}
	}
	table := &kubeletstate.Table{Total: 1 << 20, Allocatable: 1 << 20, Reserved: 300, Free: 1<<20 - 300}
	old := &doctor.State{Memory: &kubeletstate.Memory{
		Policy:  "Static",
		Nodes:   map[int]*kubeletstate.NodeState{1: {Assignments: 1, Cells: []int{1}, Tables: map[string]*kubeletstate.Table{"memory": table}}},
		Entries: map[string]map[string][]kubeletstate.Block{"a": {"excl": block(100), "log": block(150), "net": block(150)}},
		Pools:   map[string][]kubeletstate.Block{"a": block(300), "b": block(7)},
	}}
	now, remarks, err := doctor.Convert(old, kubeletstate.Kubelet{Minor: 35}, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := now.Memory.Entries["a"]
	if got["excl"][0].Size != 100 || got["log"][0].Size != 150 || got["net"][0].Size != 50 || len(got["net"][0].Nodes) != 1 {
		t.Errorf("got %v", got)
	}
	if n := now.Memory.Nodes[1]; n.Assignments != 3 || n.Tables["memory"].Reserved != 300 {
		t.Errorf("the accounting is %+v %+v", n, n.Tables["memory"])
	}
	if len(remarks) != 2 || !remarks[0].Lost || !strings.Contains(remarks[0].What, "container net shares 150") || remarks[1].UID != "b" {
		t.Errorf("remarks %v", remarks)
	}
	if old.Memory.Entries["a"]["net"][0].Size != 150 || table.Reserved != 300 {
		t.Error("the old state was changed")
	}
}
