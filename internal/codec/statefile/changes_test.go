package statefile_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/paddock-project/paddock/internal/codec/statefile"
	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
)

func TestChanges(t *testing.T) {
	m := hardware(t, 2, 6)
	for name, c := range map[string]struct {
		machine *machine.Machine
		policy  func(p *node.Policy)
		want    []string
	}{
		"nothing": {m, func(*node.Policy) {}, nil},
		"one NUMA node fewer": {hardware(t, 1, 6), func(*node.Policy) {}, []string{
			"CPUs: was 0-23, now 0-11",
			"NUMA node 1 with CPUs 6-11,18-23 and hugepages-2Mi=3Gi memory=12Gi is gone",
			"CPUs of NUMA node 0: was 0-5,12-17, now 0-11",
		}},
		"other NUMA nodes": {hardware(t, 3, 4), func(*node.Policy) {}, []string{
			"NUMA node 2 with CPUs 8-11,20-23 and hugepages-2Mi=2Gi memory=8Gi is new",
			"CPUs of NUMA node 0: was 0-5,12-17, now 0-3,12-15", "memory of NUMA node 0: was hugepages-2Mi=3Gi memory=12Gi, now hugepages-2Mi=2Gi memory=8Gi",
			"CPUs of NUMA node 1: was 6-11,18-23, now 4-7,16-19", "memory of NUMA node 1: was hugepages-2Mi=3Gi memory=12Gi, now hugepages-2Mi=2Gi memory=8Gi",
		}},
		"policies": {m, func(p *node.Policy) {
			p.Topology, p.Scope, p.StaticCPU, p.StaticMemory = node.TopologyNone, node.ContainerScope, false, false
		}, []string{
			"topologyManagerPolicy: was restricted, now none", "topologyManagerScope: was pod, now container",
			"cpuManagerPolicy: was static, now none", "memoryManagerPolicy: was Static, now None",
		}},
		"options": {m, func(p *node.Policy) {
			p.CPU.FullPCPUsOnly, p.CPU.StrictReservation, p.PodLevelManagers, p.PreferClosest = true, true, false, true
		}, []string{
			"topologyManagerPolicyOptions: was none, now prefer-closest-numa-nodes",
			"cpuManagerPolicyOptions: was none, now full-pcpus-only, strict-cpu-reservation",
			"feature gates on: was PodLevelResourceManagers, PodLevelResources, now PodLevelResources",
		}},
		"reservations": {m, func(p *node.Policy) {
			p.ReservedCPUs = cpuset.Of(0, 12)
			p.ReservedMemory = map[int]map[string]int64{1: {"memory": gib}, 0: {"memory": gib, "hugepages-2Mi": 2 << 20}}
		}, []string{
			"reserved CPUs: was 0, now 0,12",
			"reserved memory: was none, now NUMA node 0: hugepages-2Mi=2Mi memory=1Gi; NUMA node 1: memory=1Gi",
		}},
		"an empty reservation is none": {m, func(p *node.Policy) { p.ReservedMemory = map[int]map[string]int64{0: {}} }, nil},
	} {
		f := &statefile.File{Machine: statefile.Describe(m, podScope()), Policy: podScope()}
		now := podScope()
		c.policy(&now)
		got := f.Changes(c.machine, now)
		slices.Sort(got)
		slices.Sort(c.want)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%q, want\n%q", name, got, c.want)
		}
	}
}

// TestChangesOfIsolatedCPUs checks that the isolated CPUs are among the changes if the file has
// them: with the option isolated-cpus only.
func TestChangesOfIsolatedCPUs(t *testing.T) {
	before, after := isolating(t, 4, 5, 16, 17), isolating(t, 2, 3)
	none := hardware(t, 2, 6)
	const now23 = "isolated CPUs (boot parameter isolcpus): was 4-5,16-17, now 2-3"
	for name, c := range map[string]struct {
		then      *machine.Machine
		was, is   cpu.Isolated
		forgotten bool // The file has no isolated CPUs, as if an older Paddock had written it.
		now       *machine.Machine
		want      []string
	}{
		"only, the same": {before, cpu.IsolatedOnly, cpu.IsolatedOnly, false, before, nil},
		"only, others":   {before, cpu.IsolatedOnly, cpu.IsolatedOnly, false, after, []string{now23}},
		"prefer, others": {before, cpu.IsolatedFirst, cpu.IsolatedFirst, false, after, []string{now23}},
		"prefer, none any more": {
			before, cpu.IsolatedFirst, cpu.IsolatedFirst, false, none,
			[]string{"isolated CPUs (boot parameter isolcpus): was 4-5,16-17, now none"},
		},
		"prefer, none before": {
			none, cpu.IsolatedFirst, cpu.IsolatedFirst, false, after,
			[]string{"isolated CPUs (boot parameter isolcpus): was none, now 2-3"},
		},
		"without the option": {before, cpu.IsolatedAlike, cpu.IsolatedAlike, false, after, nil},
		"the option is new":  {before, cpu.IsolatedAlike, cpu.IsolatedOnly, false, after, []string{"isolated-cpus: was none, now only"}},
		"the option is gone": {before, cpu.IsolatedOnly, cpu.IsolatedAlike, false, after, []string{now23, "isolated-cpus: was only, now none"}},
		"an older file":      {before, cpu.IsolatedOnly, cpu.IsolatedOnly, true, after, nil},
	} {
		then, now := podScope(), podScope()
		then.CPU.Isolated, now.CPU.Isolated = c.was, c.is
		f := throughFile(t, &node.Grant{}, then)
		f.Machine = statefile.Describe(c.then, then)
		if c.forgotten {
			f.Machine.Isolated = cpuset.Set{}
		}
		data, err := statefile.EncodeFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if has := bytes.Contains(data, []byte(`"isolated":`)); has != (!c.forgotten && c.was != cpu.IsolatedAlike && c.then == before) {
			t.Errorf("%s: the file has isolated CPUs: %t\n%s", name, has, data)
		}
		if f, err = statefile.Decode("f", data); err != nil {
			t.Fatal(err)
		}
		if got := f.Changes(c.now, now); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%q, want\n%q", name, got, c.want)
		}
	}
}

// isolating returns hardware with isolated CPUs.
func isolating(t *testing.T, ids ...int) *machine.Machine {
	t.Helper()
	d := described(2, 6)
	d.Isolation.Isolated = cpuset.Of(ids...)
	m, err := machine.New(d)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
