package doctor_test

import (
	"testing"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/kubelet/doctor"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
)

// small returns a machine with two NUMA nodes of two CPUs and 1 MiB each.
func small(t testing.TB) *machine.Machine {
	t.Helper()
	var d machine.Description
	for i := range 2 {
		d.Nodes = append(d.Nodes, machine.NodeDescription{
			ID: i, Memory: 1 << 20,
			Cores: []machine.CoreDescription{{Threads: []int{2 * i, 2*i + 1}, Uncore: machine.NoUncore}},
		})
	}
	m, err := machine.New(d)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// FuzzDoctor checks, for any content of a file, that nothing panics, that every fault has advice,
// and that the kubelet starts on every repaired file.
func FuzzDoctor(f *testing.F) {
	for _, text := range []string{
		`{"policyName":"static","defaultCpuSet":"0,3","entries":{"a":{"c":"1"},"b":{"c":"1-2"}},"podEntries":{"a":{"cpuSet":"1-2"}}}`,
		`{"policyName":"static","defaultCpuSet":"0-","entries":{"a":{"c":"9"}}}`,
		`{"policyName":"static","defaultCpuSet":"0","entries":{"id":"1"}}`,
		`{"policyName":"Static","machineState":{"0":null,"1":{"memoryMap":{"memory":null},"cells":[]}},"entries":{"a":{"c":[{"numaAffinity":[0,0,7],"type":"memory","size":18446744073709551615}]}}}`,
		`{"policyName":"Static","machineState":{},"entries":{"a":{"c":null}},"podEntries":{"a":{"memoryBlocks":[{"numaAffinity":[1],"type":"memory","size":5}]}}}`,
	} {
		f.Add([]byte(text), true, false)
	}
	m := small(f)
	f.Fuzz(func(t *testing.T, data []byte, gate, strict bool) {
		p := node.Policy{StaticCPU: true, ReservedCPUs: cpuset.Of(0), StaticMemory: true, PodLevelManagers: gate}
		p.CPU.StrictReservation = strict
		s := doctor.Setup{Kubelet: kubeletstate.Kubelet{Minor: 36, PodLevelManagers: gate}, Machine: m, Policy: &p}
		for _, manager := range []kubeletstate.Manager{kubeletstate.CPUManager, kubeletstate.MemoryManager} {
			for _, f := range doctor.Verify(manager, data, s).Findings {
				if f.Do == "" || f.What == "" || (f.Level == doctor.Fault) != (f.Kubelet != "") {
					t.Fatalf("%+v", f)
				}
			}
		}
		file, err := kubeletstate.Recognise(data)
		if err != nil {
			return
		}
		old := &doctor.State{}
		old.Add(file)
		for _, k := range kubeletstate.Kubelets() {
			if now, _, err := doctor.Convert(old, k, nil); err == nil {
				if _, err := now.Encode(k); err != nil {
					t.Fatal(err)
				}
			}
		}
		now, _, err := doctor.Repair(old, s, doctor.Pods{})
		if err != nil {
			return
		}
		files, err := now.Encode(s.Kubelet)
		if err != nil {
			t.Fatal(err)
		}
		if err := doctor.Check(files, s); err != nil {
			t.Fatalf("%q was repaired to %q: %v", data, files, err)
		}
	})
}
