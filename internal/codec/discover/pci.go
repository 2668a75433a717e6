package discover

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cadvisor/lib/model"

	"github.com/paddock-project/paddock/internal/core/mask"
)

// PCIDevice is a PCI function that pods use: a GPU, a NIC, an NVMe disk or an accelerator.
type PCIDevice struct {
	// Address is domain:bus:device.function, such as 0000:17:00.0.
	Address string `json:"address"`
	// Class, Vendor and Device are the numbers as spelled in sysfs, such as 0x030200, 0x10de and
	// 0x2330.
	Class  string `json:"class"`
	Vendor string `json:"vendor"`
	Device string `json:"device"`
	// NUMANode is nil if the firmware reports none.
	NUMANode *int `json:"numa_node,omitempty"`
	// Root is the PCIe root complex, such as pci0000:16. It is empty if the root complex is not
	// known. Devices of one root reach each other without crossing the CPU's interconnect.
	Root string `json:"pcie_root,omitempty"`
	// Physical is the address of the physical function if this is a virtual function, and empty
	// otherwise.
	Physical string `json:"physfn,omitempty"`
}

// The kinds of devices, by the prefix of the class (PCI Code and ID Assignment Specification,
// section 1).
var pciKinds = []struct{ class, kind string }{
	{"0x03", "GPU"},
	{"0x02", "NIC"},
	{"0x010802", "NVMe"},
	{"0x12", "accelerator"},
}

// Kind returns GPU, NIC, NVMe or accelerator according to the class, and "" for any other device.
func (d PCIDevice) Kind() string {
	for _, k := range pciKinds {
		if strings.HasPrefix(d.Class, k.class) {
			return k.kind
		}
	}
	return ""
}

const pciDir = "sys/bus/pci/devices"

// The formats in sysfs (Documentation/ABI/testing/sysfs-bus-pci). Domains behind Intel's VMD have
// more than four digits.
var (
	pciAddress = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)
	pciClass   = regexp.MustCompile(`^0x[0-9a-f]{6}$`)
	pciID      = regexp.MustCompile(`^0x[0-9a-f]{4}$`)
	pciRoot    = regexp.MustCompile(`^pci[0-9a-f]{4,8}:[0-9a-f]{2}$`)
)

// check returns an error that names the first invalid field.
func (d *PCIDevice) check() error {
	for _, f := range []struct {
		name, value string
		form        *regexp.Regexp
		optional    bool
	}{
		{"address", d.Address, pciAddress, false},
		{"class", d.Class, pciClass, false},
		{"vendor", d.Vendor, pciID, false},
		{"device", d.Device, pciID, false},
		{"pcie_root", d.Root, pciRoot, true},
		{"physfn", d.Physical, pciAddress, true},
	} {
		if !f.form.MatchString(f.value) && !(f.optional && f.value == "") {
			return fmt.Errorf("%s is %q, expected the form %s", f.name, f.value, f.form)
		}
	}
	if d.NUMANode != nil && (*d.NUMANode < 0 || *d.NUMANode > mask.MaxNode) {
		return fmt.Errorf("numa_node is %d, expected 0 to %d", *d.NUMANode, mask.MaxNode)
	}
	return nil
}

// pci returns the devices of the known kinds, sorted by address. It returns a remark for each
// device that cannot be read, so that a broken device does not prevent reading the machine.
func (t *tree) pci() (devices []PCIDevice, remarks []string) {
	entries, err := fs.ReadDir(t.root, pciDir)
	if err != nil {
		return nil, nil // The machine has no PCI bus.
	}
	for _, e := range entries {
		d := PCIDevice{Address: e.Name()}
		if d.Class, err = t.text(path.Join(pciDir, d.Address, "class")); err == nil && d.Kind() == "" {
			continue
		}
		if err := cmp.Or(err, t.readPCI(&d), d.check()); err != nil {
			remarks = append(remarks, fmt.Sprintf("PCI device %s is left out: %v.", d.Address, err))
			continue
		}
		devices = append(devices, d)
	}
	slices.SortFunc(devices, func(a, b PCIDevice) int { return cmp.Compare(a.Address, b.Address) })
	return devices, remarks
}

// readPCI reads the files of a device. The target of the device's symbolic link is its path in the
// tree of buses, which begins with the root.
func (t *tree) readPCI(d *PCIDevice) error {
	dir := path.Join(pciDir, d.Address)
	var err error
	if d.Vendor, err = t.text(dir + "/vendor"); err != nil {
		return err
	}
	if d.Device, err = t.text(dir + "/device"); err != nil {
		return err
	}
	numa, err := t.number(dir + "/numa_node")
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && numa < 0: // The kernel or the firmware has no NUMA support.
	case err != nil:
		return err
	default:
		d.NUMANode = &numa
	}
	if place, err := fs.ReadLink(t.root, dir); err == nil {
		if i := slices.IndexFunc(strings.Split(place, "/"), pciRoot.MatchString); i >= 0 {
			d.Root = strings.Split(place, "/")[i]
		}
	}
	if physical, err := fs.ReadLink(t.root, dir+"/physfn"); err == nil {
		d.Physical = path.Base(physical)
	}
	return nil
}

// recording is the recorded form of a machine: a MachineInfo, and what it cannot represent, which
// are PCI devices, what the kernel keeps away from CPUs, and how it can divide caches.
type recording struct {
	*model.MachineInfo
	PCI       []PCIDevice    `json:"pci_devices,omitempty"`
	Isolation *isolationText `json:"isolation,omitempty"`
	Caches    *cachesText    `json:"resctrl,omitempty"`
}
