package hollow

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/cluster/capacity"
	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
)

// Kind is what equal nodes share.
type Kind struct {
	// Name is MACHINE-POLICY-SCOPE, with the minor version of the kubelet if one decides.
	Name string
	// Machine is the name of the machine in the file of nodes.
	Machine     string
	State       *node.State // without pods
	Allocatable fleet.Amounts
	// Minor is the minor version of the kubelet that decides, such as "1.36". If empty, Paddock
	// decides.
	Minor string

	// machine describes the machine to a kubelet, and scenario is how that begins on it. Both are
	// nil if Paddock decides.
	machine, scenario []byte
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
// both scopes in turn, and all of them under the kubelet of each minor version, if there are any:
// then machines are left out that a kubelet does not start on. If own is set, each machine has the
// policy of the file instead.
func ReadKinds(file string, n int, minors []string, own bool) ([]*Kind, error) {
	read, err := inputs.Reader{}.Fleet(file)
	if err != nil {
		return nil, err
	}
	all := map[string]*Kind{}
	seen := map[string]int{}
	var kinds []*Kind
	if len(minors) == 0 {
		minors = []string{""}
	} else {
		read.Kinds = slices.DeleteFunc(read.Kinds, func(k capacity.Kind) bool { return len(k.State.Machine().Nodes()) > mostNUMANodes })
	}
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
		if !own {
			policy.Topology, policy.Scope = topologies[turn%len(topologies)], scopes[turn/len(topologies)%len(scopes)]
		}
		minor := minors[turn/len(topologies)/len(scopes)%len(minors)]
		name := KindName(base.Name, policy)
		if minor != "" {
			name += "-" + strings.ReplaceAll(minor, ".", "-")
		}
		if all[name] == nil {
			k := &Kind{Name: name, Machine: base.Name, Allocatable: base.Allocatable, Minor: minor}
			if all[name], err = k.complete(base.State, policy); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
		kinds = append(kinds, all[name])
	}
	return kinds, nil
}

// mostNUMANodes is how many NUMA nodes a kubelet accepts without max-allowable-numa-nodes.
const mostNUMANodes = 8

// complete adds the state, and what a kubelet needs.
func (k *Kind) complete(base *node.State, p node.Policy) (_ *Kind, err error) {
	if k.Minor != "" && !slices.Contains(withPools, k.Minor) {
		p.PodLevelManagers = false
	}
	if k.State, err = node.New(base.Machine(), p); err != nil {
		return k, err
	}
	if k.State, err = k.State.WithDevices(base.Devices().Inventory()); err != nil || k.Minor == "" {
		return k, err
	}
	return k, k.ofKubelet()
}

// withPools are the minor versions that have the feature gate PodLevelResourceManagers.
var withPools = []string{"1.36", "1.37"}

// machineInfo describes a machine as a kubelet reads it.
func machineInfo(m *machine.Machine) ([]byte, error) {
	text, err := discover.Describe(m)
	if err != nil {
		return nil, err
	}
	var info map[string]any
	if err := json.Unmarshal(text, &info); err != nil {
		return nil, err
	}
	var memory int64
	pages := map[int64]int64{}
	for _, n := range m.Nodes() {
		memory += n.Memory
		for _, p := range n.HugePages {
			pages[p.SizeKiB] += p.Count
		}
	}
	var all []any
	for _, size := range slices.Sorted(maps.Keys(pages)) {
		all = append(all, map[string]int64{"page_size": size, "num_pages": pages[size]})
	}
	info["memory_capacity"], info["hugepages"] = memory, all
	return json.Marshal(info)
}

// KindName returns the name of a machine with a policy.
func KindName(machine string, p node.Policy) string {
	return machine + "-" + short[p.Topology] + "-" + strings.ToLower(p.Scope.String())
}
