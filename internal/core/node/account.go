package node

import (
	"cmp"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/request"
)

// NodeAccount is what one NUMA node has of a resource.
type NodeAccount struct {
	Node int
	// Total is what pods could ever have there, Free what they could have now.
	Total, Free int64
	// Unhealthy devices are neither free nor held.
	Unhealthy int64
	// Holders have the rest, the largest first. Bytes held by a group of NUMA
	// nodes are booked on its lowest nodes first.
	Holders []Holder
}

// Holder is a pod that holds Amount of a resource on a NUMA node.
type Holder struct {
	Pod    string // namespace/name
	Amount int64
	// Nodes is where the amount lies when it is not on this NUMA node alone.
	Nodes mask.Mask
}

// account says for every NUMA node how much of a resource is free, and who holds the rest: the
// pods that are there, and what the refused pod itself had taken before it failed.
func (s *State) account(resource request.Resource, d *draft) []NodeAccount {
	if resource == request.CPU {
		return s.accountCPU(d)
	}
	if !request.IsMemory(resource) {
		return s.accountDevices(resource, d)
	}
	t := s.machine.MemoryType(resource)
	if t < 0 {
		return nil
	}
	used := d.usage.Nodes()
	accounts := make([]NodeAccount, len(used))
	for i, n := range s.capacity.Nodes() {
		accounts[i] = NodeAccount{Node: n.ID, Total: n.Types[t].Allocatable, Free: used[i].Free[t]}
	}
	add := func(pod string, blocks []memory.Block) {
		for _, b := range blocks {
			for i := range accounts {
				if b.Type == resource && b.Nodes.Has(accounts[i].Node) && b.Size > 0 {
					accounts[i].hold(pod, b)
				}
			}
		}
	}
	for _, g := range s.grants {
		add(g.Pod.ID(), g.Charged())
	}
	own := Grant{Pod: d.pod, PoolMemory: d.poolMemory, Containers: d.containers}
	add(d.pod.ID()+" (this pod)", own.Charged())
	return largestFirst(accounts)
}

// hold adds a block of a pod, whose containers have one each, to what the pod holds.
func (a *NodeAccount) hold(pod string, b memory.Block) {
	for i := range a.Holders {
		if h := &a.Holders[i]; h.Pod == pod && h.Nodes == b.Nodes {
			h.Amount += b.Size
			return
		}
	}
	a.Holders = append(a.Holders, Holder{Pod: pod, Amount: b.Size, Nodes: b.Nodes})
}

func (s *State) accountCPU(d *draft) []NodeAccount {
	accounts := make([]NodeAccount, 0, len(s.machine.CPUNodes()))
	allocatable, available := s.AllocatableCPUs(), d.available()
	own := Grant{Pod: d.pod, Pool: d.pool, Containers: d.containers}
	held := make([]cpuset.Set, len(s.grants))
	for i, g := range s.grants {
		held[i] = g.CPUs()
	}
	for _, n := range s.machine.CPUNodes() {
		a := NodeAccount{Node: n.ID, Total: int64(allocatable.IntersectionLen(n.CPUs)), Free: int64(available.IntersectionLen(n.CPUs))}
		for i, g := range s.grants {
			if k := int64(held[i].IntersectionLen(n.CPUs)); k > 0 {
				a.Holders = append(a.Holders, Holder{Pod: g.Pod.ID(), Amount: k, Nodes: mask.Of(n.ID)})
			}
		}
		if k := int64(own.CPUs().IntersectionLen(n.CPUs)); k > 0 {
			a.Holders = append(a.Holders, Holder{Pod: d.pod.ID() + " (this pod)", Amount: k, Nodes: mask.Of(n.ID)})
		}
		accounts = append(accounts, a)
	}
	return largestFirst(accounts)
}

// largestFirst orders the holders: the largest are what one can act on.
func largestFirst(accounts []NodeAccount) []NodeAccount {
	for _, a := range accounts {
		slices.SortStableFunc(a.Holders, func(x, y Holder) int {
			if x.Amount != y.Amount {
				return cmp.Compare(y.Amount, x.Amount)
			}
			return strings.Compare(x.Pod, y.Pod)
		})
	}
	return accounts
}
