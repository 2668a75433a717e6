package device

import (
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/core/hint"
)

// Hints describes the NUMA masks on which request devices of a resource fit (R-HINT-42, R-HINT-43).
// Each reusable device that reports a NUMA node must be local to the mask. These devices and the
// free healthy devices that are local to the mask must be at least as many as requested. reusable
// has the devices of the pod that the container may reuse (Reuse.IDs). For a pod as a whole there
// are none (R-HINT-42).
//
// A request of 0 or less gives kind Any (R-HINT-40), and so does a resource of which no device
// reports a NUMA node. If such a resource has too few devices, Allocate returns an error.
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
	kept := r.pick(reusable)
	free := u.free(i).without(kept)
	if !r.candidates.IsEmpty() && int64(free.len()+kept.len()) < request {
		need := r.need(free)
		need.Amount = max(0, request-int64(kept.len()))
		return hint.Set{Resource: resource, Kind: hint.None, Why: u.shortage(resource, request, reusable).Error(), Needs: []hint.Need{need}}
	}
	return r.hints(f, request, free, kept)
}

// HintsAgain describes the NUMA masks on which a kubelet admits a pod again that has devices of a
// resource: those that are local to each of them, and none if the number is not the requested one
// or a device reports no NUMA node (R-HINT-41). A resource that the inventory does not have, or of
// which no device reports a NUMA node, gives kind Any.
func (u Usage) HintsAgain(resource string, request int64, ids []string) hint.Set {
	f := hint.Set{Resource: resource}
	i := u.inventory.find(resource)
	if i < 0 {
		return f
	}
	r := &u.inventory.resources[i]
	if !r.candidates.IsEmpty() && int64(len(ids)) != request {
		return hint.Set{Resource: resource, Kind: hint.None, Why: fmt.Sprintf("%d %s are asked for, and it has %d", request, resource, len(ids))}
	}
	return r.hints(f, request, newSet(len(r.devices)), r.pick(ids))
}

// hints fills in the masks on which free devices and all the kept ones are as many as requested.
func (r *resource) hints(f hint.Set, request int64, free, kept set) hint.Set {
	if r.candidates.IsEmpty() {
		return f
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
		why := fmt.Sprintf("%d %s are asked for, and too few of the free ones report a NUMA node to be aligned", request, r.name)
		return hint.Set{Resource: r.name, Kind: hint.None, Why: why, Needs: f.Needs}
	}
	return f
}

// need returns what the NUMA nodes offer from a set of devices: the devices of one NUMA node, and
// the devices that several NUMA nodes offer together.
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
