package device

import (
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/core/hint"
)

// Hints describes the NUMA masks on which request devices of a resource fit (R-HINT-42, R-HINT-43):
// each reusable device that reports a NUMA node must be local to the mask, and they and the free
// healthy devices that are local to it must be as many as asked for. reusable are devices of the
// pod that the container may reuse (Reuse.IDs); for a pod as a whole there are none (R-HINT-42).
//
// A request of 0 or less, and a resource of which no device reports a NUMA node, give kind
// Any (R-HINT-40): Allocate reports that there are too few of the latter.
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
	if r.candidates.IsEmpty() {
		return f
	}
	kept := r.pick(reusable)
	free := u.free(i).without(kept)
	if int64(free.len()+kept.len()) < request {
		return hint.Set{Resource: resource, Kind: hint.None, Why: u.shortage(resource, request, reusable).Error()}
	}
	f.Kind, f.Candidates, f.Preferred = hint.Fits, r.candidates, r.candidates.Len()
	ever := r.ever
	ever.Amount = request
	if size, ok := hint.MinSize(r.candidates, []hint.Need{ever}); ok {
		f.Preferred = size // if every device were free and healthy (R-HINT-43)
	}
	need := r.need(free)
	need.Amount = request
	for at := range kept.all() {
		if nodes := r.devices[at].Nodes; !nodes.IsEmpty() {
			f.MustTouch(nodes)
			need.Amount = max(0, need.Amount-1)
		}
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
	need := hint.Need{Resource: r.name, Offer: make([]int64, r.candidates.Highest()+1)}
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
