package objects

import (
	"fmt"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/core/behavior"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/shown"
)

// DecidedBy returns the API form of what a kubelet's state has in addition to its grants. version
// is the version of the kubelet.
func DecidedBy(version string, s *node.State) (*v1alpha1.DecidedBy, error) {
	digest, err := behavior.Digest(s.Policy().Behavior)
	if err != nil {
		return nil, err
	}
	return &v1alpha1.DecidedBy{
		Manager: v1alpha1.ManagerKubelet, Version: version, RulesDigest: digest,
		SharedCPUs: s.SharedCPUs().String(), Memory: AccountedMemory(s),
	}, nil
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
	all := make([]shown.Accounted, len(list))
	for i, x := range list {
		all[i] = shown.Accounted{NUMANode: int(x.NUMANode), Assignments: int(x.Assignments), Assigned: x.Assigned}
		for _, id := range x.Together {
			all[i].Together = append(all[i].Together, int(id))
		}
	}
	return shown.Account(c, all)
}

// ReadShared returns the CPUs of the shared pool.
func ReadShared(d *v1alpha1.DecidedBy) (cpuset.Set, error) {
	shared, err := cpuset.Parse(d.SharedCPUs)
	if err != nil {
		return shared, fmt.Errorf("sharedCPUs: %w", err)
	}
	return shared, nil
}
