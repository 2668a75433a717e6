package zones

import (
	"strconv"

	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
)

// maxNodes is the kubelet's limit on NUMA nodes, unless an option raises it.
const maxNodes = 8

// Of returns the content of the object for a state and the kubelet's list.
func Of(s *node.State, l *handover.Listing) Content {
	m, free := s.Machine(), freeCPUs(s)
	c := Content{Attributes: append(attributes(s),
		Attribute{"nodeTopologyPodsFingerprint", fingerprint(l.Begun)}, Attribute{"nodeTopologyPodsFingerprintMethod", "all"})}
	names := namesOf(m.Nodes())
	memory := s.Memory().Nodes()
	for i, n := range m.Nodes() {
		z := Zone{Name: names[i], Type: "Node"}
		if own := name(n.ID); z.Name != own {
			z.Attributes = []Attribute{{numaNodeID, strconv.Itoa(n.ID)}}
		}
		if m.HasDistances() {
			for j, to := range m.Nodes() {
				z.Costs = append(z.Costs, Cost{names[j], int64(m.Distance(n.ID, to.ID))})
			}
		}
		if s.Policy().StaticCPU && n.CPUs.Len() > 0 {
			z.add("cpu", int64(n.CPUs.Len()), int64(n.CPUs.IntersectionLen(s.AllocatableCPUs())), int64(n.CPUs.IntersectionLen(free)))
		}
		if s.Policy().StaticMemory {
			capacity := s.Memory().Capacity()
			together := s.Policy().Topology == node.TopologySingleNUMANode && memory[i].Group.Len() > 1
			for t, typ := range capacity.Nodes()[i].Types {
				available := memory[i].Free[t]
				if together {
					available = 0
				}
				if typ.Total > 0 {
					z.add(capacity.Types()[t], typ.Total, typ.Allocatable, available)
				}
			}
		}
		for _, resource := range s.Devices().Inventory().Resources() {
			for _, d := range s.Devices().Counts(resource) {
				if d.Node == n.ID {
					z.add(resource, int64(d.Total), int64(d.Assigned+d.Free), int64(d.Free))
				}
			}
		}
		c.Zones = append(c.Zones, z)
	}
	return c
}

// numaNodeID is the attribute of a zone that has the kernel's id of the NUMA node. Only zones whose
// name has another number have it.
const numaNodeID = "numaNodeID"

// namesOf returns the names of the zones: with their positions, which nearly always are the ids of
// the NUMA nodes.
func namesOf(nodes []machine.Node) []string {
	names := make([]string, len(nodes))
	for i := range nodes {
		names[i] = name(i)
	}
	return names
}

func name(id int) string { return "node-" + strconv.Itoa(id) }

func (z *Zone) add(resource string, capacity, allocatable, available int64) {
	text := func(n int64) Quantity { return Quantity(strconv.FormatInt(n, 10)) }
	z.Resources = append(z.Resources, Resource{resource, text(capacity), text(allocatable), text(available)})
}

// freeCPUs returns the CPUs that could become exclusive now. If only whole cores are assigned, it
// returns the CPUs of cores that are completely free.
func freeCPUs(s *node.State) cpuset.Set {
	free := s.AvailableCPUs()
	if !s.Policy().CPU.FullPCPUsOnly {
		return free
	}
	var whole cpuset.Set
	for _, core := range s.Machine().Cores() {
		if free.Contains(core.CPUs) {
			whole = whole.Union(core.CPUs)
		}
	}
	return whole
}

// attributes returns the settings under the names of the kubelet's options.
func attributes(s *node.State) []Attribute {
	p := s.Policy()
	// The policy dynamic admits like static.
	cpu, memory := "none", "None"
	if p.StaticCPU {
		cpu = "static"
	}
	if p.StaticMemory {
		memory = "Static"
	}
	all := []Attribute{
		{"topologyManagerPolicy", p.Topology.String()},
		{"topologyManagerScope", p.Scope.String()},
		{"topologyManagerMaxNUMANodes", strconv.Itoa(max(maxNodes, len(s.Machine().Nodes())))},
		{"cpuManagerPolicy", cpu},
		{"memoryManagerPolicy", memory},
	}
	for _, option := range []struct {
		name string
		on   bool
	}{
		{"topologyManagerOptionPreferClosestNUMANodes", p.PreferClosest},
		{"cpuManagerOptionFullPCPUsOnly", p.CPU.FullPCPUsOnly},
		{"cpuManagerOptionDistributeCPUsAcrossNUMA", p.CPU.DistributeAcrossNUMA},
		{"cpuManagerOptionDistributeCPUsAcrossCores", p.CPU.DistributeAcrossCores},
		{"cpuManagerOptionAlignBySocket", p.CPU.AlignBySocket},
		{"cpuManagerOptionStrictCPUReservation", p.CPU.StrictReservation},
		{"cpuManagerOptionPreferAlignCPUsByUncoreCache", p.CPU.PreferUncore},
	} {
		if option.on {
			all = append(all, Attribute{option.name, "true"})
		}
	}
	return all
}
