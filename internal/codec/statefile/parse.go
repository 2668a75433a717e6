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
		case g.Resized > x.Generation:
			return nil, fmt.Errorf("%w: pod %s was resized in revision %d, in a state of revision %d", ErrDamaged, g.Pod.ID(), g.Resized, x.Generation)
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
	if m := x.Moves; m != nil {
		p.Moves = node.MovePolicy{Pods: m.Pods, All: m.All, Bytes: m.Bytes, AnyKernel: m.AnyKernel}
	}
	return p
}

func (x *podText) grant(r *reader) *node.Grant {
	g := &node.Grant{
		Pod: request.Pod{
			Identity: request.Identity{UID: x.UID, Namespace: x.Namespace, Name: x.Name}, Ask: request.Ask{
				QoS: value(r, qosNames, x.QoS), Kind: value(r, kindNames, x.Kind),
				BudgetCPUs: x.BudgetCPUs, BudgetMemory: amountsOf(x.BudgetMemory), BudgetCPUMilli: x.BudgetCPUMilli, CPULimit: x.CPULimit,
				Estimated: x.Estimated, Stock: r.stock(x.Stock),
				DevicesUnknown: x.DevicesUnknown,
				Containers:     make([]request.Container, len(x.Containers)),
			}, Notes: request.Notes{Priority: x.Priority, Created: x.Created, Moves: value(r, consentNames, x.Moves), ResourceClaims: claimsOf(x.ResourceClaims)},
		},
		Sequence: x.Sequence, Resized: x.Resized, Pool: r.cpus(x.Pool), PoolBaseline: r.cpus(x.PoolBaseline), PoolMemory: r.blocks(x.PoolMemory),
		Containers: make([]node.ContainerGrant, len(x.Containers)),
	}
	for i := range x.Containers {
		c := &x.Containers[i]
		g.Pod.Containers[i] = request.Container{
			Name: c.Name, Type: value(r, containerTypeNames, c.Type), CPUs: c.Asks.CPUs, Sharing: value(r, sharingNames, c.Asks.Sharing),
			Memory: amountsOf(c.Asks.Memory), HugePages: c.Asks.HugePages, Devices: amountsOf(c.Asks.Devices), Equivalent: c.Asks.Equivalent,
			CPURequest: c.Asks.CPURequest, CPULimit: c.Asks.CPULimit, Given: r.given(c.Asks.Given), ContainerNotes: request.ContainerNotes{Claims: c.Asks.Claims},
		}
		g.Containers[i] = r.has(&c.Has)
	}
	if to := x.Moving; to != nil {
		place := *g
		place.Pool, place.PoolBaseline, place.PoolMemory = r.cpus(to.Pool), r.cpus(to.PoolBaseline), r.blocks(to.PoolMemory)
		place.Containers = make([]node.ContainerGrant, len(to.Containers))
		for i := range to.Containers {
			place.Containers[i] = r.has(&to.Containers[i])
		}
		g.Moving = &place
	}
	return g
}

func (r *reader) has(x *grantText) node.ContainerGrant {
	a := x.Affinity
	has := node.ContainerGrant{
		CPUs: r.cpus(x.CPUs), Baseline: r.cpus(x.Baseline), Memory: r.blocks(x.Memory), MemoryNodes: r.nodes(x.MemoryNodes), Removed: x.Removed,
		Affinity: hint.Choice{Mask: r.nodes(a.Nodes), HasMask: a.HasMask, Preferred: a.Preferred, Admit: a.Admit},
	}
	for _, resource := range slices.Sorted(maps.Keys(x.Devices)) {
		has.Devices = append(has.Devices, device.Assigned{Resource: resource, IDs: x.Devices[resource]})
	}
	return has
}

// reader converts text into values and keeps the first error.
type reader struct{ err error }

func (r *reader) reject(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *reader) cpus(text string) cpuset.Set {
	s, err := cpuset.Parse(text)
	if err != nil {
		r.reject(fmt.Errorf("%w: %w", ErrDamaged, err))
	}
	return s
}

func (r *reader) nodes(ids []int) mask.Mask {
	var m mask.Mask
	for _, id := range ids {
		if id < 0 || id > mask.MaxNode {
			r.reject(fmt.Errorf("%w: NUMA node %d is outside 0..%d", ErrDamaged, id, mask.MaxNode))
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

func (r *reader) given(list []givenText) []request.Given {
	var given []request.Given
	for _, g := range list {
		given = append(given, request.Given{
			Resource: g.Resource, Claim: g.Claim, Driver: g.Driver, Pool: g.Pool, Name: g.Name, Nodes: r.nodes(g.Nodes),
		})
	}
	return given
}

func (r *reader) stock(list []stockText) []request.Stock {
	var stock []request.Stock
	for _, s := range list {
		out := request.Stock{Of: s.Of}
		for _, p := range s.Places {
			out.Places = append(out.Places, request.Place{Nodes: r.nodes(p.Nodes), Devices: p.Devices})
		}
		stock = append(stock, out)
	}
	return stock
}

func claimsOf(list []claimText) []request.Claim {
	var claims []request.Claim
	for _, c := range list {
		claim := request.Claim{Name: c.Name}
		for _, u := range c.Uses {
			claim.Uses = append(claim.Uses, request.ClaimUse{Container: u.Container, Request: u.Request})
		}
		if c.Devices != nil {
			claim.Devices = make([]request.ClaimDevice, 0, len(*c.Devices))
			for _, d := range *c.Devices {
				device := request.ClaimDevice{Driver: d.Driver, Pool: d.Pool, Name: d.Name, ShareID: d.Share, CDI: d.CDI}
				if d.Requests != nil {
					device.Requests = append([]string{}, *d.Requests...)
				}
				claim.Devices = append(claim.Devices, device)
			}
		}
		claims = append(claims, claim)
	}
	return claims
}

// switches turns on the switches that the list names.
func (r *reader) switches(p *node.Policy, s switches, list []string) {
	for _, name := range list {
		found := false
		for _, x := range s {
			if x.name == name {
				*x.of(p), found = true, true
			}
		}
		if !found {
			r.reject(fmt.Errorf("%w: it has an option %q that this one does not know", ErrNewer, name))
		}
	}
}

func value[T comparable](r *reader, n names[T], name string) T {
	for _, x := range n {
		if x.name == name {
			return x.value
		}
	}
	r.reject(fmt.Errorf("%w: it has a value %q that this one does not know", ErrNewer, name))
	var zero T
	return zero
}
