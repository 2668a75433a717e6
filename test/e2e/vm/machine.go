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

// Machine describes a machine.
type Machine struct {
	About string `json:"about"`
	// Kernel is a series of package parts.
	Kernel string `json:"kernel"`
	// Memory and SMP are the values of QEMU's -m and -smp.
	Memory string `json:"memory"`
	SMP    string `json:"smp"`
	Nodes  []Node `json:"nodes"`
	// Distances are the distances between NUMA nodes, in both directions.
	Distances [][]int `json:"distances"`
	// Boot has additional parameters of the kernel, separated by spaces.
	Boot string `json:"boot"`
	// HugePages2Mi is the number of 2 MiB pages. The kernel spreads them over the NUMA nodes.
	HugePages2Mi int `json:"hugePages2Mi"`
	// PCI lists NUMA nodes with their own PCI root bus and a device behind its port. 0000:81:00.0
	// is the device of the first, 0000:91:00.0 that of the second.
	PCI []int `json:"pci"`
}

// Node is a NUMA node. If CPUs is empty, it only has memory.
type Node struct {
	Memory string `json:"memory"`
	CPUs   string `json:"cpus"`
}

// Options has what a machine has in addition to its CPUs and memory.
type Options struct {
	// Links are its only connections to this machine.
	Links []Link
	// Reboots lets the machine restart on request, or when its kernel panics. Without it, the
	// machine ends.
	Reboots bool
	// Disk is the path of the machine's own root disk, which the machine changes. If empty, the
	// machine uses a temporary copy of the root disk in parts.
	Disk string
	// Memory is the path of a file that Save wrote. The machine resumes from it. It must have the
	// same input, links and CPUs, and its disk as it was at the time of Save. If empty, the machine
	// boots.
	Memory string
}

// Link is a connection between the machine and the loopback of this machine.
type Link struct {
	// Inside is an address in the machine's network. It is the machine's own address, or, if Out is
	// set, an address at which the machine reaches Port.
	Inside netip.AddrPort
	// Port is a port on the loopback of this machine.
	Port int
	// Out is set if the connection leads from the machine to Port. Otherwise it leads from Port to
	// the machine.
	Out bool
}

// netdev returns the links as an option of QEMU. An address that leads to this machine starts a
// process for each connection, because QEMU itself supports only one connection.
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

// ReadMachine reads a machine from a file.
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

// args returns the machine as arguments of QEMU.
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
