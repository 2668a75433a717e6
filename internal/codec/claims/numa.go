package claims

import (
	resourceapi "k8s.io/api/resource/v1"

	"github.com/paddock-project/paddock/internal/core/mask"
)

// numaAttributes lists the attributes that name the NUMA nodes of a device, the standard one first.
// An attribute without a domain belongs to the driver's own domain.
var numaAttributes = []resourceapi.QualifiedName{
	"resource.kubernetes.io/numaNode", // KEP-6072
	"dra.net/numaNode",
	"dra.cpu/numaNodeID",
	"dra.memory/numaNode",
	"numaNode",   // gpu.amd.com
	"numaNodeID", // of drivers that name it as dra.cpu does, in their own domain
	"numa",       // gpu.nvidia.com
}

// The standard attributes that locate a device among the PCI devices of its machine.
const (
	attributePCI  resourceapi.QualifiedName = "resource.kubernetes.io/pciBusID"
	attributeRoot resourceapi.QualifiedName = "resource.kubernetes.io/pcieRoot"
)

// PCI looks up the NUMA nodes of the machine's PCI devices. Its methods return the empty mask if
// the NUMA nodes are not known. They accept any text.
type PCI interface {
	// Function returns the NUMA nodes of the device at an address such as 0000:17:00.0.
	Function(address string) mask.Mask
	// Root returns the NUMA nodes near a PCIe root complex such as pci0000:16.
	Root(name string) mask.Mask
}

// nodesOf returns the NUMA nodes of a device of a driver. The result is empty if they are not
// known. It ignores negative numbers, which the kernel uses for a device that is near no NUMA node,
// and numbers above the largest possible one. pci serves devices whose attributes name no NUMA
// node. It is nil if the devices are of another machine.
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

// attribute looks up an attribute by its name, and then by its name in the driver's domain.
func attribute(driver string, attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute, name resourceapi.QualifiedName) (resourceapi.DeviceAttribute, bool) {
	value, found := attributes[name]
	if !found {
		value, found = attributes[resourceapi.QualifiedName(driver)+"/"+name]
	}
	return value, found
}
