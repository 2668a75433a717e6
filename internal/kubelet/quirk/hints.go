package quirk

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// containerSets are the hints of one container. They are false where the kubelet goes down.
func (d *decision) containerSets(i int) ([]hint.Set, bool) {
	ask := &d.asked.Containers[i].Ask
	sets := d.deviceSets(ask)
	if ask.CPUs > 0 {
		set, known := d.hadCPUs(i)
		switch {
		case known && set.Len() != ask.CPUs:
			sets = append(sets, hint.Set{Resource: request.CPU, Kind: hint.None})
		case known:
			sets = append(sets, cpu.Hints(d.m, d.policy.CPU, set, cpuset.Set{}, ask.CPUs))
		default:
			sets = append(sets, cpu.Hints(d.m, d.policy.CPU, d.available(), d.cpus, ask.CPUs))
		}
	}
	if len(ask.Memory) == 0 || slices.Contains(d.fractions, d.pod.Containers[i].Name) {
		return sets, true
	}
	if d.had != nil && len(d.had.Containers[i].Memory) > 0 {
		return append(sets, regenerated(d.had.Containers[i].Memory, ask.Memory)), true
	}
	return d.withMemory(sets, d.pod.Containers[i].Name, ask.Memory)
}

// podSets are the hints of all containers together, or of a pod's budget. Nothing fits a resource
// whose pool is empty; for memory all types count together.
func (d *decision) podSets(empty ...request.Resource) ([]hint.Set, bool) {
	ask := &d.asked.Together
	sets := d.deviceSets(ask)
	switch {
	case slices.Contains(empty, request.CPU):
		sets = append(sets, hint.Set{Resource: request.CPU, Kind: hint.None})
	case ask.CPUs > 0:
		// What its containers have must be in the mask. If one has not as many as it requests,
		// nothing fits: that is so for each container that shares a pool.
		var own cpuset.Set
		other := false
		for i := range d.pod.Containers {
			set, known := d.hadCPUs(i)
			other = other || known && set.Len() != d.asked.Containers[i].CPUs
			own = own.Union(set)
		}
		switch {
		case other:
			sets = append(sets, hint.Set{Resource: request.CPU, Kind: hint.None})
		case own.Len() == ask.CPUs:
			sets = append(sets, cpu.Hints(d.m, d.policy.CPU, own, cpuset.Set{}, ask.CPUs))
		default:
			sets = append(sets, cpu.Hints(d.m, d.policy.CPU, d.available(), d.cpus.Union(own), ask.CPUs))
		}
	}
	switch {
	case slices.ContainsFunc(empty, request.IsMemory):
		return append(sets, hint.Set{Resource: request.Memory, Kind: hint.None}), true
	case len(ask.Memory) == 0:
		return sets, true
	case d.fractionTogether():
		d.note(FractionalBytes, "")
		return sets, true
	}
	if d.had != nil {
		for i := range d.had.Containers {
			if blocks := d.had.Containers[i].Memory; len(blocks) > 0 {
				return append(sets, regenerated(blocks, ask.Memory)), true
			}
		}
	}
	return d.withMemory(sets, "", ask.Memory)
}

// fractionTogether reports whether an amount of memory that the kubelet adds up cannot be read.
func (d *decision) fractionTogether() bool {
	if d.asked.Path == node.AsPool {
		return slices.Contains(d.fractions, "")
	}
	return len(d.fractions) > 0
}

// withMemory adds the hints of memory. The kubelet panics at a type that the node does not have
// . To it, memory that fits nowhere has no preference.
func (d *decision) withMemory(sets []hint.Set, container string, want request.Amounts) ([]hint.Set, bool) {
	set := d.usage.Hints(want, d.memory)
	if set.Kind == hint.None {
		d.note(UnknownPages, container)
		return nil, d.end(down)
	}
	if set.Kind == hint.Any && d.asked.Path == node.AsOne {
		d.note(MemoryNowhere, "")
	}
	return append(sets, set), true
}

// deviceSets are those of devices. What a pod has is left out when it is admitted again.
func (d *decision) deviceSets(ask *node.Ask) []hint.Set {
	var sets []hint.Set
	for _, a := range ask.Devices {
		if d.had == nil {
			sets = append(sets, d.devices.Hints(a.Resource, a.Value, d.taken.IDs(a.Resource)))
		}
	}
	return sets
}

// regenerated are the hints of blocks that are there: their NUMA nodes alone, if the blocks are
// what is requested; else no preference.
func regenerated(blocks []memory.Block, want request.Amounts) hint.Set {
	if len(blocks) != len(want) {
		return hint.Set{Resource: request.Memory}
	}
	set := hint.Set{Resource: request.Memory, Kind: hint.Fits, Copies: len(want)}
	for _, b := range blocks {
		if n, asked := want.Get(b.Type); !asked || n != b.Size {
			return hint.Set{Resource: request.Memory}
		}
		set.Explicit, set.Preferred = append(set.Explicit[:0], b.Nodes), b.Nodes.Len()
	}
	return set
}
