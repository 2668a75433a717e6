package claims

import (
	resourceapi "k8s.io/api/resource/v1"

	"github.com/paddock-project/paddock/internal/core/mask"
)

// numaAttributes are the attributes that name the NUMA nodes of a device, the standard one first.
// An attribute without a domain is of the driver's own domain.
var numaAttributes = []resourceapi.QualifiedName{
	"resource.kubernetes.io/numaNode", // KEP-6072
	"dra.net/numaNode",
	"dra.cpu/numaNodeID",
	"dra.memory/numaNode",
	"numaNode", // gpu.amd.com
	"numa",     // gpu.nvidia.com
}

// The standard attributes for the place of a device among the PCI devices of its machine.
const (
	attributePCI  resourceapi.QualifiedName = "resource.kubernetes.io/pciBusID"
	attributeRoot resourceapi.QualifiedName = "resource.kubernetes.io/pcieRoot"
)

// PCI has the NUMA nodes of the machine's PCI devices, empty if they are not known. It gets any
// text.
type PCI interface {
	// Function is for an address such as 0000:17:00.0.
	Function(address string) mask.Mask
	// Root is for a PCIe root complex such as pci0000:16.
	Root(name string) mask.Mask
}

// nodesOf are the NUMA nodes of a device of a driver, empty if they are not known. An attribute
// with a negative number, as the kernel has it for a device that is near none, has no NUMA node,
// and neither has one with a number above the largest that there can be. pci is for devices whose
// attributes name no NUMA node; nil: they are of another machine.
func nodesOf(driver string, attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute, pci PCI) mask.Mask {
	for _, name := range numaAttributes {
		value, found := attribute(driver, attributes, name)
		if !found {
			continue
		}
		ids := value.IntValues
		if value.IntValue != nil {
			ids = append(ids, *value.IntValue)
		}
		var nodes mask.Mask
		for _, id := range ids {
			if id >= 0 && id <= mask.MaxNode {
				nodes = nodes.With(int(id))
			}
		}
		return nodes
	}
	if pci == nil {
		return 0
	}
	if value, _ := attribute(driver, attributes, attributePCI); value.StringValue != nil {
		if nodes := pci.Function(*value.StringValue); !nodes.IsEmpty() {
			return nodes
		}
	}
	if value, _ := attribute(driver, attributes, attributeRoot); value.StringValue != nil {
		return pci.Root(*value.StringValue)
	}
	return 0
}

// attribute finds an attribute by its name, or by its name in the driver's domain.
func attribute(driver string, attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute, name resourceapi.QualifiedName) (resourceapi.DeviceAttribute, bool) {
	value, found := attributes[name]
	if !found {
		value, found = attributes[resourceapi.QualifiedName(driver)+"/"+name]
	}
	return value, found
}
