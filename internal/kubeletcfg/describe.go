package kubeletcfg

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Describe writes a policy in one line for people, with the kubelet's names for things and
// in an order that never changes.
func Describe(p node.Policy) string {
	return strings.Join([]string{
		"topology " + describeTopology(p),
		"cpu " + describeCPU(p),
		"memory " + describeMemory(p),
		describePodLevel(p),
	}, "; ")
}

func describeTopology(p node.Policy) string {
	if p.Topology == node.TopologyNone {
		return "none"
	}
	text := fmt.Sprintf("%s, scope %s", p.Topology, p.Scope)
	if p.PreferClosest {
		text += ", " + optionClosest
	}
	return text
}

func describeCPU(p node.Policy) string {
	if !p.StaticCPU {
		return "none"
	}
	text := "static"
	known := cpuOptions()
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if *known[name].value(&p.CPU) {
			text += ", " + name
		}
	}
	return text + ", reserved " + p.ReservedCPUs.String()
}

func describeMemory(p node.Policy) string {
	if !p.StaticMemory {
		return "None"
	}
	text, separator := "Static, reserved", " "
	for _, numa := range slices.Sorted(maps.Keys(p.ReservedMemory)) {
		for _, name := range slices.Sorted(maps.Keys(p.ReservedMemory[numa])) {
			text += fmt.Sprintf("%s%s of %s on NUMA node %d", separator, request.Bytes(p.ReservedMemory[numa][name]), name, numa)
			separator = ", "
		}
	}
	return text
}

func describePodLevel(p node.Policy) string {
	var text string
	switch {
	case p.PodLevelManagers:
		text = "pod-level pools on"
	case p.PodLevelResources:
		text = "pod-level pools off"
	default:
		text = "pod-level resources off"
	}
	if !p.LiftQuota {
		text += "; exclusive CPUs keep their CFS quota"
	}
	return text
}
