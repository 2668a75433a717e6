package device

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/mask"
)

// NotEnoughError reports that Allocate found too few devices.
type NotEnoughError struct {
	Resource string
	// Wanted is the requested number of devices. Available is the number of devices that are free
	// and healthy, or reusable. Total counts devices of any health. Unhealthy counts unhealthy
	// devices that are not assigned.
	Wanted                      int64
	Available, Unhealthy, Total int
}

func (e *NotEnoughError) Error() string {
	if e.Total == 0 {
		return fmt.Sprintf("%d %s are asked for, this node has no such device", e.Wanted, e.Resource)
	}
	text := fmt.Sprintf("%d %s are asked for, %d of %d are available", e.Wanted, e.Resource, e.Available, e.Total)
	if assigned := e.Total - e.Available - e.Unhealthy; assigned > 0 {
		text += fmt.Sprintf(", %d assigned", assigned)
	}
	if e.Unhealthy > 0 {
		text += fmt.Sprintf(", %d unhealthy", e.Unhealthy)
	}
	return text
}

func (u Usage) shortage(resource string, request int64, reusable []string) *NotEnoughError {
	e := &NotEnoughError{Resource: resource, Wanted: request}
	i := u.inventory.find(resource)
	if i < 0 {
		return e
	}
	r := &u.inventory.resources[i]
	kept := r.pick(reusable)
	available := u.free(i).without(kept).len() + kept.len()
	e.Available, e.Total = available, len(r.devices)
	for at, d := range r.devices {
		if !d.Healthy && !u.assigned[i].has(at) && !kept.has(at) {
			e.Unhealthy++
		}
	}
	return e
}

// locality is how close a device is to the aligned NUMA nodes.
type locality int

const (
	inside    locality = iota // all NUMA nodes of the device are aligned
	partly                    // some are
	elsewhere                 // none is
	nowhere                   // it reports no NUMA node
)

func localityOf(nodes, aligned mask.Mask) locality {
	switch {
	case nodes.IsEmpty():
		return nowhere
	case aligned.Contains(nodes):
		return inside
	case aligned&nodes != 0:
		return partly
	}
	return elsewhere
}

// Allocate picks n devices for a container and returns their ids in ascending order. It takes
// reusable devices first, so that the pod gets no more than necessary, and then free healthy ones.
// The reference takes devices that are local to the aligned NUMA nodes first and devices without
// NUMA nodes last. Within these groups it takes any device. Here the order is fixed:
//
//  1. Devices whose NUMA nodes are all aligned come before those that also have others, so that
//     no part of the traffic leaves the aligned NUMA nodes.
//  2. Devices on fewer NUMA nodes come first, because the others can be local to other pods too.
//  3. Devices with lower ids come first.
//
// Without an alignment, only the ids decide. Allocate changes nothing: call Take for the devices
// that Reuse.New returns. The error is a *NotEnoughError. If n is 0 or less, the result is nil.
func (u Usage) Allocate(resource string, n int64, aligned hint.Choice, reusable []string) ([]string, error) {
	if n <= 0 {
		return nil, nil
	}
	i := u.inventory.find(resource)
	if i < 0 {
		return nil, u.shortage(resource, n, nil)
	}
	r := &u.inventory.resources[i]
	kept := r.pick(reusable)
	chosen := newSet(len(r.devices))
	missing := r.takeNearest(chosen, n, kept, aligned)
	if missing = r.takeNearest(chosen, missing, u.free(i).without(kept), aligned); missing > 0 {
		return nil, u.shortage(resource, n, reusable)
	}
	return r.ids(chosen), nil
}

// takeNearest adds up to n of the devices to chosen, in the order of Allocate, and returns the
// number of missing devices.
func (r *resource) takeNearest(chosen set, n int64, devices set, aligned hint.Choice) int64 {
	if !aligned.HasMask || devices.len() == 0 {
		return takeLowest(chosen, n, devices)
	}
	near := slices.Clone(r.places)
	rank := func(p place) int { return int(localityOf(p.nodes, aligned.Mask))*(mask.MaxNode+2) + p.nodes.Len() }
	slices.SortFunc(near, func(a, b place) int { return cmp.Compare(rank(a), rank(b)) })
	for n > 0 && len(near) > 0 {
		alike := newSet(len(r.devices))
		for first := rank(near[0]); len(near) > 0 && rank(near[0]) == first; near = near[1:] {
			for i, word := range near[0].devices[:min(len(near[0].devices), len(devices))] {
				alike[i] |= word & devices[i]
			}
		}
		n = takeLowest(chosen, n, alike)
	}
	return n
}

// takeLowest adds the n lowest devices to chosen and returns the number of missing devices.
func takeLowest(chosen set, n int64, devices set) int64 {
	for at := range devices.all() {
		if n == 0 {
			break
		}
		chosen.add(at)
		n--
	}
	return n
}
