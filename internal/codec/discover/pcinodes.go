package discover

import (
	"io/fs"
	"path"

	"github.com/paddock-project/paddock/internal/core/mask"
)

// PCINodes looks up the NUMA nodes of the PCI devices of a live machine, of every class, on demand.
// It accepts texts of any content and reads nothing for a text that is not an address.
type PCINodes struct{ FS fs.FS }

// Function returns the NUMA node of the device at the address. The mask is empty if the device does
// not exist or the firmware reports no NUMA node.
func (p PCINodes) Function(address string) mask.Mask {
	if !pciAddress.MatchString(address) {
		return 0
	}
	return p.read(path.Join(pciDir, address))
}

// Root returns the NUMA nodes of the devices directly below a PCIe root complex. The devices behind
// them are near the same NUMA nodes.
func (p PCINodes) Root(name string) mask.Mask {
	if !pciRoot.MatchString(name) {
		return 0
	}
	dir := path.Join("sys/devices", name)
	entries, err := fs.ReadDir(p.FS, dir)
	if err != nil {
		return 0
	}
	var nodes mask.Mask
	for _, e := range entries {
		if pciAddress.MatchString(e.Name()) {
			nodes |= p.read(path.Join(dir, e.Name()))
		}
	}
	return nodes
}

func (p PCINodes) read(dir string) mask.Mask {
	t := tree{root: p.FS}
	id, err := t.number(dir + "/numa_node")
	if err != nil || id < 0 || id > mask.MaxNode {
		return 0
	}
	return mask.Of(id)
}
