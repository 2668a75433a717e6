package statefile

import (
	"fmt"
	"maps"
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

func (x *fileText) file() (*File, error) {
	if x.Generation > node.MaxGeneration {
		return nil, fmt.Errorf("%w: it has revision %d, and the last one is %d", ErrDamaged, x.Generation, uint64(node.MaxGeneration))
	}
	f := &File{Version: x.Version, Generation: x.Generation, Grants: make([]*node.Grant, len(x.Grants))}
	var r reader
	f.Machine.CPUs = r.cpus(x.Machine.CPUs)
	for _, n := range x.Machine.Nodes {
		f.Machine.Nodes = append(f.Machine.Nodes, Node{ID: n.ID, CPUs: r.cpus(n.CPUs), Memory: amountsOf(n.Memory)})
	}
	f.Policy = x.Policy.policy(&r)
	if r.err != nil {
		return nil, r.err
	}
	for i := range x.Grants {
		g := x.Grants[i].grant(&r)
		switch {
		case r.err != nil:
			return nil, fmt.Errorf("%w in pod %s", r.err, g.Pod.ID())
		case i > 0 && f.Grants[i-1].Pod.UID >= g.Pod.UID:
			return nil, fmt.Errorf("%w: pod %s with UID %q follows UID %q", ErrDamaged, g.Pod.ID(), g.Pod.UID, f.Grants[i-1].Pod.UID)
		case g.Sequence > x.Generation:
			return nil, fmt.Errorf("%w: pod %s was admitted as number %d, in a state of revision %d", ErrDamaged, g.Pod.ID(), g.Sequence, x.Generation)
		}
		f.Grants[i] = g
	}
	return f, nil
}

func (x *policyText) policy(r *reader) node.Policy {
	p := node.Policy{
		Topology: value(r, topologyNames, x.Topology), Scope: value(r, scopeNames, x.Scope),
		StaticCPU: value(r, cpuPolicyNames, x.CPU), ReservedCPUs: r.cpus(x.ReservedCPUs),
		StaticMemory: value(r, memoryPolicyNames, x.Memory),
	}
	r.switches(&p, topologyOptions, x.TopologyOptions)
	r.switches(&p, cpuOptions, x.CPUOptions)
	r.switches(&p, featureGates, x.FeatureGates)
	if len(x.ReservedMemory) > 0 {
		p.ReservedMemory = map[int]map[string]int64{}
	}
	for _, n := range x.ReservedMemory {
		p.ReservedMemory[n.Node] = n.Limits
	}
	return p
}

func (x *podText) grant(r *reader) *node.Grant {
	g := &node.Grant{
		Pod: request.Pod{
			UID: x.UID, Namespace: x.Namespace, Name: x.Name, QoS: value(r, qosNames, x.QoS), Kind: value(r, kindNames, x.Kind),
			BudgetCPUs: x.BudgetCPUs, BudgetMemory: amountsOf(x.BudgetMemory), BudgetCPUMilli: x.BudgetCPUMilli, CPULimit: x.CPULimit,
			Estimated: x.Estimated, Priority: x.Priority, Created: x.Created,
			Containers: make([]request.Container, len(x.Containers)),
		},
		Sequence: x.Sequence, Pool: r.cpus(x.Pool), PoolMemory: r.blocks(x.PoolMemory),
		Containers: make([]node.ContainerGrant, len(x.Containers)),
	}
	for i := range x.Containers {
		c := &x.Containers[i]
		g.Pod.Containers[i] = request.Container{
			Name: c.Name, Lane: value(r, laneNames, c.Lane), CPUs: c.Asks.CPUs, Sharing: value(r, sharingNames, c.Asks.Sharing),
			Memory: amountsOf(c.Asks.Memory), HugePages: c.Asks.HugePages, Devices: amountsOf(c.Asks.Devices), Equivalent: c.Asks.Equivalent,
			CPURequest: c.Asks.CPURequest, CPULimit: c.Asks.CPULimit,
		}
		a := c.Has.Affinity
		g.Containers[i] = node.ContainerGrant{
			CPUs: r.cpus(c.Has.CPUs), Memory: r.blocks(c.Has.Memory), MemoryNodes: r.nodes(c.Has.MemoryNodes),
			Devices: heldOf(c.Has.Devices), Removed: c.Has.Removed,
			Affinity: hint.Choice{Mask: r.nodes(a.Nodes), HasMask: a.HasMask, Preferred: a.Preferred, Admit: a.Admit},
		}
	}
	return g
}

func heldOf(m map[string][]string) []device.Held {
	var list []device.Held
	for _, resource := range slices.Sorted(maps.Keys(m)) {
		list = append(list, device.Held{Resource: resource, IDs: m[resource]})
	}
	return list
}

// reader turns text into values and keeps the first error.
type reader struct{ err error }

func (r *reader) refuse(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *reader) cpus(text string) cpuset.Set {
	s, err := cpuset.Parse(text)
	if err != nil {
		r.refuse(fmt.Errorf("%w: %w", ErrDamaged, err))
	}
	return s
}

func (r *reader) nodes(ids []int) mask.Mask {
	var m mask.Mask
	for _, id := range ids {
		if id < 0 || id > mask.MaxNode {
			r.refuse(fmt.Errorf("%w: NUMA node %d is outside 0..%d", ErrDamaged, id, mask.MaxNode))
			return 0
		}
		m = m.With(id)
	}
	return m
}

func (r *reader) blocks(list []blockText) []memory.Block {
	var blocks []memory.Block
	for _, b := range list {
		blocks = append(blocks, memory.Block{Type: b.Type, Size: b.Size, Nodes: r.nodes(b.Nodes)})
	}
	return blocks
}

func (r *reader) switches(p *node.Policy, s switches, list []string) {
	if unknown, ok := s.set(p, list); !ok {
		r.refuse(fmt.Errorf("%w: it has an option %q that this one does not know", ErrNewer, unknown))
	}
}

func value[T comparable](r *reader, n names[T], name string) T {
	v, ok := n.valueOf(name)
	if !ok {
		r.refuse(fmt.Errorf("%w: it has a value %q that this one does not know", ErrNewer, name))
	}
	return v
}
