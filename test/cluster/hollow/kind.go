package hollow

import (
	"fmt"
	"strings"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/core/node"
)

// Kind is what equal nodes share.
type Kind struct {
	// Name is MACHINE-POLICY-SCOPE.
	Name string
	// Machine is the name of the machine in the file of nodes.
	Machine     string
	State       *node.State // without pods
	Allocatable fleet.Amounts
}

var (
	topologies = []node.TopologyPolicy{node.TopologySingleNUMANode, node.TopologyRestricted, node.TopologyBestEffort}
	scopes     = []node.Scope{node.PodScope, node.ContainerScope}
)

// short has short names of policies, for the names of nodes.
var short = map[node.TopologyPolicy]string{
	node.TopologySingleNUMANode: "single", node.TopologyRestricted: "restricted", node.TopologyBestEffort: "best", node.TopologyNone: "none",
}

// ReadKinds reads a file of nodes (inputs.FleetNodes) and returns a list of n kinds, one for each
// node. The machines are spread evenly according to their shares. Each machine gets every policy in
// both scopes in turn.
func ReadKinds(file string, n int) ([]*Kind, error) {
	read, err := inputs.Reader{}.Fleet(file)
	if err != nil {
		return nil, err
	}
	all := map[string]*Kind{}
	seen := map[string]int{}
	var kinds []*Kind
	total := 0
	for _, k := range read.Kinds {
		total += k.Count
	}
	for i := range n {
		// The machine that is furthest behind its share is next.
		best, behind := 0, -1.0
		for j, k := range read.Kinds {
			if d := float64(k.Count)*float64(i+1)/float64(total) - float64(seen[k.Name]); d > behind {
				best, behind = j, d
			}
		}
		base := read.Kinds[best]
		turn := seen[base.Name]
		seen[base.Name]++
		policy := base.State.Policy()
		policy.Topology, policy.Scope = topologies[turn%len(topologies)], scopes[turn/len(topologies)%len(scopes)]
		name := KindName(base.Name, policy)
		if all[name] == nil {
			state, err := node.New(base.State.Machine(), policy)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			all[name] = &Kind{Name: name, Machine: base.Name, State: state, Allocatable: base.Allocatable}
		}
		kinds = append(kinds, all[name])
	}
	return kinds, nil
}

// KindName returns the name of a machine with a policy.
func KindName(machine string, p node.Policy) string {
	return machine + "-" + short[p.Topology] + "-" + strings.ToLower(p.Scope.String())
}
