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
	// Healthy reports whether the device can be assigned. Unhealthy devices count only for the
	// number of NUMA nodes that a request needs at best (R-HINT-43).
	Healthy bool
	// Nodes has the NUMA nodes that the device is local to. If empty, the device reports none, or
	// Unplaced is set.
	Nodes mask.Mask
	// Unplaced is set if it is not known whether the device reports NUMA nodes, and which. It
	// decides nothing: the device is treated as one that reports none.
	Unplaced bool
}

// Inventory lists the devices of a Kubernetes node. It is immutable. A nil Inventory is empty.
type Inventory struct {
	names     []string
	resources []resource // parallel to names
}

type resource struct {
	name    string
	devices []Device // ascending by id
	healthy set
	// candidates has the NUMA nodes of all devices, whatever their health is.
	candidates mask.Mask
	// ever is what each NUMA node would offer if all devices were free and healthy.
	ever hint.Need
	// places groups the devices by their NUMA nodes. Decisions about thousands of devices can then
	// count words instead of devices.
	places []place
	// unplaced is the number of devices of which it is not known what they report.
	unplaced int
}

// place has the devices of a resource that report the same NUMA nodes.
type place struct {
	nodes   mask.Mask
	devices set
}

// NewInventory checks the devices of each resource and returns an inventory of them. They may be in
// any order. Errors name the resource and the device at fault. It is an error if a name is not that
// of an extended resource, if an id is empty or repeated, or if the machine does not have a NUMA
// node.
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
		if d.Unplaced {
			r.unplaced++
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

// Resources returns the names in ascending order. The caller must not change the slice.
func (inv *Inventory) Resources() []string {
	if inv == nil {
		return nil
	}
	return inv.names
}

// Devices returns the devices of a resource, ascending by id. It returns nil for an unknown
// resource. The caller must not change the slice.
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

// Has reports whether the Kubernetes node has the resource at all, with devices or without.
func (inv *Inventory) Has(resource string) bool { return inv.find(resource) >= 0 }

// Nodes returns the NUMA nodes that devices of a resource are near.
func (inv *Inventory) Nodes(resource string) mask.Mask {
	if i := inv.find(resource); i >= 0 {
		return inv.resources[i].candidates
	}
	return 0
}

// Unplaced returns how many devices of a resource are unplaced.
func (inv *Inventory) Unplaced(resource string) int {
	if i := inv.find(resource); i >= 0 {
		return inv.resources[i].unplaced
	}
	return 0
}

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

// position returns the position of a device, or -1.
func (r *resource) position(id string) int {
	i, ok := slices.BinarySearchFunc(r.devices, id, func(d Device, id string) int { return strings.Compare(d.ID, id) })
	if !ok {
		return -1
	}
	return i
}

// pick returns the set of the known devices among ids.
func (r *resource) pick(ids []string) set {
	s := newSet(len(r.devices))
	for _, id := range ids {
		if i := r.position(id); i >= 0 {
			s.add(i)
		}
	}
	return s
}

// ids returns the ids of a set of devices in ascending order.
func (r *resource) ids(s set) []string {
	ids := make([]string, 0, s.len())
	for i := range s.all() {
		ids = append(ids, r.devices[i].ID)
	}
	return ids
}
