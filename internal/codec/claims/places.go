package claims

import (
	"maps"
	"slices"
	"strings"
	"unique"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Slice is the part of a ResourceSlice that placement needs. It is immutable.
type Slice struct {
	driver, pool string
	generation   int64
	// node is the only Kubernetes node that has these devices. It is empty if the slice does not
	// name one.
	node    string
	devices []device
}

// Devices returns the number of devices.
func (s *Slice) Devices() int { return len(s.devices) }

type device struct {
	name  string
	nodes mask.Mask
	// kind is equal for devices that can replace each other, as far as the slice shows.
	kind unique.Handle[string]
	// part is set if the device shares counters with other devices of the driver, so that not all
	// of them can be allocated at once.
	part bool
}

// deviceOf returns the parts of a device that placement needs. Two devices are of one kind if they
// have the same attributes and capacities by name, whatever the values: the GPUs and the NICs of
// one driver differ in these names. The attributes for the location of the device are not part of
// its kind.
func deviceOf(driver, name string, attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute, capacities []string, part bool, pci PCI) device {
	where := func(a resourceapi.QualifiedName) bool {
		is := func(name resourceapi.QualifiedName) bool {
			return a == name || a == resourceapi.QualifiedName(driver)+"/"+name
		}
		return is(attributePCI) || is(attributeRoot) || slices.ContainsFunc(numaAttributes, is)
	}
	var names []string
	for a := range attributes {
		if !where(a) {
			names = append(names, string(a))
		}
	}
	slices.Sort(names)
	slices.Sort(capacities)
	kind := strings.Join(names, " ") + "|" + strings.Join(capacities, " ")
	return device{name: strings.Clone(name), nodes: nodesOf(driver, attributes, pci), kind: unique.Make(kind), part: part}
}

// sliceOf returns the parts of a ResourceSlice that placement needs.
func sliceOf(s *resourceapi.ResourceSlice, pci PCI) *Slice {
	kept := &Slice{driver: s.Spec.Driver, pool: s.Spec.Pool.Name, generation: s.Spec.Pool.Generation}
	if s.Spec.NodeName != nil {
		kept.node = *s.Spec.NodeName
	}
	for _, d := range s.Spec.Devices {
		var capacities []string
		for name := range d.Capacity {
			capacities = append(capacities, string(name))
		}
		kept.devices = append(kept.devices, deviceOf(kept.driver, d.Name, d.Attributes, capacities, len(d.ConsumesCounters) > 0, pci))
	}
	return kept
}

// Places maps the devices of ResourceSlices to their NUMA nodes. It is immutable.
type Places struct {
	devices map[id]device
	// here has the devices of one Kubernetes node, keyed by driver.
	here map[string][]device
}

// PlacesOf returns the places of the devices of slices. It uses only the newest generation of each
// pool. node is the Kubernetes node whose devices Stock returns.
func PlacesOf(all []*Slice, node string) *Places {
	type pool struct{ driver, name string }
	newest := map[pool]int64{}
	for _, s := range all {
		of := pool{s.driver, s.pool}
		if generation, known := newest[of]; !known || s.generation > generation {
			newest[of] = s.generation
		}
	}
	p := &Places{devices: map[id]device{}, here: map[string][]device{}}
	for _, s := range all {
		if s.generation < newest[pool{s.driver, s.pool}] {
			continue
		}
		for _, d := range s.devices {
			p.devices[id{s.driver, s.pool, d.name}] = d
		}
		if s.node != "" && s.node == node {
			p.here[s.driver] = append(p.here[s.driver], s.devices...)
		}
	}
	return p
}

// Nodes returns the NUMA nodes of a device, and whether a slice lists the device at all. A nil
// Places lists no device.
func (p *Places) Nodes(driver, pool, name string) (nodes mask.Mask, listed bool) {
	if p == nil {
		return 0, false
	}
	d, listed := p.devices[id{driver, pool, name}]
	return d.nodes, listed
}

// Stock returns the devices of this Kubernetes node that could have been chosen instead of the
// given ones (R-DEV-3), by driver, in ascending order of the drivers' names. A driver has an entry
// only if the slices prove that its devices can replace each other: all its given devices are of
// one kind, and none shares counters with other devices.
func (p *Places) Stock(given []request.Given) []request.Stock {
	if p == nil {
		return nil
	}
	drivers := map[string][]device{}
	for _, g := range given {
		if d, listed := p.devices[id{g.Driver, g.Pool, g.Name}]; listed {
			drivers[g.Driver] = append(drivers[g.Driver], d)
		}
	}
	var stock []request.Stock
	for _, driver := range slices.Sorted(maps.Keys(drivers)) {
		one := drivers[driver][0]
		other := func(d device) bool { return d.part || d.kind != one.kind }
		if slices.ContainsFunc(drivers[driver], other) {
			continue
		}
		var at []mask.Mask
		for _, d := range p.here[driver] {
			if !other(d) {
				at = append(at, d.nodes)
			}
		}
		if len(at) > 0 {
			stock = append(stock, request.StockOf(driver, at))
		}
	}
	return stock
}
