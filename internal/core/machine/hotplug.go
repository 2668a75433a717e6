package machine

import (
	"github.com/paddock-project/paddock/internal/core/cpuset"
)

// WithCPUs returns m with the CPUs of now, which is m after CPUs went offline or came online. NUMA
// nodes, memory, huge pages, distances, isolation and caches are those of m. A NUMA node without
// online CPUs remains, without CPUs. A NUMA node that m does not have is not added, and its CPUs
// are ignored.
//
// An offline thread counts in the averages (R-CPU-3) while another thread of its core is online.
// Otherwise one offline thread on a machine with two threads per core would make the average 1, and
// full-pcpus-only would assign single threads.
func (m *Machine) WithCPUs(now *Machine) (*Machine, error) {
	d := Description{Nodes: make([]NodeDescription, len(m.nodes)), Isolation: m.isolation, Caches: m.caches, L3: m.withL3(now)}
	for i, n := range m.nodes {
		d.Nodes[i] = NodeDescription{ID: n.ID, Memory: n.Memory, HugePages: n.HugePages}
		if m.distances != nil {
			d.Nodes[i].Distances = m.distances[n.ID]
		}
	}
	at := map[int]int{}
	for i, n := range m.nodes {
		at[n.ID] = i
	}
	for _, core := range now.cores {
		c, _ := now.CPU(core.ID)
		i, known := at[c.Node]
		if !known {
			continue
		}
		uncore := NoUncore
		if c.Uncore != c.Socket {
			uncore = c.Uncore // The id of the socket also means "not reported" and gives the same unit.
		}
		d.Nodes[i].Cores = append(d.Nodes[i].Cores, CoreDescription{Socket: c.Socket, Uncore: uncore, Threads: core.CPUs.IDs()})
		whole := core.CPUs // Includes the threads of its core on m, online or not.
		for id := range core.CPUs.All() {
			if c, known := m.CPU(id); known {
				whole = whole.Union(m.cores[m.places.Places[c.ID].Core].CPUs)
			}
		}
		d.CPUs += whole.Len()
	}
	n, err := New(d)
	if n != nil {
		n.shortDistances = m.shortDistances
	}
	return n, err
}

// Without returns m without some CPUs, as WithCPUs does. The error wraps ErrInvalid if no CPU is
// left.
func (m *Machine) Without(cpus cpuset.Set) (*Machine, error) {
	left := *m
	left.cores = nil
	for _, core := range m.cores {
		core.CPUs = core.CPUs.Difference(cpus)
		if core.Size = core.CPUs.Len(); core.Size > 0 {
			core.ID = core.CPUs.Lowest()
			left.cores = append(left.cores, core)
		}
	}
	return m.WithCPUs(&left)
}
