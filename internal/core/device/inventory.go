package device

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
)

// ErrInvalid is wrapped by every error of NewInventory.
var ErrInvalid = errors.New("device inventory is not usable")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalid, fmt.Errorf(format, args...))
}

// Device is one device of a resource.
type Device struct {
	// ID is unique among the devices of its resource.
	ID string
	// Healthy devices can be given out. Others count only for how many NUMA nodes a
	// request takes at best (R-HINT-43).
	Healthy bool
	// Nodes are the NUMA nodes that it is local to; empty: it reports none.
	Nodes mask.Mask
}

// Inventory is what devices there are. It is immutable; nil is an empty one.
type Inventory struct {
	names     []string
	resources []resource // parallel to names
}

type resource struct {
	name    string
	devices []Device // ascending by id
	healthy set
	// candidates are the NUMA nodes of all devices, whatever their health.
	candidates mask.Mask
	// ever is what each NUMA node would offer if all devices were free and healthy.
	ever hint.Need
	// places are the devices by NUMA nodes, so that a node with thousands of them is decided about
	// by counting words and not devices.
	places []place
}

// place is the devices of a resource that report the same NUMA nodes.
type place struct {
	nodes   mask.Mask
	devices set
}

// NewInventory checks the devices of each resource and makes the inventory of them. They
// may come in any order. Errors name the resource and the device that is at fault: a name
// that is no extended resource's, an empty or repeated id, a NUMA node that the machine
// lacks.
func NewInventory(m *machine.Machine, resources map[string][]Device) (*Inventory, error) {
	inv := &Inventory{names: slices.Sorted(maps.Keys(resources))}
	for _, name := range inv.names {
		if err := CheckName(name); err != nil {
			return nil, invalid("resource %q: %w", name, err)
		}
		r := resource{name: name, devices: slices.Clone(resources[name])}
		slices.SortFunc(r.devices, func(a, b Device) int { return strings.Compare(a.ID, b.ID) })
		for i, d := range r.devices {
			switch unknown := d.Nodes &^ m.NodeMask(); {
			case d.ID == "":
				return nil, invalid("resource %s: a device has no id", name)
			case i > 0 && r.devices[i-1].ID == d.ID:
				return nil, invalid("resource %s: device %q is listed twice", name, d.ID)
			case !unknown.IsEmpty():
				return nil, invalid("resource %s: device %q is on NUMA nodes %s, the machine has no %s, only %s", name, d.ID, d.Nodes, unknown, m.NodeMask())
			}
		}
		r.index()
		inv.resources = append(inv.resources, r)
	}
	return inv, nil
}

func (r *resource) index() {
	r.healthy = newSet(len(r.devices))
	every := newSet(len(r.devices))
	known := map[mask.Mask]int{}
	for i, d := range r.devices {
		every.add(i)
		if d.Healthy {
			r.healthy.add(i)
		}
		r.candidates |= d.Nodes
		at, found := known[d.Nodes]
		if !found {
			at, known[d.Nodes] = len(r.places), len(r.places)
			r.places = append(r.places, place{d.Nodes, newSet(len(r.devices))})
		}
		r.places[at].devices.add(i)
	}
	r.ever = r.need(every)
}

// Resources are the names, ascending. The slice is the inventory's own.
func (inv *Inventory) Resources() []string {
	if inv == nil {
		return nil
	}
	return inv.names
}

// Devices are the devices of a resource, ascending by id; none for a resource that is not
// known. The slice is the inventory's own.
func (inv *Inventory) Devices(resource string) []Device {
	if i := inv.find(resource); i >= 0 {
		return inv.resources[i].devices
	}
	return nil
}

// Device returns one device.
func (inv *Inventory) Device(resource, id string) (Device, bool) {
	if i := inv.find(resource); i >= 0 {
		if at := inv.resources[i].position(id); at >= 0 {
			return inv.resources[i].devices[at], true
		}
	}
	return Device{}, false
}

// Has reports whether the node has the resource at all, with devices or without.
func (inv *Inventory) Has(resource string) bool { return inv.find(resource) >= 0 }

// find returns the position of a resource, or -1.
func (inv *Inventory) find(name string) int {
	if inv == nil {
		return -1
	}
	i, ok := slices.BinarySearch(inv.names, name)
	if !ok {
		return -1
	}
	return i
}

// position returns that of a device, or -1.
func (r *resource) position(id string) int {
	i, ok := slices.BinarySearchFunc(r.devices, id, func(d Device, id string) int { return strings.Compare(d.ID, id) })
	if !ok {
		return -1
	}
	return i
}

// pick is the set of those ids that are known.
func (r *resource) pick(ids []string) set {
	s := newSet(len(r.devices))
	for _, id := range ids {
		if i := r.position(id); i >= 0 {
			s.add(i)
		}
	}
	return s
}

// ids are the names of a set, ascending.
func (r *resource) ids(s set) []string {
	ids := make([]string, 0, s.len())
	for i := range s.all() {
		ids = append(ids, r.devices[i].ID)
	}
	return ids
}
