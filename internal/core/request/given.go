package request

import (
	"cmp"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/mask"
)

// Given is a device that a container has before the node decides about it: the kubelet chose it for
// an extended resource, or the scheduler for a ResourceClaim. CPUs and memory are aligned with it.
// Paddock never chooses it again.
type Given struct {
	// Resource is the extended resource of a device plugin's device. Claim, Driver and Pool
	// identify a device of a claim, which is in the namespace of the pod. Either Resource or Driver
	// is set.
	Resource            string
	Claim, Driver, Pool string
	// Name is the name or id of the device. It is unique together with Resource, or with Driver and
	// Pool.
	Name string
	// Nodes are the NUMA nodes that the device is near. If empty, they are not known.
	Nodes mask.Mask
}

// Of returns the group in which the device is counted: its extended resource, or its driver.
func (g *Given) Of() string { return cmp.Or(g.Resource, g.Driver) }

// Compare orders devices by resource, driver, pool, name and claim.
func (g *Given) Compare(h *Given) int {
	if order := g.CompareDevice(h); order != 0 {
		return order
	}
	return strings.Compare(g.Claim, h.Claim)
}

// CompareDevice is Compare without the claim. It returns 0 for the same device, which claims may
// share.
func (g *Given) CompareDevice(h *Given) int {
	switch {
	case g.Resource != h.Resource:
		return strings.Compare(g.Resource, h.Resource)
	case g.Driver != h.Driver:
		return strings.Compare(g.Driver, h.Driver)
	case g.Pool != h.Pool:
		return strings.Compare(g.Pool, h.Pool)
	}
	return strings.Compare(g.Name, h.Name)
}

// String returns e.g. "nvidia.com/gpu=gpu0@{1}" for a device plugin's device, and
// "gpu.example.com/pool/gpu0@{1} claim=train" for a claim's device.
func (g Given) String() string {
	if g.Resource != "" {
		return g.Resource + "=" + g.Name + "@" + g.Nodes.String()
	}
	return g.Driver + "/" + g.Pool + "/" + g.Name + "@" + g.Nodes.String() + " claim=" + g.Claim
}

// Stock has all devices of one extended resource or driver on the Kubernetes node, whichever pods
// have them. The preferred number of NUMA nodes is computed from it (R-DEV-3).
type Stock struct {
	// Of is the extended resource or the driver.
	Of string
	// Places are the devices with known NUMA nodes, grouped by these NUMA nodes, ascending and each
	// group once.
	Places []Place
}

// Place is a number of devices, at least one, that are near the same NUMA nodes.
type Place struct {
	Nodes   mask.Mask
	Devices int
}

// StockOf returns the stock of the devices. devices has the NUMA nodes that each device is near.
// Devices with unknown NUMA nodes do not count.
func StockOf(of string, devices []mask.Mask) Stock {
	s := Stock{Of: of}
	for _, nodes := range slices.Sorted(slices.Values(devices)) {
		switch last := len(s.Places) - 1; {
		case nodes.IsEmpty():
		case last >= 0 && s.Places[last].Nodes == nodes:
			s.Places[last].Devices++
		default:
			s.Places = append(s.Places, Place{nodes, 1})
		}
	}
	return s
}
