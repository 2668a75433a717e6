package node

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

// WithDevices returns the state with another inventory. Devices that a grant has and the inventory
// does not have stay with the grant. They do not count as taken until an inventory has them again.
// It is an error if two pods have the same device.
func (s *State) WithDevices(inv *device.Inventory) (*State, error) {
	n := s.next()
	n.devices = device.NewUsage(inv)
	take := func(g *Grant) (err error) {
		if n.devices, err = takeDevices(n.devices, g.Devices()); err != nil {
			return fmt.Errorf("pod %s: %w", g.Pod.ID(), err)
		}
		return nil
	}
	for g := range s.grants.all() {
		if err := take(g); err != nil {
			return nil, err
		}
	}
	if g := n.Stale(); g != nil { // A kubelet keeps the devices of a rejected pod until the next one comes.
		if err := take(g); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// Devices returns which devices are assigned.
func (s *State) Devices() device.Usage { return s.devices }

// takeDevices takes those assigned devices that the inventory has.
func takeDevices(u device.Usage, assigned []device.Assigned) (device.Usage, error) {
	for _, h := range assigned {
		known := slices.DeleteFunc(slices.Clone(h.IDs), func(id string) bool {
			_, ok := u.Inventory().Device(h.Resource, id)
			return !ok
		})
		var err error
		if u, err = u.Take(h.Resource, known); err != nil {
			return u, broken("%w", err)
		}
	}
	return u, nil
}

func returnDevices(u device.Usage, assigned []device.Assigned) device.Usage {
	for _, h := range assigned {
		u = u.Return(h.Resource, h.IDs)
	}
	return u
}

// Devices returns all devices of the pod, ascending by resource and id.
func (g *Grant) Devices() []device.Assigned {
	var all []device.Assigned
	for k := range g.Containers {
		for _, h := range g.Containers[k].Devices {
			i, found := slices.BinarySearchFunc(all, h.Resource, func(x device.Assigned, name string) int { return strings.Compare(x.Resource, name) })
			if !found {
				all = slices.Insert(all, i, device.Assigned{Resource: h.Resource})
			}
			all[i].IDs = append(all[i].IDs, h.IDs...)
		}
	}
	for i := range all {
		slices.Sort(all[i].IDs)
		all[i].IDs = slices.Compact(all[i].IDs)
	}
	return all
}

// UnlistedResources returns the extended resources of a pod that are in no inventory, in the order
// of the containers. Nothing is decided about them.
func UnlistedResources(pod *request.Pod, inventory *device.Inventory) []string {
	var names []string
	for i := range pod.Containers {
		c := &pod.Containers[i]
		for _, a := range c.Devices {
			given := pod.DevicesUnknown != "" || slices.ContainsFunc(c.Given, func(g request.Given) bool { return g.Resource == a.Resource })
			if !given && !inventory.Has(a.Resource) && !slices.Contains(names, a.Resource) {
				names = append(names, a.Resource)
			}
		}
	}
	return names
}

// UnlistedNote returns the note about extended resources that are in no inventory.
func UnlistedNote(names []string) string {
	return "no device inventory has " + strings.Join(names, ", ") + ": it is not counted, and nothing is aligned with it"
}

// DeviceDoubts returns sentences about the devices of a pod that make it uncertain what a machine
// with these NUMA nodes and this inventory decides.
func DeviceDoubts(pod *request.Pod, inventory *device.Inventory, nodes mask.Mask) []string {
	if !pod.AsksForDevices() && !slices.ContainsFunc(pod.Containers, func(c request.Container) bool { return len(c.Given) > 0 }) {
		return nil
	}
	var doubts []string
	for _, name := range UnlistedResources(pod, inventory) {
		doubts = append(doubts, "the node lists no devices of "+name+": nothing is decided about them, and nothing is aligned with them")
	}
	return append(doubts, UnknownDevices(pod, nodes)...)
}

// UnplacedNote returns the note about a resource of which devices are unplaced. It returns "" if
// none is, or if the machine has one NUMA node.
func (s *State) UnplacedNote(resource string) string {
	inventory := s.devices.Inventory()
	n := inventory.Unplaced(resource)
	if n == 0 || s.machine.NodeMask().Len() < 2 {
		return ""
	}
	return fmt.Sprintf("the NUMA nodes of %d of the %d devices of %s are not given: CPUs and memory are not aligned with them, "+
		"and with their NUMA nodes the answer can be another one", n, len(inventory.Devices(resource)), resource)
}

// noteUnplaced adds a note about each resource of the inventory that the pod asks for and of which
// the NUMA nodes are not given.
func (d *draft) noteUnplaced() {
	var noted []string
	for i := range d.pod.Containers {
		for _, a := range d.demand.Containers[i].Devices {
			if text := d.s.UnplacedNote(a.Resource); text != "" && !slices.Contains(noted, text) {
				noted = append(noted, text)
				d.note(text)
			}
		}
	}
}

// noteOtherDevices adds notes about the resources that no inventory has, and about the devices
// with which nothing can be aligned (R-DEV-4).
func (d *draft) noteOtherDevices() {
	if d.demand.Path != Unaligned {
		for _, text := range UnknownDevices(&d.pod, d.s.machine.NodeMask()) {
			d.note(text)
		}
		d.noteUnplaced()
	}
	if others := UnlistedResources(&d.pod, d.devices.Inventory()); len(others) > 0 {
		d.note(UnlistedNote(others))
	}
}

// allocateDevices gives container i its devices: reusable ones first, then near ones.
func (d *draft) allocateDevices(i int, choice hint.Choice) *rejection.Rejection {
	had := d.had()
	if had != nil {
		d.containers[i].Devices = had.Containers[i].Devices
		for _, h := range d.containers[i].Devices {
			d.reusableDevices = d.reusableDevices.After(d.pod.Containers[i].Type, h.Resource, h.IDs)
		}
		if rejection := d.unregisteredInit(i); rejection != nil {
			return rejection
		}
		if !d.s.policy.Behavior.AdmitsAgain || d.demand.Path == AsPool {
			return nil // A pod that is resized, or whose devices are given later, gets none.
		}
	}
	for _, a := range d.demand.Containers[i].Devices {
		if had != nil && slices.ContainsFunc(had.Containers[i].Devices, func(h device.Assigned) bool { return h.Resource == a.Resource }) {
			continue
		}
		d.trace.Stage = StageDevices
		ids, rejection := d.chooseDevices(i, a, choice)
		if rejection != nil {
			return rejection
		}
		var err error
		if d.devices, err = d.devices.Take(a.Resource, d.reusableDevices.New(a.Resource, ids)); err != nil {
			return d.rejectDevices(i, a, err)
		}
		d.reusableDevices = d.reusableDevices.After(d.pod.Containers[i].Type, a.Resource, ids)
		d.containers[i].Devices = append(slices.Clip(d.containers[i].Devices), device.Assigned{Resource: a.Resource, IDs: ids})
	}
	return nil
}

// rejectDevices returns a rejection of container i for an error of package device.
func (d *draft) rejectDevices(i int, a request.Amount, err error) *rejection.Rejection {
	r := &rejection.Rejection{Container: d.pod.Containers[i].Name, Resource: a.Resource, Wanted: a.Value, Detail: d.textOf(err)}
	if short := (*device.NotEnoughError)(nil); errors.As(err, &short) {
		r.Nodes = d.account(a.Resource)
	}
	return d.reject(rejection.TooFewDevices, r)
}
