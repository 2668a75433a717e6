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

// DecidedBy returns the API form of what a kubelet's state has beside its grants. version is that
// of the kubelet.
func DecidedBy(version string, s *node.State) (*v1alpha1.DecidedBy, error) {
	digest, err := RulesDigest(s.Policy().Behavior)
	if err != nil {
		return nil, err
	}
	return &v1alpha1.DecidedBy{
		Manager: ManagerKubelet, Version: version, RulesDigest: digest,
		SharedCPUs: s.SharedCPUs().String(), Memory: MemoryBeyond(s),
	}, nil
}

// RulesDigest returns the digest of the rules by which a kubelet decides. It depends only on the
// fields that are set, so that a field that a later version adds for another kubelet leaves it as
// it is.
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

// MemoryBeyond returns the API form of the memory in the residue of a state.
func MemoryBeyond(s *node.State) []v1alpha1.MemoryBeyond {
	var all []v1alpha1.MemoryBeyond
	types := s.Memory().Capacity().Types()
	for _, r := range s.Residue() {
		for _, e := range r.Memory {
			x := v1alpha1.MemoryBeyond{Blocks: int32(e.Blocks), Bytes: map[string]int64{}}
			for _, id := range e.Nodes.Nodes() {
				x.NUMANodes = append(x.NUMANodes, int32(id))
			}
			for t, n := range e.Bytes {
				x.Bytes[types[t]] = n
			}
			all = append(all, x)
		}
	}
	return all
}

// ReadMemoryBeyond returns the memory on a machine with this capacity. The error names what the
// machine does not have.
func ReadMemoryBeyond(c *memory.Capacity, list []v1alpha1.MemoryBeyond) ([]memory.Excess, error) {
	var all []memory.Excess
	for _, x := range list {
		e := memory.Excess{Blocks: int(x.Blocks), Bytes: make([]int64, len(c.Types()))}
		for _, id := range x.NUMANodes {
			if !slices.ContainsFunc(c.Nodes(), func(n memory.NodeCapacity) bool { return n.ID == int(id) }) {
				return nil, fmt.Errorf("the machine has no NUMA node %d", id)
			}
			e.Nodes |= mask.Of(int(id))
		}
		for name, n := range x.Bytes {
			t := slices.Index(c.Types(), name)
			if t < 0 || e.Nodes.IsEmpty() {
				return nil, fmt.Errorf("%s is on no NUMA node, or the machine does not have it", name)
			}
			e.Bytes[t] = n
		}
		all = append(all, e)
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
