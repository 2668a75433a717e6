package device

import (
	"errors"
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/core/mask"
)

// ErrNotFree is wrapped by the errors of Take.
var ErrNotFree = errors.New("device cannot be taken")

// Assigned is the devices of one resource that a container or pod has.
type Assigned struct {
	Resource string
	IDs      []string // ascending
}

// Usage is which devices of an inventory are assigned: a value, every change makes a new one,
// which shares what was not touched. The zero Usage knows no device.
type Usage struct {
	inventory *Inventory
	assigned  []set // parallel to inventory.resources
}

// NewUsage is the usage of a node on which no device is assigned.
func NewUsage(inv *Inventory) Usage {
	u := Usage{inventory: inv, assigned: make([]set, len(inv.Resources()))}
	for i := range u.assigned {
		u.assigned[i] = newSet(len(inv.resources[i].devices))
	}
	return u
}

// Inventory is what the usage is of.
func (u Usage) Inventory() *Inventory { return u.inventory }

// Take assigns devices, whatever their health: an assigned device may have become unhealthy. It is
// an error, and nothing is taken, when a device is not known, assigned already, or named twice.
func (u Usage) Take(resource string, ids []string) (Usage, error) {
	if len(ids) == 0 {
		return u, nil
	}
	i := u.inventory.find(resource)
	if i < 0 {
		return u, fmt.Errorf("%w: this node has no %s", ErrNotFree, resource)
	}
	assigned := slices.Clone(u.assigned[i])
	for _, id := range ids {
		at := u.inventory.resources[i].position(id)
		switch {
		case at < 0:
			return u, fmt.Errorf("%w: this node has no device %q of %s", ErrNotFree, id, resource)
		case u.assigned[i].has(at):
			return u, fmt.Errorf("%w: device %q of %s is assigned already", ErrNotFree, id, resource)
		case assigned.has(at):
			return u, fmt.Errorf("%w: device %q of %s is named twice", ErrNotFree, id, resource)
		}
		assigned.add(at)
	}
	return u.with(i, assigned), nil
}

// Return takes devices back. Those that are not assigned, and those that are not known any
// more, are passed over: the containers of a pod may name a device several times that one
// left to the other.
func (u Usage) Return(resource string, ids []string) Usage {
	i := u.inventory.find(resource)
	if i < 0 || len(ids) == 0 {
		return u
	}
	return u.with(i, u.assigned[i].without(u.inventory.resources[i].pick(ids)))
}

func (u Usage) with(i int, assigned set) Usage {
	u.assigned = slices.Clone(u.assigned)
	u.assigned[i] = assigned
	return u
}

// Assigned lists what is assigned, ascending by resource; resources of which nothing is assigned
// are left out.
func (u Usage) Assigned() []Assigned {
	var out []Assigned
	for i := range u.assigned {
		if r := &u.inventory.resources[i]; u.assigned[i].len() > 0 {
			out = append(out, Assigned{Resource: r.name, IDs: r.ids(u.assigned[i])})
		}
	}
	return out
}

// Equal reports whether the same devices are assigned, by name.
func (u Usage) Equal(v Usage) bool {
	return slices.EqualFunc(u.Assigned(), v.Assigned(), func(a, b Assigned) bool {
		return a.Resource == b.Resource && slices.Equal(a.IDs, b.IDs)
	})
}

// Free are the healthy devices of a resource that are not assigned, ascending by id.
func (u Usage) Free(resource string) []string {
	i := u.inventory.find(resource)
	if i < 0 {
		return nil
	}
	return u.inventory.resources[i].ids(u.free(i))
}

func (u Usage) free(i int) set { return u.inventory.resources[i].healthy.without(u.assigned[i]) }

// NoNode is the Node of a Count of devices that report no NUMA node.
const NoNode = -1

// Count is how many devices of a resource one NUMA node is local to. A device on several
// NUMA nodes counts on each of them.
type Count struct {
	// Node is the id of the NUMA node, or NoNode.
	Node int
	// Total counts devices of any health. Free ones are healthy and not assigned; what is
	// neither free nor assigned is unhealthy.
	Total, Assigned, Free int
}

// Counts has one entry for each NUMA node with devices of the resource, ascending by id,
// and behind them one for devices without NUMA node if there are any.
func (u Usage) Counts(resource string) []Count {
	i := u.inventory.find(resource)
	if i < 0 {
		return nil
	}
	r, free := &u.inventory.resources[i], u.free(i)
	var nodes [mask.MaxNode + 1]Count
	without := Count{Node: NoNode}
	for at, d := range r.devices {
		tally := func(c *Count) {
			c.Total++
			if u.assigned[i].has(at) {
				c.Assigned++
			}
			if free.has(at) {
				c.Free++
			}
		}
		for n := range d.Nodes.All() {
			tally(&nodes[n])
		}
		if d.Nodes.IsEmpty() {
			tally(&without)
		}
	}
	counts := make([]Count, 0, r.candidates.Len()+1)
	for n := range r.candidates.All() {
		nodes[n].Node = n
		counts = append(counts, nodes[n])
	}
	if without.Total > 0 {
		counts = append(counts, without)
	}
	return counts
}
