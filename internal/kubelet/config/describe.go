package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Describe describes a policy in one line for people, under the kubelet's names and in a fixed
// order.
func Describe(p node.Policy) string {
	topology := "none"
	if p.Topology != node.TopologyNone {
		topology = fmt.Sprintf("%s, scope %s", p.Topology, p.Scope)
		if p.PreferClosest {
			topology += ", " + optionClosest
		}
	}
	cpu := "none"
	if p.StaticCPU {
		cpu = "static"
		if p.Moves.Pods > 0 {
			cpu = policyDynamic + describeMoves(p.Moves)
		}
		known := (&resolution{minor: ownMinor}).knownCPUOptions()
		for _, name := range slices.Sorted(maps.Keys(known)) {
			if *known[name].value(&p.CPU) {
				cpu += ", " + name
			}
		}
		if isolated := p.CPU.Isolated.String(); isolated != "" {
			cpu += ", " + optionIsolated + "=" + isolated
		}
		if p.CPU.DividesCaches {
			cpu += ", " + optionCache
		}
		cpu += ", reserved " + p.ReservedCPUs.String()
	}
	memory := "None"
	if p.StaticMemory {
		var reserved []string
		for _, numa := range slices.Sorted(maps.Keys(p.ReservedMemory)) {
			for _, name := range slices.Sorted(maps.Keys(p.ReservedMemory[numa])) {
				reserved = append(reserved, fmt.Sprintf("%s of %s on NUMA node %d", request.Bytes(p.ReservedMemory[numa][name]), name, numa))
			}
		}
		memory = strings.TrimSpace("Static, reserved " + strings.Join(reserved, ", "))
	}
	podLevel := "pod-level resources off"
	switch {
	case p.PodLevelManagers:
		podLevel = "pod-level pools on"
	case p.PodLevelResources:
		podLevel = "pod-level pools off"
	}
	if !p.LiftQuota {
		podLevel += "; exclusive CPUs keep their CFS quota"
	}
	return "topology " + topology + "; cpu " + cpu + "; memory " + memory + "; " + podLevel
}
