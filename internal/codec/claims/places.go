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

// Slice is what is kept of a ResourceSlice. It does not change.
type Slice struct {
	driver, pool string
	generation   int64
	// node is the only Kubernetes node whose devices these are; empty: it is not one.
	node    string
	devices []device
}

// Devices is the number of devices.
func (s *Slice) Devices() int { return len(s.devices) }

type device struct {
	name  string
	nodes mask.Mask
	// kind is the same for devices that can replace each other, as far as a slice shows that.
	kind unique.Handle[string]
	// part: it shares what it is made of with other devices of the driver, so that not all can be
	// allocated at once.
	part bool
}

// deviceOf keeps what is needed of a device. Devices of one kind have the same attributes and
// capacities, with any values: the GPUs and the NICs of one driver differ in that. Where a device
// is has no part in it.
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

// sliceOf keeps what is needed of a ResourceSlice.
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

// Places are the NUMA nodes of the devices of ResourceSlices. A value does not change.
type Places struct {
	devices map[id]device
	// here are the devices of one Kubernetes node, by their driver.
	here map[string][]device
}

// PlacesOf returns the places of the devices of slices. Of a pool only the newest generation
// counts. node is the Kubernetes node that Stock is about.
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

// Nodes are the NUMA nodes of a device, and whether a slice has the device at all. A nil Places has
// none.
func (p *Places) Nodes(driver, pool, name string) (nodes mask.Mask, listed bool) {
	if p == nil {
		return 0, false
	}
	d, listed := p.devices[id{driver, pool, name}]
	return d.nodes, listed
}

// Stock is what the Kubernetes node has of the drivers of claims' devices, ascending by name: the
// devices that could have been chosen instead (R-DEV-3). A driver has an entry if the slices show
// that: if its devices among the given ones are of one kind, and none shares what it is made of
// with others.
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
