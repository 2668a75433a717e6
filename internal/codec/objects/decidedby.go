package objects

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/node"
)

// ManagerKubelet is the manager of a node whose kubelet decides.
const ManagerKubelet = "kubelet"

// DecidedBy returns the API form of what a kubelet's state has in addition to its grants. version
// is the version of the kubelet.
func DecidedBy(version string, s *node.State) (*v1alpha1.DecidedBy, error) {
	digest, err := RulesDigest(s.Policy().Behavior)
	if err != nil {
		return nil, err
	}
	return &v1alpha1.DecidedBy{
		Manager: ManagerKubelet, Version: version, RulesDigest: digest,
		SharedCPUs: s.SharedCPUs().String(), Memory: AccountedMemory(s),
	}, nil
}

// RulesDigest returns the digest of the rules by which a kubelet decides. It depends only on the
// fields that are set, so a field that a later version adds for another kubelet does not change it.
func RulesDigest(b node.Behavior) (string, error) {
	text, err := json.Marshal(b)
	if err != nil {
		return "", err
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return "", err
	}
	return handover.Digest([]byte(strings.Join(set("", fields), "\n"))), nil
}

// set returns the names of the fields that are true, ascending. A field of another type, which
// would be missing in a digest, has its value in its name.
func set(prefix string, fields map[string]any) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		switch value := fields[name].(type) {
		case map[string]any:
			names = append(names, set(prefix+name+".", value)...)
		case bool:
			if value {
				names = append(names, prefix+name)
			}
		default:
			names = append(names, fmt.Sprintf("%s%s=%v", prefix, name, value))
		}
	}
	return names
}

// AccountedMemory returns the API form of the memory accounting in a kubelet's state.
func AccountedMemory(s *node.State) []v1alpha1.AccountedMemory {
	var all []v1alpha1.AccountedMemory
	types := s.Memory().Capacity().Types()
	for _, n := range s.Memory().Nodes() {
		x := v1alpha1.AccountedMemory{NUMANode: int32(n.ID), Assignments: int32(n.Assignments)}
		for t, bytes := range n.Reserved {
			if bytes != 0 {
				if x.Assigned == nil {
					x.Assigned = map[string]int64{}
				}
				x.Assigned[types[t]] = bytes
			}
		}
		if n.Group != mask.Of(n.ID) {
			for _, id := range n.Group.Nodes() {
				x.Together = append(x.Together, int32(id))
			}
		}
		if x.Assignments > 0 || x.Assigned != nil {
			all = append(all, x)
		}
	}
	return all
}

// ReadAccountedMemory returns the accounting of all NUMA nodes of a machine with this capacity. The
// error names what the machine does not have.
func ReadAccountedMemory(c *memory.Capacity, list []v1alpha1.AccountedMemory) ([]memory.NodeUsage, error) {
	all := memory.NewUsage(c).Nodes()
	index := func(id int32) int {
		return slices.IndexFunc(all, func(n memory.NodeUsage) bool { return n.ID == int(id) })
	}
	for _, x := range list {
		i := index(x.NUMANode)
		if i < 0 {
			return nil, fmt.Errorf("the machine has no NUMA node %d", x.NUMANode)
		}
		n := &all[i]
		n.Assignments = int(x.Assignments)
		for k, id := range x.Together {
			if index(id) < 0 {
				return nil, fmt.Errorf("the machine has no NUMA node %d", id)
			}
			if k == 0 {
				n.Group = 0
			}
			n.Group = n.Group.With(int(id))
		}
		for name, bytes := range x.Assigned {
			t := slices.Index(c.Types(), name)
			if t < 0 || bytes < 0 || bytes > c.Nodes()[i].Types[t].Allocatable {
				return nil, fmt.Errorf("%d bytes of %s are assigned on NUMA node %d, which does not have them", bytes, name, n.ID)
			}
			n.Reserved[t] = bytes
		}
	}
	return all, nil
}

// ReadShared returns the CPUs of the shared pool.
func ReadShared(d *v1alpha1.DecidedBy) (cpuset.Set, error) {
	shared, err := cpuset.Parse(d.SharedCPUs)
	if err != nil {
		return shared, fmt.Errorf("sharedCPUs: %w", err)
	}
	return shared, nil
}
