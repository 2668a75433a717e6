package statefile_test

import (
	"slices"
	"testing"

	"github.com/paddock-project/paddock/internal/codec/statefile"
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
		f := &statefile.File{Machine: statefile.Describe(m), Policy: podScope()}
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
