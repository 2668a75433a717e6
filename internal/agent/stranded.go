package agent

import (
	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/core/node"
)

// stranded returns the stranded CPUs of the node by NUMA node, for telemetry.Config.
func stranded(s *node.State) map[int]float64 {
	of := map[int]float64{}
	for _, n := range fleet.Alone(s).Stock() {
		of[n.NUMANode] = n.Stranded
	}
	return of
}
