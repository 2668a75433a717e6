package device

import (
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/core/hint"
)

// Hints describes the NUMA masks on which request devices of a resource fit (R-HINT-42,
// R-HINT-43): each reusable device that reports a NUMA node must be local to the mask, and
// they and the free healthy devices that are local to it must be as many as asked for.
// reusable are devices that the pod holds and the container may have (Reuse.IDs); for a
// pod as a whole there are none (R-HINT-42).
//
// A request of 0 or less, and a resource of which no device reports a NUMA node, give kind
// Any (R-HINT-40): that there are too few of the latter is found out by Allocate.
func (u Usage) Hints(resource string, request int64, reusable []string) hint.Set {
	f := hint.Set{Resource: resource}
	if request <= 0 {
		return f
	}
	i := u.inventory.find(resource)
	if i < 0 {
		return hint.Set{Resource: resource, Kind: hint.None, Why: u.shortage(resource, request, nil).Error()}
	}
	r := &u.inventory.resources[i]
	if r.universe.IsEmpty() {
		return f
	}
	kept := r.pick(reusable)
	free := u.free(i).without(kept)
	if int64(free.len()+kept.len()) < request {
		return hint.Set{Resource: resource, Kind: hint.None, Why: u.shortage(resource, request, reusable).Error()}
	}
	f.Kind, f.Candidates, f.Preferred = hint.Fits, r.universe, r.fewestNodes(request)
	need := r.need(free)
	need.Amount = request
	for at := range kept.all() {
		switch nodes := r.devices[at].Nodes; nodes.Len() {
		case 0:
			continue
		case 1:
			f.Required |= nodes
		default:
			if !slices.Contains(f.Touch, nodes) {
				f.Touch = append(f.Touch, nodes)
			}
		}
		need.Amount = max(0, need.Amount-1)
	}
	f.Needs = []hint.Need{need}
	if f.IsEmpty() {
		why := fmt.Sprintf("%d %s are asked for, and too few of the free ones report a NUMA node to be aligned", request, resource)
		return hint.Set{Resource: resource, Kind: hint.None, Why: why}
	}
	return f
}

// need is what the NUMA nodes offer of a set of devices: those of one node, and those that
// several nodes offer together.
func (r *resource) need(devices set) hint.Need {
	need := hint.Need{Resource: r.name, Offer: make([]int64, r.universe.Highest()+1)}
	var lowest []int // device of each shared offer, which orders them
	for _, p := range r.places {
		first, n := p.devices.common(devices)
		switch {
		case p.nodes.IsEmpty() || n == 0:
		case p.nodes.Len() == 1:
			need.Offer[p.nodes.Lowest()] = int64(n)
		default:
			at, _ := slices.BinarySearch(lowest, first)
			lowest = slices.Insert(lowest, at, first)
			need.Shared = slices.Insert(need.Shared, at, hint.SharedOffer{Nodes: p.nodes, Amount: int64(n)})
		}
	}
	return need
}

// fewestNodes is the size of a preferred mask: how many NUMA nodes it takes when every
// device is free and healthy, or all of them if even these are too few (R-HINT-43).
func (r *resource) fewestNodes(request int64) int {
	need := r.ever
	need.Amount = request
	if size, ok := hint.MinSize(r.universe, []hint.Need{need}); ok {
		return size
	}
	return r.universe.Len()
}
