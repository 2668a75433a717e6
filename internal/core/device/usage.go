package device

import (
	"errors"
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/core/mask"
)

// ErrNotFree is wrapped by the errors of Take.
var ErrNotFree = errors.New("device cannot be taken")

// Assigned has the devices of one resource that a container or pod has.
type Assigned struct {
	Resource string
	IDs      []string // ascending
}

// Usage is the set of devices of an inventory that are assigned. It is a value: every change makes
// a new one, which shares the unchanged parts. The zero Usage has no devices.
type Usage struct {
	inventory *Inventory
	assigned  []set // parallel to inventory.resources
}

// NewUsage returns the usage of a Kubernetes node on which no device is assigned.
func NewUsage(inv *Inventory) Usage {
	u := Usage{inventory: inv, assigned: make([]set, len(inv.Resources()))}
	for i := range u.assigned {
		u.assigned[i] = newSet(len(inv.resources[i].devices))
	}
	return u
}

// Inventory returns the inventory that the usage refers to.
func (u Usage) Inventory() *Inventory { return u.inventory }

// Take assigns devices, whatever their health is, because an assigned device may have become
// unhealthy. If a device is unknown, already assigned or listed twice, Take returns an error and
// assigns nothing.
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

// Return releases devices. It ignores devices that are not assigned or no longer known, because the
// containers of a pod may list a device several times if one left it to another.
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

// Assigned lists the assigned devices, ascending by resource. It omits resources without assigned
// devices.
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

// Free returns the healthy devices of a resource that are not assigned, ascending by id.
func (u Usage) Free(resource string) []string {
	i := u.inventory.find(resource)
	if i < 0 {
		return nil
	}
	return u.inventory.resources[i].ids(u.free(i))
}

func (u Usage) free(i int) set { return u.inventory.resources[i].healthy.without(u.assigned[i]) }

// NoNode is the value of Count.Node for devices that report no NUMA node.
const NoNode = -1

// Count is the number of devices of a resource that are local to one NUMA node. A device on several
// NUMA nodes counts on each of them.
type Count struct {
	// Node is the id of the NUMA node, or NoNode.
	Node int
	// Total counts devices of any health. Free counts devices that are healthy and not assigned.
	// Devices that are neither free nor assigned are unhealthy.
	Total, Assigned, Free int
}

// Counts returns one entry for each NUMA node with devices of the resource, ascending by id. If
// there are devices without NUMA nodes, an entry for them comes last.
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
