package discover

import (
	"io/fs"
	"path"

	"github.com/paddock-project/paddock/internal/core/mask"
)

// PCINodes finds the NUMA nodes of the PCI devices of a live machine, of every class, when it is
// asked. It gets texts of any content and reads nothing for one that is no address.
type PCINodes struct{ FS fs.FS }

// Function is the NUMA node of a device by its address; empty if there is no such device, or the
// firmware reports none.
func (p PCINodes) Function(address string) mask.Mask {
	if !pciAddress.MatchString(address) {
		return 0
	}
	return p.read(path.Join(pciDir, address))
}

// Root are the NUMA nodes of the devices directly at a PCIe root complex. Everything behind them is
// near the same ones.
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
