package quirk

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/behavior"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
)

// Of returns the quirks that pods can meet on a kubelet with a policy on a machine, in the order of
// their numbers. Text describes which pods meet a quirk, and what avoids it.
func (k Kubelet) Of(m *machine.Machine, p node.Policy) []Quirk {
	b, old := k.behavior(), k.version.Before(behavior.Version{Minor: 37})
	aligned := p.Topology != node.TopologyNone
	pools := p.PodLevelManagers && aligned && p.Scope == node.PodScope
	several := len(m.Nodes()) > 1
	huge := len(m.MemoryTypes()) > 1
	var found []Quirk
	for _, c := range []struct {
		id   ID
		is   bool
		text string
	}{
		{SecondPool, pools && (p.StaticCPU || p.StaticMemory), "after each restart of the kubelet, every pod with pod-level resources gets a second pool or is rejected while it runs; drain the node before a restart, or use topologyManagerScope container"},
		{SharedMemory, b.PinsNothing && p.PodLevelManagers && p.StaticMemory && !pools, "pods with pod-level resources are rejected if a container shares the pod's memory; give each container its own CPU and memory limits, set topologyManagerScope to pod with another topologyManagerPolicy than none, or set memoryManagerPolicy to None"},
		{LateDevices, pools, "devices of pods with pod-level resources are assigned when their containers start, so that a pod is admitted and then fails if another one was faster"},
		{EndlessRemainder, p.CPU.DistributeAcrossNUMA && p.CPU.FullPCPUsOnly && several, "an admission can hang the kubelet when NUMA nodes have half cores free; reserve whole cores"},
		{UnknownPages, p.StaticMemory, "a Guaranteed pod that requests huge pages of a size that the node does not have takes the kubelet down, if it comes past the scheduler"},
		{UnusedPages, pools && p.StaticMemory && huge, "pods with pod-level resources are rejected if exclusive containers use all huge pages of the pod and another container uses none; request more huge pages for the pod"},
		{LastSubset, p.CPU.DistributeAcrossNUMA && len(m.CPUNodes()) > 4, "CPUs that are distributed over 4 NUMA nodes or more can come from another NUMA node than the balance wants"},
		{SlowMerge, aligned && len(m.Nodes()) >= 8, "an admission can take seconds to minutes when pods request several kinds of resources; the kubelet answers nothing else meanwhile"},
		{OwnCores, b.CoresWithoutOwn && p.CPU.FullPCPUsOnly, "after a restart of the kubelet, running pods are rejected that have more CPUs than are free; keep as many free as the largest container has"},
		{EmptyDefault, p.StaticCPU && p.CPU.StrictReservation, "the kubelet does not start again while all CPUs that are not reserved are assigned; keep one free"},
		{GateOff, old && p.PodLevelManagers, "when feature gate PodLevelResourceManagers is turned off again, the kubelet does not start until both state files are deleted; drain the node before"},
		{MemoryNowhere, p.StaticMemory && several && aligned, "a pod whose memory fits on no set of NUMA nodes can be admitted, not aligned, or is rejected as UnexpectedAdmissionError"},
		{EndedInit, p.StaticMemory, "after a restart of the kubelet, memory is assigned again to init containers that have ended"},
		{SingleOfGroup, p.StaticMemory && several && p.Topology == node.TopologyBestEffort, "memory of one NUMA node of a group can be assigned to another pod; the kubelet may not start afterwards"},
		{FractionalBytes, p.StaticMemory, "Guaranteed pods whose memory has a fraction of a byte, such as 0.1Gi, are rejected, or admitted without memory if that is their pod-level request; use Mi"},
		{InitMemory, p.StaticMemory && several && p.Strict(), "huge pages that only init containers request are not aligned"},
		{AverageUnits, p.StaticCPU && uneven(m), "CPUs that are reserved or assigned to another pod can be assigned again, as cores or sockets of this machine differ in size"},
		{SameUID, p.StaticCPU || p.StaticMemory, "a static pod that is removed and comes again reuses CPUs and memory of its init containers, which other pods may have by then"},
		{NodeGaps, p.PreferClosest && aligned && m.ShortDistances(), "an admission takes the kubelet down, as the NUMA node ids of this machine have gaps; turn prefer-closest-numa-nodes off"},
	} {
		if c.is {
			found = append(found, Quirk{ID: c.id, Effect: Possible, Text: c.text})
		}
	}
	return found
}

// uneven reports whether a core or a socket has more CPUs than the average.
func uneven(m *machine.Machine) bool {
	other := func(average int) func(machine.Unit) bool {
		return func(u machine.Unit) bool { return u.Size != average }
	}
	return slices.ContainsFunc(m.Cores(), other(m.CPUsPerCore())) || slices.ContainsFunc(m.Sockets(), other(m.CPUsPerSocket()))
}

// Answer adds the quirks to the kubelet's plan as text: why the kubelet rejects the pod or goes
// down, and a note if something else differs from Paddock's answer.
func Answer(plan *node.Plan, quirks []Quirk) *node.Plan {
	if len(quirks) == 0 {
		return plan
	}
	answer := *plan
	answer.Trace.Notes = slices.Clone(plan.Trace.Notes)
	named := false
	for _, q := range quirks {
		if (q.Effect != Rejected && q.Effect != Down) || plan.Rejection == nil || named {
			answer.Trace.Notes = append(answer.Trace.Notes, q.Text)
			continue
		}
		rejection := *plan.Rejection
		rejection.Rule, rejection.Container, rejection.Detail = string(q.ID), q.Container, q.Text
		answer.Rejection, named = &rejection, true
	}
	return &answer
}
