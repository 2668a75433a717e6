package grantform

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Setting is a setting of a policy under the name that it has for people.
type Setting struct{ Name, Value string }

// Settings returns the settings of a policy that decide, always in the same order.
func Settings(p node.Policy) []Setting {
	var reserved []string
	for _, id := range slices.Sorted(maps.Keys(p.ReservedMemory)) {
		if list := amountsOf(p.ReservedMemory[id]); len(list) > 0 {
			reserved = append(reserved, fmt.Sprintf("NUMA node %d: %s", id, list))
		}
	}
	cpus, _ := cpuPolicyNames.Of(p.StaticCPU)
	memory, _ := memoryPolicyNames.Of(p.StaticMemory)
	return []Setting{
		{"topologyManagerPolicy", p.Topology.String()},
		{"topologyManagerScope", p.Scope.String()},
		{"topologyManagerPolicyOptions", strings.Join(topologyOptions.On(&p), ", ")},
		{"cpuManagerPolicy", cpus},
		{"cpuManagerPolicyOptions", strings.Join(cpuOptions.On(&p), ", ")},
		{"isolated-cpus", p.CPU.Isolated.String()},
		{"reserved CPUs", p.ReservedCPUs.String()},
		{"memoryManagerPolicy", memory},
		{"reserved memory", strings.Join(reserved, "; ")},
		{"feature gates on", strings.Join(featureGates.On(&p), ", ")},
		{"moves", moves(p.Moves)},
	}
}

// moves describes how far a policy moves running pods. It is empty if the policy moves none.
func moves(m node.MovePolicy) string {
	if m.Pods == 0 {
		return ""
	}
	text := fmt.Sprintf("%d pods with %s", m.Pods, request.Bytes(m.Bytes))
	if m.All {
		text += ", with or without consent"
	}
	if m.AnyKernel {
		text += ", on every kernel"
	}
	return text
}
