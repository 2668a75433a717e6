package config

import (
	"fmt"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
)

// What Default reserves for the system on the lowest NUMA node with memory: 1 GiB, or a tenth of a
// small NUMA node's memory, rounded down to MiB.
const (
	defaultReserved = int64(1) << 30
	defaultShare    = 10
	mebibyte        = int64(1) << 20
)

// Default returns the policy of a machine for which no configuration is given. It turns on all main
// features of Paddock and reserves a little for the system. The sentence describes the whole policy
// and names the settings. If no NUMA node has memory to reserve, memory is not managed.
func Default(m *machine.Machine) (node.Policy, string) {
	p := node.Policy{
		Topology:          node.TopologyBestEffort,
		Scope:             node.PodScope,
		StaticCPU:         true,
		ReservedCPUs:      m.Cores()[0].CPUs,
		PodLevelResources: true,
		PodLevelManagers:  true,
		LiftQuota:         true,
	}
	for _, n := range m.Nodes() {
		bytes := min(defaultReserved, capacities(n)[machine.Memory]/defaultShare) / mebibyte * mebibyte
		if bytes > 0 {
			p.StaticMemory = true
			p.ReservedMemory = map[int]map[string]int64{n.ID: {machine.Memory: bytes}}
			break
		}
	}
	return p, fmt.Sprintf("no KubeletConfiguration is given, so the policy is: %s", Describe(p))
}
