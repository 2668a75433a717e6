// Package account adds up who has a resource: for each NUMA node, how much of it there is, how much
// is free, and which pods have the rest. The account of a rejection is one.
//
// The caller has the state: it passes what is free, and a Share for each pod, reservation and
// residue. An account depends on nothing else, and changes nothing. The holders of each NUMA node
// are in descending order of their amounts. Amounts are in CPUs, bytes,
// devices, ways of a cache, or percent of the memory bandwidth.
package account

import (
	"cmp"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cache"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Node shows how much of a resource one NUMA node has, and which pods have it.
type Node struct {
	Node int
	// Total is the amount that pods could ever have on the NUMA node. Free is the amount that they
	// could have now.
	Total, Free int64
	// Unhealthy devices are neither free nor assigned.
	Unhealthy int64
	// Holders have the rest, the largest first. They include what no pod has. Bytes
	// of a group of NUMA nodes count on its lowest NUMA nodes first.
	Holders []Holder
}

// Holder is a pod that has Amount of a resource on a NUMA node, a pod for which that amount is
// reserved, or a residue.
type Holder struct {
	Pod    string // as in Share
	Amount int64
	// Nodes are the NUMA nodes of the amount, which may be more than this one.
	Nodes mask.Mask
}

// ReservedFor is the prefix of the name of a holder that is a reservation. The pod's name follows.
const ReservedFor = "reserved for pod "

// Reserved reports whether the amount is reserved for a pod that does not have it yet. If so, Pod
// reads "reserved for pod namespace/name".
func (h Holder) Reserved() bool { return strings.HasPrefix(h.Pod, ReservedFor) }

// Share is what one holder has. Only the field of the resource of the account has to be set.
type Share struct {
	// Holder is the pod, "namespace/name", or ReservedFor and a pod, or the name of a residue.
	Holder  string
	CPUs    cpuset.Set
	Blocks  []memory.Block
	Devices []device.Assigned
	Classes []cache.Class
}

// CPUs returns the account of the CPUs of NUMA nodes. allocatable are the CPUs that pods could ever
// have, and available those that they could have now.
func CPUs(nodes []machine.Unit, allocatable, available cpuset.Set, shares []Share) []Node {
	accounts := make([]Node, 0, len(nodes))
	for _, n := range nodes {
		a := Node{Node: n.ID, Total: int64(allocatable.IntersectionLen(n.CPUs)), Free: int64(available.IntersectionLen(n.CPUs))}
		for i := range shares {
			if k := int64(shares[i].CPUs.IntersectionLen(n.CPUs)); k > 0 {
				a.Holders = append(a.Holders, Holder{Pod: shares[i].Holder, Amount: k, Nodes: mask.Of(n.ID)})
			}
		}
		accounts = append(accounts, a)
	}
	return largestFirst(accounts)
}

// Memory adds the holders of a type of memory to accounts that have Total and Free of each NUMA
// node.
func Memory(resource request.Resource, accounts []Node, shares []Share) []Node {
	for _, s := range shares {
		for _, b := range s.Blocks {
			for i := range accounts {
				a := &accounts[i]
				if b.Type != resource || !b.Nodes.Has(a.Node) || b.Size <= 0 {
					continue
				}
				// Each container of a pod has its own block. Blocks on the same NUMA nodes are
				// added up.
				k := slices.IndexFunc(a.Holders, func(h Holder) bool { return h.Pod == s.Holder && h.Nodes == b.Nodes })
				if k < 0 {
					k, a.Holders = len(a.Holders), append(a.Holders, Holder{Pod: s.Holder, Nodes: b.Nodes})
				}
				a.Holders[k].Amount += b.Size
			}
		}
	}
	return largestFirst(accounts)
}

// Devices returns the account of a device resource. Devices that report no NUMA node are not in it.
func Devices(resource request.Resource, usage device.Usage, shares []Share) []Node {
	var accounts []Node
	for _, c := range usage.Counts(resource) {
		if c.Node == device.NoNode {
			continue
		}
		a := Node{Node: c.Node, Total: int64(c.Total), Free: int64(c.Free), Unhealthy: int64(c.Total - c.Free - c.Assigned)}
		for _, s := range shares {
			if n := devicesOn(c.Node, resource, usage.Inventory(), s.Devices); n > 0 {
				a.Holders = append(a.Holders, Holder{Pod: s.Holder, Amount: n, Nodes: mask.Of(c.Node)})
			}
		}
		accounts = append(accounts, a)
	}
	return largestFirst(accounts)
}

// Caches returns the account of the ways of the L3 caches, or of the memory bandwidth, by the NUMA
// nodes of their CPUs. Total and Free are what one more class could have of the cache that has the
// most. A holder has the sum of its classes in the cache of the NUMA node in which it has the most.
func Caches(resource request.Resource, m *machine.Machine, usage cache.Usage, shares []Share) []Node {
	if !usage.Divides() {
		return nil
	}
	var accounts []Node
	for _, n := range m.CPUNodes() {
		a := Node{Node: n.ID}
		most := make([]int64, len(shares))
		for i, unit := range m.L3s() {
			if !unit.CPUs.Intersects(n.CPUs) {
				continue
			}
			free, all := usage.FreeWays(i)
			if resource == request.Bandwidth {
				free, all = usage.FreeBandwidth(i)
			}
			a.Free, a.Total = max(a.Free, int64(free)), max(a.Total, int64(all))
			for k := range shares {
				most[k] = max(most[k], amountIn(unit.ID, resource, shares[k].Classes))
			}
		}
		for k, amount := range most {
			if amount > 0 {
				a.Holders = append(a.Holders, Holder{Pod: shares[k].Holder, Amount: amount, Nodes: mask.Of(n.ID)})
			}
		}
		accounts = append(accounts, a)
	}
	return largestFirst(accounts)
}

// amountIn returns how much classes have of one cache.
func amountIn(id int, resource request.Resource, classes []cache.Class) int64 {
	var amount int64
	for _, c := range classes {
		if s, has := c.Share(id); has {
			if resource == request.Bandwidth {
				amount += int64(s.Bandwidth)
			} else {
				amount += int64(s.Ways.Len())
			}
		}
	}
	return amount
}

// devicesOn returns how many of the assigned devices are devices of the resource near a NUMA node.
func devicesOn(id int, resource request.Resource, inv *device.Inventory, assigned []device.Assigned) int64 {
	var n int64
	for _, h := range assigned {
		for _, name := range h.IDs {
			if found, ok := inv.Device(resource, name); ok && h.Resource == resource && found.Nodes.Has(id) {
				n++
			}
		}
	}
	return n
}

// largestFirst sorts the holders. Users can act on the largest ones.
func largestFirst(accounts []Node) []Node {
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
