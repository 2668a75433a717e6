package view

import (
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
)

const nvidia = "nvidia.com/gpu"

// TestAccountNamesWhatIsMissing checks the sentence about places, above all where no resource is
// missing alone.
func TestAccountNamesWhatIsMissing(t *testing.T) {
	group := func(alone, with int) []FleetBar { return []FleetBar{{explain.BarredByGroup, alone, with}} }
	for want, s := range map[string]FleetScarce{
		"nvidia.com/gpu is missing on all 300 NUMA nodes, and beside it CPUs on 112; memory belongs to another group of NUMA nodes on 188": {
			NUMANodes: 300, Several: 300, Missing: []FleetLack{{Resource: nvidia, WithOthers: 300}, {Resource: request.CPU, WithOthers: 112}}, Bars: group(0, 188),
		},
		"CPUs and memory are missing on both NUMA nodes": {
			NUMANodes: 2, Several: 2, Missing: []FleetLack{{Resource: request.CPU, WithOthers: 2}, {Resource: request.Memory, WithOthers: 2}},
		},
		"memory is missing on 7 of 9 nodes, CPUs on 6 and nvidia.com/gpu on 3, but never alone; enough is free, but no split over NUMA nodes is admitted, on 2": {
			Nodes: 9, Several: 7, Nothing: 2, Missing: []FleetLack{{Resource: request.Memory, WithOthers: 7}, {Resource: request.CPU, WithOthers: 6}, {Resource: nvidia, WithOthers: 3}},
		},
		"only CPUs are missing on 20 of 24 NUMA nodes, 2 CPUs at least; several are missing on 4": {
			NUMANodes: 24, Several: 4, Missing: []FleetLack{{Resource: request.CPU, Alone: 20, WithOthers: 4, Least: 2, Most: 9}, {Resource: nvidia, WithOthers: 4}},
		},
		"only CPUs are missing on 20 of 24 NUMA nodes, 2 CPUs at least; several reasons keep them off 3; memory belongs to another group of NUMA nodes on 1": {
			NUMANodes: 24, Several: 3, Barred: 1, Missing: []FleetLack{{Resource: request.CPU, Alone: 20, WithOthers: 3, Least: 2, Most: 9}}, Bars: group(1, 3),
		},
		"memory belongs to another group of NUMA nodes on all 4 NUMA nodes": {NUMANodes: 4, Barred: 4, Bars: group(4, 0)},
		"the CPUs are no whole number of cores, which keeps them off 3 of 4 NUMA nodes; devices were chosen near other NUMA nodes, which keeps them off 1": {
			NUMANodes: 4, Barred: 4, Bars: []FleetBar{{explain.BarredByCores, 3, 0}, {explain.BarredByDevices, 1, 0}},
		},
		"nothing is missing on all 4 NUMA nodes": {NUMANodes: 4, Nothing: 4},
	} {
		if got := strings.Join(s.Account(), "\n"); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestOnePodHasItsName checks that a pod is no example of itself.
func TestOnePodHasItsName(t *testing.T) {
	one, two := FleetScarce{Pods: 1, Example: "a/b"}, FleetScarce{Pods: 2, Example: "a/b"}
	if one.Which() != "a/b" || two.Which() != "such as a/b" {
		t.Errorf("got %q for one pod and %q for two", one.Which(), two.Which())
	}
}
