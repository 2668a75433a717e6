package explain

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/node"
)

// DeviceCount counts the devices of an extended resource, by the NUMA nodes near them.
type DeviceCount struct {
	Resource string        `json:"resource"`
	Places   []DevicePlace `json:"places"`
}

// DevicePlace counts the devices that are near the same NUMA nodes.
type DevicePlace struct {
	// NUMANodes is empty for devices whose NUMA nodes are not known.
	NUMANodes []int `json:"numaNodes,omitempty"`
	Total     int   `json:"total"`
	Free      int   `json:"free"`
}

// FreeDevices counts the devices of the extended resources that a rejected pod asks for. Devices
// that are near one NUMA node come before those that are near several, and those of unknown NUMA
// nodes come last. It returns nil for a pod that is not rejected.
func FreeDevices(s *node.State, p *node.Plan) []DeviceCount {
	if p.Rejection == nil {
		return nil
	}
	var out []DeviceCount
	for i := range p.Trace.Demand.Containers {
		for _, d := range p.Trace.Demand.Containers[i].Devices {
			known := slices.ContainsFunc(out, func(c DeviceCount) bool { return c.Resource == d.Resource })
			if d.Value > 0 && !known && s.Devices().Inventory().Has(d.Resource) {
				out = append(out, DeviceCount{d.Resource, devicePlaces(s, d.Resource)})
			}
		}
	}
	return out
}

func devicePlaces(s *node.State, resource string) []DevicePlace {
	free := s.Devices().Free(resource)
	var places []DevicePlace
	for _, d := range s.Devices().Inventory().Devices(resource) {
		var on []int
		if !d.Nodes.IsEmpty() {
			on = d.Nodes.Nodes()
		}
		at := slices.IndexFunc(places, func(p DevicePlace) bool { return slices.Equal(p.NUMANodes, on) })
		if at < 0 {
			at, places = len(places), append(places, DevicePlace{NUMANodes: on})
		}
		places[at].Total++
		if slices.Contains(free, d.ID) {
			places[at].Free++
		}
	}
	slices.SortFunc(places, func(a, b DevicePlace) int {
		if one, other := len(a.NUMANodes), len(b.NUMANodes); one != other {
			if one == 0 || other == 0 {
				return other - one
			}
			return one - other
		}
		return slices.Compare(a.NUMANodes, b.NUMANodes)
	})
	return places
}
