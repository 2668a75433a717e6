package config

import (
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
)

// Allocatable is what the pods of a node can request together, as the kubelet reports it to the API
// server: the capacity of the machine minus kubeReserved, systemReserved and the hard eviction
// threshold of memory. Huge pages do not count as memory.
type Allocatable struct {
	// Milli is CPU time in thousandths of a CPU.
	Milli int64
	// Memory has the bytes of "memory" and of each type of huge pages.
	Memory map[string]int64
	// Pods is the maximum number of pods on the node.
	Pods int64
}

// defaultMaxPods is the kubelet's default of maxPods.
const defaultMaxPods = 110

// Allocatable returns the allocatable amounts of a machine. The configuration must be one that
// Resolve accepts. As in the kubelet, reservedSystemCPUs replaces the CPUs of both reservations.
func (c *Config) Allocatable(m *machine.Machine) Allocatable {
	r := c.resolve(m, cpuset.Set{})
	reserved := r.reservation()
	a := Allocatable{Milli: int64(m.AllCPUs().Len()) * 1000, Memory: map[string]int64{}, Pods: defaultMaxPods}
	if c.spec.MaxPods > 0 {
		a.Pods = int64(c.spec.MaxPods)
	}
	if named, err := cpuset.Parse(c.spec.ReservedSystemCPUs); err == nil && !named.IsEmpty() {
		a.Milli -= int64(named.Len()) * 1000 // Whatever the CPU policy is.
	} else {
		kube, system := reserved.kube["cpu"], reserved.system["cpu"]
		a.Milli -= kube.MilliValue() + system.MilliValue()
	}
	for _, n := range m.Nodes() {
		for name, bytes := range capacities(n) {
			a.Memory[name] += bytes
		}
	}
	kube, system := reserved.kube[machine.Memory], reserved.system[machine.Memory]
	a.Memory[machine.Memory] -= kube.Value() + system.Value() + reserved.eviction.Value()
	a.Milli, a.Memory[machine.Memory] = max(0, a.Milli), max(0, a.Memory[machine.Memory])
	return a
}
