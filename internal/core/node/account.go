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

// NodeAccount shows how much of a resource one NUMA node has, and which pods have it.
type NodeAccount struct {
	Node int
	// Total is the amount that pods could ever have on the NUMA node. Free is the amount that they
	// could have now.
	Total, Free int64
	// Unhealthy devices are neither free nor assigned.
	Unhealthy int64
	// Holders have the rest, the largest first. They include what no pod has (State.Residue). Bytes
	// of a group of NUMA nodes count on its lowest NUMA nodes first.
	Holders []Holder
}

// Holder is a pod that has Amount of a resource on a NUMA node, a pod for which that amount is
// reserved, or a residue.
type Holder struct {
	Pod    string // namespace/name; see Reserved and Residue.String
	Amount int64
	// Nodes are the NUMA nodes of the amount, which may be more than this one.
	Nodes mask.Mask
}

// reservedFor is the prefix of the name of a holder that is a reservation. The pod's name follows.
const reservedFor = "reserved for pod "

// Reserved reports whether the amount is reserved for a pod that does not have it yet. If so, Pod
// reads "reserved for pod namespace/name".
func (h Holder) Reserved() bool { return strings.HasPrefix(h.Pod, reservedFor) }

// keptNames returns the names of the pods for which something is kept.
func keptNames(all []kept) string {
	names := make([]string, len(all))
	for i, k := range all {
		names[i] = k.pod
	}
	return fewOf(names, ", ")
}

// account returns, for every NUMA node, how much of a resource is free and which pods have the
// rest, including what the rejected pod itself took before it failed.
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
				a := &accounts[i]
				if b.Type != resource || !b.Nodes.Has(a.Node) || b.Size <= 0 {
					continue
				}
				// Each container of a pod has its own block. Blocks on the same NUMA nodes are
				// added up.
				k := slices.IndexFunc(a.Holders, func(h Holder) bool { return h.Pod == pod && h.Nodes == b.Nodes })
				if k < 0 {
					k, a.Holders = len(a.Holders), append(a.Holders, Holder{Pod: pod, Nodes: b.Nodes})
				}
				a.Holders[k].Amount += b.Size
			}
		}
	}
	for g := range s.grants.all() {
		add(g.Pod.ID(), g.Charged())
	}
	for _, k := range d.kept {
		add(reservedFor+k.pod, k.blocks)
	}
	for _, r := range s.Residue() {
		for _, e := range r.Memory {
			add(r.String(), []memory.Block{{Type: resource, Size: e.Bytes[t], Nodes: e.Nodes}})
		}
	}
	own := Grant{Pod: d.pod, PoolMemory: d.poolMemory, Containers: d.containers}
	add(d.pod.ID()+" (this pod)", own.Charged())
	return largestFirst(accounts)
}

func (s *State) accountCPU(d *draft) []NodeAccount {
	accounts := make([]NodeAccount, 0, len(s.machine.CPUNodes()))
	allocatable, available := s.AllocatableCPUs(), d.available()
	own := Grant{Pod: d.pod, Pool: d.pool, Containers: d.containers}
	grants := s.Grants()
	assigned := make([]cpuset.Set, len(grants))
	for i, g := range grants {
		assigned[i] = g.CPUs()
	}
	for _, n := range s.machine.CPUNodes() {
		a := NodeAccount{Node: n.ID, Total: int64(allocatable.IntersectionLen(n.CPUs)), Free: int64(available.IntersectionLen(n.CPUs))}
		for i, g := range grants {
			if k := int64(assigned[i].IntersectionLen(n.CPUs)); k > 0 {
				a.Holders = append(a.Holders, Holder{Pod: g.Pod.ID(), Amount: k, Nodes: mask.Of(n.ID)})
			}
		}
		for _, r := range d.kept {
			if k := int64(r.cpus.IntersectionLen(n.CPUs)); k > 0 {
				a.Holders = append(a.Holders, Holder{Pod: reservedFor + r.pod, Amount: k, Nodes: mask.Of(n.ID)})
			}
		}
		for _, r := range s.Residue() {
			if k := int64(r.CPUs.IntersectionLen(n.CPUs)); k > 0 {
				a.Holders = append(a.Holders, Holder{Pod: r.String(), Amount: k, Nodes: mask.Of(n.ID)})
			}
		}
		if k := int64(own.CPUs().IntersectionLen(n.CPUs)); k > 0 {
			a.Holders = append(a.Holders, Holder{Pod: d.pod.ID() + " (this pod)", Amount: k, Nodes: mask.Of(n.ID)})
		}
		accounts = append(accounts, a)
	}
	return largestFirst(accounts)
}

// largestFirst sorts the holders. Users can act on the largest ones.
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
