package statefile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
)

// Changes says in a line each what is different on this machine and under this policy from
// what the file was made for; nil when nothing is. A change need not matter: node.Restore tells.
func (f *File) Changes(m *machine.Machine, p node.Policy) []string {
	return append(machineChanges(f.Machine, Describe(m)), policyChanges(f.Policy, p)...)
}

func machineChanges(then, now Machine) []string {
	var lines []string
	differ := func(what, was, is string) {
		if was != is {
			lines = append(lines, fmt.Sprintf("%s: was %s, now %s", what, orNone(was), orNone(is)))
		}
	}
	differ("CPUs", then.CPUs.String(), now.CPUs.String())
	for _, n := range then.Nodes {
		if now.node(n.ID) == nil {
			lines = append(lines, fmt.Sprintf("NUMA node %d with CPUs %s and %s is gone", n.ID, orNone(n.CPUs.String()), n.Memory))
		}
	}
	for _, n := range now.Nodes {
		old := then.node(n.ID)
		if old == nil {
			lines = append(lines, fmt.Sprintf("NUMA node %d with CPUs %s and %s is new", n.ID, orNone(n.CPUs.String()), n.Memory))
			continue
		}
		differ(fmt.Sprintf("CPUs of NUMA node %d", n.ID), old.CPUs.String(), n.CPUs.String())
		differ(fmt.Sprintf("memory of NUMA node %d", n.ID), old.Memory.String(), n.Memory.String())
	}
	return lines
}

func (m *Machine) node(id int) *Node {
	for i := range m.Nodes {
		if m.Nodes[i].ID == id {
			return &m.Nodes[i]
		}
	}
	return nil
}

func policyChanges(then, now node.Policy) []string {
	var lines []string
	old := settings(then)
	for i, s := range settings(now) {
		if s.value != old[i].value {
			lines = append(lines, fmt.Sprintf("%s: was %s, now %s", s.name, orNone(old[i].value), orNone(s.value)))
		}
	}
	return lines
}

type setting struct{ name, value string }

// settings are a policy as a file names it.
func settings(p node.Policy) []setting {
	var reserved []string
	for _, id := range slices.Sorted(maps.Keys(p.ReservedMemory)) {
		if list := amountsOf(p.ReservedMemory[id]); len(list) > 0 {
			reserved = append(reserved, fmt.Sprintf("NUMA node %d: %s", id, list))
		}
	}
	cpus, _ := cpuPolicyNames.nameOf(p.StaticCPU)
	memory, _ := memoryPolicyNames.nameOf(p.StaticMemory)
	return []setting{
		{"topologyManagerPolicy", p.Topology.String()},
		{"topologyManagerScope", p.Scope.String()},
		{"topologyManagerPolicyOptions", strings.Join(topologyOptions.on(p), ", ")},
		{"cpuManagerPolicy", cpus},
		{"cpuManagerPolicyOptions", strings.Join(cpuOptions.on(p), ", ")},
		{"reserved CPUs", p.ReservedCPUs.String()},
		{"memoryManagerPolicy", memory},
		{"reserved memory", strings.Join(reserved, "; ")},
		{"feature gates on", strings.Join(featureGates.on(p), ", ")},
	}
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}
