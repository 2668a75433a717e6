package node

import (
	"github.com/paddock-project/paddock/internal/core/account"
	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/request"
)

// keptNames returns the names of the pods for which something is kept.
func keptNames(all []kept) string {
	names := make([]string, len(all))
	for i, k := range all {
		names[i] = k.pod
	}
	return fewOf(names, ", ")
}

// account returns the account of a resource for a rejection. A verdict has none.
func (d *draft) account(resource request.Resource) []account.Node {
	if d.way == asking {
		return nil
	}
	return d.s.account(resource, d)
}

// account returns, for every NUMA node, how much of a resource is free and which pods have the
// rest, including what the rejected pod itself took before it failed.
func (s *State) account(resource request.Resource, d *draft) []account.Node {
	switch {
	case resource == request.CPU:
		all, free, shares := s.AllocatableCPUs(), d.available(), s.shares(resource, d)
		switch _, inParts := d.parts(together); {
		case inParts:
			all, free = s.machine.AllCPUs().Difference(s.policy.ReservedCPUs), d.free()
		case s.policy.CPU.Isolated == cpu.IsolatedOnly: // Shared parts of pools have others as well.
			for i := range shares {
				shares[i].CPUs = shares[i].CPUs.Intersection(s.isolated)
			}
		}
		return account.CPUs(s.machine.CPUNodes(), all, free, shares)
	case request.IsCache(resource):
		return account.Caches(resource, s.machine, d.caches, s.shares(resource, d))
	case !request.IsMemory(resource):
		return account.Devices(resource, d.devices, s.shares(resource, d))
	}
	t := s.machine.MemoryType(resource)
	if t < 0 {
		return nil
	}
	used := d.usage.Nodes()
	accounts := make([]account.Node, len(used))
	for i, n := range s.capacity.Nodes() {
		accounts[i] = account.Node{Node: n.ID, Total: n.Types[t].Allocatable, Free: used[i].Free[t]}
	}
	return account.Memory(resource, accounts, s.shares(resource, d))
}

// shares returns who has a resource: the grants, what is reserved, the residue, and the rejected
// pod.
func (s *State) shares(resource request.Resource, d *draft) []account.Share {
	var all []account.Share
	// Most pods share the node's CPUs and memory, and need neither a name nor an entry.
	add := func(g *Grant, which string) {
		var share account.Share
		switch {
		case resource == request.CPU:
			share.CPUs = g.CPUs()
		case request.IsCache(resource):
			share.Classes = g.Classes()
		case request.IsMemory(resource):
			share.Blocks = g.Charged()
		default:
			share.Devices = g.Devices()
		}
		if !share.CPUs.IsEmpty() || len(share.Blocks) > 0 || len(share.Devices) > 0 || len(share.Classes) > 0 {
			share.Holder = g.Pod.ID() + which
			all = append(all, share)
		}
	}
	for g := range s.grants.all() {
		add(g, "")
	}
	for _, k := range d.kept {
		all = append(all, account.Share{Holder: account.ReservedFor + k.pod, CPUs: k.cpus, Blocks: k.blocks, Devices: k.devices, Classes: k.classes})
	}
	for _, r := range s.Residue() {
		share := account.Share{Holder: r.String(), CPUs: r.CPUs}
		if t := s.machine.MemoryType(resource); t >= 0 {
			for _, e := range r.Memory {
				share.Blocks = append(share.Blocks, memory.Block{Type: resource, Size: e.Bytes[t], Nodes: e.Nodes})
			}
		}
		all = append(all, share)
	}
	add(&Grant{Pod: d.pod, Pool: d.pool, PoolMemory: d.poolMemory, PoolCache: d.poolCache, Containers: d.containers}, " (this pod)")
	return all
}
