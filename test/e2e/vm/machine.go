package vm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// Machine is a machine as data.
type Machine struct {
	About string `json:"about"`
	// Kernel is a series of package parts.
	Kernel string `json:"kernel"`
	// Memory and SMP are QEMU's -m and -smp.
	Memory string `json:"memory"`
	SMP    string `json:"smp"`
	Nodes  []Node `json:"nodes"`
	// Distances are those between NUMA nodes, both ways.
	Distances [][]int `json:"distances"`
	// HugePages2Mi are spread over the NUMA nodes by the kernel.
	HugePages2Mi int `json:"hugePages2Mi"`
	// PCI are NUMA nodes with a PCI root bus of their own and a device behind its port:
	// 0000:81:00.0 is the device of the first, 0000:91:00.0 that of the second.
	PCI []int `json:"pci"`
}

// Node is a NUMA node; one without CPUs has memory alone.
type Node struct {
	Memory string `json:"memory"`
	CPUs   string `json:"cpus"`
}

// Options are what a machine has besides its CPUs and memory.
type Options struct {
	// Links are its only connections to this machine.
	Links []Link
	// Reboots lets the machine start again on request, or when its kernel panics. Other machines
	// end.
	Reboots bool
	// Disk is the machine's own root disk, a file that it changes. Without one the machine has a
	// copy of the parts' that is gone with it.
	Disk string
	// Memory is the file that Save wrote, of a machine with the same input, links and CPUs, and
	// with the disk as it was then: the machine goes on from there.
	Memory string
}

// Link is a way through the network between the machine and loopback of this one.
type Link struct {
	// Inside is an address of the machine's network: the machine's own, or where Out is set one
	// that answers the machine in place of Port.
	Inside netip.AddrPort
	// Port is of this machine's loopback.
	Port int
	// Out leads from the machine to Port, and not from Port to the machine.
	Out bool
}

// netdev are the links for QEMU. An address that answers the machine has a process for each
// connection: QEMU connects no more than one by itself.
func netdev(links []Link) string {
	var out strings.Builder
	for _, l := range links {
		if l.Out {
			fmt.Fprintf(&out, ",guestfwd=tcp:%s-cmd:/bin/busybox nc 127.0.0.1 %d", l.Inside, l.Port)
		} else {
			fmt.Fprintf(&out, ",hostfwd=tcp:127.0.0.1:%d-%s", l.Port, l.Inside)
		}
	}
	return out.String()
}

// ReadMachine reads a file.
func ReadMachine(name string) (Machine, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return Machine{}, err
	}
	var m Machine
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return m, fmt.Errorf("%s: %w", name, err)
	}
	if len(m.Distances) != len(m.Nodes) {
		return m, fmt.Errorf("%s: %d NUMA nodes have distances of %d", name, len(m.Nodes), len(m.Distances))
	}
	return m, nil
}

// args are the machine for QEMU.
func (m Machine) args() []string {
	args := []string{"-m", m.Memory, "-smp", m.SMP}
	for i, n := range m.Nodes {
		id := "m" + strconv.Itoa(i)
		args = append(args, "-object", "memory-backend-ram,id="+id+",size="+n.Memory)
		node := "node,nodeid=" + strconv.Itoa(i) + ",memdev=" + id
		if n.CPUs != "" {
			node += ",cpus=" + n.CPUs
		}
		args = append(args, "-numa", node)
	}
	for i, row := range m.Distances {
		for j := i + 1; j < len(row); j++ {
			args = append(args, "-numa", fmt.Sprintf("dist,src=%d,dst=%d,val=%d", i, j, row[j]))
		}
	}
	for i, node := range m.PCI {
		bus := "pci" + strconv.Itoa(i)
		args = append(args, "-device", fmt.Sprintf("pxb-pcie,id=%s,bus=pcie.0,bus_nr=%d,numa_node=%d", bus, 0x80+0x10*i, node),
			"-device", fmt.Sprintf("pcie-root-port,id=%s-port,bus=%s,chassis=%d", bus, bus, i+1), "-device", "virtio-rng-pci,bus="+bus+"-port")
	}
	return args
}
