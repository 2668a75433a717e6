package config

import (
	"fmt"
	"maps"
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Reserved is what one NUMA node reserves for the system, as a suggested entry of reservedMemory.
type Reserved struct {
	NUMANode int `json:"numaNode"`
	// Memory is an amount such as "612Mi".
	Memory string `json:"memory"`
}

// SuggestReservedMemory returns entries of reservedMemory that add up to what the node reserves
// (R-MEM-4) and that fit on its NUMA nodes. It keeps the given entries as far as possible and adds
// the difference to the lowest NUMA nodes that have space. It returns nil if the given entries are
// already right, if memoryManagerPolicy is not Static, or if no such entries exist.
func (c *Config) SuggestReservedMemory(m *machine.Machine) []Reserved {
	r := &resolution{spec: &c.spec, machine: m}
	reserved := r.reservation()
	total := reserved.total(machine.Memory)
	want, whole := total.AsInt64()
	if c.spec.MemoryManagerPolicy != "Static" || !reserved.known || !whole || want <= 0 {
		return nil
	}
	given, keep := r.reservedMemory(), map[int]int64{}
	right, sum := len(r.problems) == 0, int64(0)
	for numa, limits := range given {
		n, exists := m.Node(numa)
		room := max(0, capacities(n)[machine.Memory])
		right = right && exists && limits[machine.Memory] <= room && len(limits) == 1
		if exists {
			keep[numa] = min(limits[machine.Memory], room)
			sum += keep[numa]
		}
	}
	if right && sum == want {
		return nil
	}
	// Missing bytes are added to the NUMA nodes that have space, the lowest first. Excess bytes are
	// taken from the highest first.
	bytes := want - sum
	for _, n := range m.Nodes() {
		if part := min(bytes, capacities(n)[machine.Memory]-keep[n.ID]); part > 0 {
			keep[n.ID] += part
			bytes -= part
		}
	}
	for _, numa := range slices.Backward(slices.Sorted(maps.Keys(keep))) {
		if part := min(-bytes, keep[numa]); part > 0 {
			keep[numa] -= part
			bytes += part
		}
	}
	if bytes != 0 {
		return nil
	}
	var out []Reserved
	for _, numa := range slices.Sorted(maps.Keys(keep)) {
		if keep[numa] > 0 {
			out = append(out, Reserved{numa, request.Bytes(keep[numa])})
		}
	}
	return out
}

// EmptyNodes returns warnings about NUMA nodes whose CPUs are all reserved. No container gets
// exclusive CPUs there, and with strict-cpu-reservation no container runs there at all.
func (c *Config) EmptyNodes(m *machine.Machine) []Warning {
	r := c.resolve(m, cpuset.Set{})
	reserved := r.policy.ReservedCPUs
	if !r.policy.StaticCPU || reserved.Contains(m.AllCPUs()) {
		return nil // if all CPUs are reserved, there is a separate warning
	}
	r.warnings = nil
	for _, n := range m.CPUNodes() {
		switch {
		case !reserved.Contains(n.CPUs):
		case r.policy.CPU.StrictReservation:
			r.warn("reservedSystemCPUs", "all CPUs of NUMA node %d (%s) are reserved strictly: nothing runs there, and its memory is far from every container", n.ID, n.CPUs)
		default:
			r.warn("reservedSystemCPUs", "all CPUs of NUMA node %d (%s) are reserved: no container gets CPUs of its own beside its memory", n.ID, n.CPUs)
		}
	}
	return r.warnings
}

// String returns the entry as it is written in a file.
func (r Reserved) String() string {
	return fmt.Sprintf("{numaNode: %d, limits: {memory: %s}}", r.NUMANode, r.Memory)
}
