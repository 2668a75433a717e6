package node

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/layout"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/request"
)

// WithDevices is the node with this inventory in place of its own. Devices that a grant holds
// and the inventory lacks stay with the grant: they are out of the books until an inventory has
// them again. It is an error when two pods hold one device.
func (s *State) WithDevices(inv *device.Inventory) (*State, error) {
	n := s.next()
	n.devices = device.NewUsage(inv)
	for _, g := range s.grants {
		var err error
		if n.devices, err = takeDevices(n.devices, g.Devices()); err != nil {
			return nil, fmt.Errorf("pod %s: %w", g.Pod.ID(), err)
		}
	}
	return n, nil
}

// Devices is which devices are held.
func (s *State) Devices() device.Usage { return s.devices }

// takeDevices takes those of held that the inventory knows.
func takeDevices(u device.Usage, held []device.Held) (device.Usage, error) {
	for _, h := range held {
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

func returnDevices(u device.Usage, held []device.Held) device.Usage {
	for _, h := range held {
		u = u.Return(h.Resource, h.IDs)
	}
	return u
}

// Devices are all devices that the pod holds, ascending by resource and id.
func (g *Grant) Devices() []device.Held {
	var all []device.Held
	for k := range g.Containers {
		for _, h := range g.Containers[k].Devices {
			i, found := slices.BinarySearchFunc(all, h.Resource, func(x device.Held, name string) int { return strings.Compare(x.Resource, name) })
			if !found {
				all = slices.Insert(all, i, device.Held{Resource: h.Resource})
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

// wantsDevices is what container i asks for of the inventory. Other extended resources are
// somebody else's.
func (d *draft) wantsDevices(i int) request.Amounts {
	asked := d.pod.Containers[i].Devices
	if len(asked) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(asked), func(a request.Amount) bool {
		return a.Value == 0 || !d.devices.Inventory().Has(a.Resource)
	})
}

// noteOtherDevices says which resources are not decided about.
func (d *draft) noteOtherDevices() {
	var others []string
	for _, c := range d.pod.Containers {
		for _, a := range c.Devices {
			if !d.devices.Inventory().Has(a.Resource) && !slices.Contains(others, a.Resource) {
				others = append(others, a.Resource)
			}
		}
	}
	if len(others) > 0 {
		d.note("no device inventory has " + strings.Join(others, ", ") + ": nothing is decided about it")
	}
}

// deviceSum is what the pod's containers need together (R-HINT-40, R-DEM-80): like memory, and
// whatever the kind of pod, as devices cannot be asked for at pod level.
func (d *draft) deviceSum() request.Amounts {
	var sum request.Amounts
	for i := range d.pod.Containers {
		for _, a := range d.wantsDevices(i) {
			if _, done := sum.Get(a.Resource); !done {
				sum = sum.With(a.Resource, layout.Budget(d.claims(func(k int) (int64, bool) {
					n, _ := d.wantsDevices(k).Get(a.Resource)
					return n, true
				})))
			}
		}
	}
	return sum
}

// deviceFamilies are the hints of devices, one for each resource (R-HINT-42, R-HINT-43).
func (d *draft) deviceFamilies(want request.Amounts) []hint.Set {
	families := make([]hint.Set, 0, len(want)+2)
	for _, a := range want {
		families = append(families, d.devices.Hints(a.Resource, a.Value, d.reusableDevices.IDs(a.Resource)))
	}
	return families
}

// allocateDevices gives container i its devices: reusable ones, then near ones.
func (d *draft) allocateDevices(i int, choice hint.Choice) *Refusal {
	for _, a := range d.wantsDevices(i) {
		ids, err := d.devices.Allocate(a.Resource, a.Value, choice, d.reusableDevices.IDs(a.Resource))
		if err == nil {
			d.devices, err = d.devices.Take(a.Resource, d.reusableDevices.New(a.Resource, ids))
		}
		if err != nil {
			return d.refuseDevice(i, a, err)
		}
		d.reusableDevices = d.reusableDevices.After(d.pod.Containers[i].Lane, a.Resource, ids)
		d.containers[i].Devices = append(d.containers[i].Devices, device.Held{Resource: a.Resource, IDs: ids})
	}
	return nil
}

func (d *draft) refuseDevice(i int, a request.Amount, err error) *Refusal {
	r := &Refusal{
		Reason: UnexpectedAdmissionError, Rule: "R-HINT-42", Container: d.pod.Containers[i].Name,
		Resource: a.Resource, Wanted: a.Value, Detail: err.Error(),
	}
	if short := (*device.NotEnoughError)(nil); errors.As(err, &short) {
		r.Nodes = d.s.account(a.Resource, d)
	}
	return r
}

// accountDevices is the account of a device resource. Devices that report no NUMA node are in the
// refusal's text only.
func (s *State) accountDevices(resource string, d *draft) []NodeAccount {
	var accounts []NodeAccount
	for _, c := range d.devices.Counts(resource) {
		if c.Node == device.NoNode {
			continue
		}
		a := NodeAccount{Node: c.Node, Total: int64(c.Total), Free: int64(c.Free), Unhealthy: int64(c.Total - c.Free - c.Held)}
		add := func(pod string, held []device.Held) {
			if n := s.devicesOn(resource, c.Node, held); n > 0 {
				a.Holders = append(a.Holders, Holder{Pod: pod, Amount: n, Nodes: mask.Of(c.Node)})
			}
		}
		for _, g := range s.grants {
			add(g.Pod.ID(), g.Devices())
		}
		own := Grant{Containers: d.containers}
		add(d.pod.ID()+" (this pod)", own.Devices())
		accounts = append(accounts, a)
	}
	return largestFirst(accounts)
}

func (s *State) devicesOn(resource string, node int, held []device.Held) int64 {
	var n int64
	for _, h := range held {
		for _, id := range h.IDs {
			if found, ok := s.devices.Inventory().Device(resource, id); ok && h.Resource == resource && found.Nodes.Has(node) {
				n++
			}
		}
	}
	return n
}
