package node

import (
	"sort"

	"github.com/paddock-project/paddock/internal/core/request"
)

// LargestPod returns the number of CPUs of the largest pod that the node would admit now, with one
// container and as little memory as possible, or least if it would admit none that is larger. The
// latter takes one plan, so the largest pod of many nodes costs little more than one plan for each.
func (s *State) LargestPod(least int) int {
	pod := request.Pod{Ask: request.Ask{QoS: request.Guaranteed, Containers: []request.Container{{Name: "c", Type: request.App, Equivalent: true, Memory: request.Amounts{{Resource: request.Memory, Value: 1}}}}}}
	unit := 1
	if s.policy.CPU.FullPCPUsOnly {
		unit = max(1, s.machine.CPUsPerCore())
	}
	fits := func(cpus int) bool {
		pod.Containers[0].CPUs = cpus
		return s.Plan(pod).Grant != nil
	}
	most, from := s.AvailableCPUs().Len()/unit, least/unit+1
	if most < from || !fits(unit*from) {
		return least
	}
	return unit * (from + sort.Search(most-from, func(n int) bool { return !fits(unit * (from + n + 1)) }))
}
