package vm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
)

// Machine is a machine as data.
type Machine struct {
	About string `json:"about"`
	// Memory and SMP are QEMU's -m and -smp.
	Memory string `json:"memory"`
	SMP    string `json:"smp"`
	Nodes  []Node `json:"nodes"`
	// Distances are those between NUMA nodes, both ways.
	Distances [][]int `json:"distances"`
	// HugePages2Mi are spread over the NUMA nodes by the kernel.
	HugePages2Mi int `json:"hugePages2Mi"`
}

// Node is a NUMA node; one without CPUs has memory alone.
type Node struct {
	Memory string `json:"memory"`
	CPUs   string `json:"cpus"`
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
	return args
}
