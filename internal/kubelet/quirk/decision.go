package quirk

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// verdict is the kubelet's answer.
type verdict int

const (
	admits verdict = iota
	rejects
	// down: it panics, or the admission never ends.
	down
)

// decision is one pod decided as the kubelet does, with its faults. It is the twin of the draft in
// core/node, which decides without them, and reads the same demand.
type decision struct {
	s      *node.State
	m      *machine.Machine
	policy node.Policy
	pod    *request.Pod
	asked  node.Demand
	// fractions are Request.Fractions.
	fractions []string
	// had is what the pod has, if it is admitted again.
	had *node.Grant

	shared  cpuset.Set
	usage   memory.Usage
	devices device.Usage
	// What init containers left, of this pod or of an earlier one with its UID.
	cpus     cpuset.Set
	memory   memory.Reuse
	taken    device.Reuse
	leftBy   Kubelet
	sameUID  bool
	served   bool // a container was served, so that the kubelet keeps what is left for this pod
	servedBy bool // the same for memory

	verdict    verdict
	faults     []fault
	pool       cpuset.Set
	poolNodes  mask.Mask
	containers []node.ContainerGrant
}

// decide decides about a pod on s as the kubelet k does.
func decide(s *node.State, r Request, k Kubelet) *decision {
	d := &decision{
		s: s, m: s.Machine(), policy: s.Policy(), pod: &r.Pod, fractions: r.Fractions, leftBy: k,
		shared: s.SharedCPUs(), usage: s.Memory(), devices: s.Devices(),
	}
	d.known(k)
	d.asked = s.Demand(d.pod)
	d.containers = make([]node.ContainerGrant, len(d.pod.Containers))
	if k.cpus.uid == d.pod.UID {
		d.cpus, d.sameUID = k.cpus.cpus, !k.cpus.cpus.IsEmpty()
	}
	if k.memories.uid == d.pod.UID {
		d.memory, d.sameUID = k.memories.reuse, d.sameUID || len(k.memories.reuse) > 0
	}
	if d.sameUID && d.had == nil {
		d.note(SameUID, "")
	}
	if d.asked.Path == node.AsPool {
		d.decidePool()
	} else {
		d.decideEach()
	}
	return d
}

// known finds what the pod has: in the state, or, if the kubelet rejected it since, still in the
// kubelet's own state.
func (d *decision) known(k Kubelet) {
	g, known := d.s.Grant(d.pod.UID)
	if g == nil && k.stale != nil && k.stale.Pod.UID == d.pod.UID {
		g = k.stale
		d.shared = d.shared.Difference(g.CPUs())
		d.usage = d.usage.Charge(g.Charged(), nil)
		known = true
	}
	if known && len(g.Containers) == len(d.pod.Containers) {
		d.had = g
	}
}

func (d *decision) note(id ID, container string) {
	d.faults = append(d.faults, fault{id: id, container: container})
}

// end ends the decision: false, so that callers can return it.
func (d *decision) end(v verdict) bool {
	d.verdict = v
	return false
}

// left is what the kubelet keeps of the pod's init containers.
func (d *decision) left() (leftCPUs, leftMemory) {
	c, m := d.leftBy.cpus, d.leftBy.memories
	if d.served {
		c = leftCPUs{d.pod.UID, d.cpus}
	}
	if d.servedBy {
		m = leftMemory{d.pod.UID, d.memory}
	}
	return c, m
}

// assigned are all CPUs of the pod.
func (d *decision) assigned() cpuset.Set {
	set := d.pool
	for i := range d.containers {
		set = set.Union(d.containers[i].CPUs)
	}
	return set
}

// decideEach serves container after container, as on all paths without a pool.
func (d *decision) decideEach() bool {
	choice := hint.Choice{Mask: d.m.NodeMask(), Admit: true}
	if d.asked.Path == node.AsOne {
		var ok bool
		if choice, ok = d.merge(d.podSets()); !ok {
			return false
		}
	}
	for i := range d.pod.Containers {
		if d.asked.Path == node.ByContainer {
			var ok bool
			if choice, ok = d.merge(d.containerSets(i)); !ok {
				return false
			}
		}
		for _, a := range d.asked.Containers[i].Devices {
			if d.had != nil {
				break // It has them.
			}
			ids, err := d.devices.Allocate(a.Resource, a.Value, choice, d.taken.IDs(a.Resource))
			if err == nil {
				d.devices, err = d.devices.Take(a.Resource, d.taken.New(a.Resource, ids))
			}
			if err != nil {
				return d.end(rejects)
			}
			d.taken = d.taken.After(d.pod.Containers[i].Type, a.Resource, ids)
		}
		if !d.takeCPUs(i, choice) || !d.takeMemory(i, choice) {
			return false
		}
	}
	return true
}

// merge asks the Topology Manager.
func (d *decision) merge(sets []hint.Set, ok bool) (hint.Choice, bool) {
	if !ok {
		return hint.Choice{}, false
	}
	// Two masks of a set are compared, one with a NUMA node id for which the list of distances is
	// too short.
	beyond := func(s hint.Set) bool {
		return s.Kind == hint.Fits && s.Candidates.Len() > 1 && s.Candidates.Highest() >= d.m.NodeMask().Len()
	}
	if d.policy.PreferClosest && d.m.ShortDistances() && d.policy.Topology != node.TopologySingleNUMANode && slices.ContainsFunc(sets, beyond) {
		d.note(NodeGaps, "")
		return hint.Choice{}, d.end(down)
	}
	rules := hint.Rules{Policy: hint.BestEffort, Nodes: d.m.NodeMask()}
	switch d.policy.Topology {
	case node.TopologyRestricted:
		rules.Policy = hint.Restricted
	case node.TopologySingleNUMANode:
		rules.Policy = hint.SingleNUMANode
	case node.TopologyNone, node.TopologyBestEffort:
	}
	if d.policy.PreferClosest && d.m.HasDistances() {
		rules.Distances = make([][]int, d.m.NodeMask().Highest()+1)
		for a := range rules.Distances {
			for b := range rules.Distances {
				rules.Distances[a] = append(rules.Distances[a], d.m.Distance(a, b))
			}
		}
	}
	choice := hint.Merge(sets, rules)
	if !choice.Admit {
		return choice, d.end(rejects)
	}
	return choice, true
}

func (d *decision) takeCPUs(i int, choice hint.Choice) bool {
	n := d.asked.Containers[i].CPUs
	if n == 0 {
		return true
	}
	if !d.fullCores(n) {
		if d.had != nil {
			d.note(OwnCores, d.pod.Containers[i].Name)
		}
		return d.end(rejects)
	}
	set, known := d.hadCPUs(i)
	if !known {
		var ok bool
		if set, ok = d.allocate(choice, d.cpus, n); !ok {
			return false
		}
	}
	d.containers[i].CPUs, d.served = set, true
	if d.pod.Containers[i].Type == request.Init {
		d.cpus = d.cpus.Union(set)
	} else {
		d.cpus = d.cpus.Difference(set)
	}
	return true
}

// fullCores is the check of full-pcpus-only.
func (d *decision) fullCores(n int) bool {
	physical := d.shared.Difference(cpu.PhysicalOf(d.m, d.policy.ReservedCPUs)).Len()
	return cpu.CheckFullCores(d.m, d.policy.CPU, physical, n) == nil
}

// hadCPUs are the CPUs that container i has, if the pod is admitted again.
func (d *decision) hadCPUs(i int) (cpuset.Set, bool) {
	if d.had == nil || d.had.Containers[i].Removed || d.had.Containers[i].CPUs.IsEmpty() {
		return cpuset.Set{}, false
	}
	return d.had.Containers[i].CPUs, true
}

func (d *decision) available() cpuset.Set { return d.shared.Difference(d.policy.ReservedCPUs) }

// allocate takes n CPUs out of the node shared pool.
func (d *decision) allocate(choice hint.Choice, reusable cpuset.Set, n int) (cpuset.Set, bool) {
	t := taker{m: d.m, o: d.policy.CPU}
	set, err := t.allocate(d.available().Union(reusable), choice, n)
	d.faults = append(d.faults, t.faults...)
	if t.endless {
		return set, d.end(down)
	}
	if err != nil {
		return set, d.end(rejects)
	}
	d.shared = d.shared.Difference(set)
	return set, true
}

func (d *decision) takeMemory(i int, choice hint.Choice) bool {
	c, want := &d.pod.Containers[i], d.asked.Containers[i].Memory
	if len(want) == 0 {
		return d.shareMemory(i, choice)
	}
	if slices.Contains(d.fractions, c.Name) {
		d.note(FractionalBytes, c.Name)
		return d.end(rejects)
	}
	d.servedBy = true
	if d.had != nil {
		if blocks := d.had.Containers[i].Memory; len(blocks) > 0 {
			d.containers[i].Memory = blocks
			d.memory = d.memory.After(c.Type, blocks)
			return true
		}
		if c.Type == request.Init {
			d.note(EndedInit, c.Name)
		}
	}
	nodes, ok := d.place(c.Name, want, choice)
	if !ok {
		return false
	}
	if d.policy.Strict() && choice.HasMask && !choice.Mask.Contains(nodes) {
		d.note(InitMemory, c.Name)
	}
	blocks := make([]memory.Block, len(want))
	for k, a := range want {
		blocks[k] = memory.Block{Type: a.Resource, Size: a.Value, Nodes: nodes}
	}
	d.usage = d.usage.Charge(blocks, d.memory.Charged(blocks))
	d.memory = d.memory.After(c.Type, blocks)
	d.containers[i].Memory = blocks
	return true
}

// shareMemory is what the kubelet does with a container of a pod-level pod that shares the memory
// of its pod: it looks for NUMA nodes for a request of nothing.
func (d *decision) shareMemory(i int, choice hint.Choice) bool {
	// When the pod is admitted again, the kubelet has an entry, if only an empty one, but for
	// standard init containers: theirs have ended (R-MEM-63).
	entry := d.had != nil && d.had.Pod.Kind == d.pod.Kind && d.pod.Containers[i].Type != request.Init
	if d.asked.Containers[i].MemoryBasis != node.NotEquivalent || entry {
		return true
	}
	// It looks whether a set of several NUMA nodes keeps to the groups (R-MEM-36).
	groups, single := d.usage.Serving(choice.Mask)
	violates := choice.Mask.Len() > 1 && (!single.IsEmpty() || slices.ContainsFunc(groups, func(g mask.Mask) bool { return g != choice.Mask }))
	if choice.HasMask && !violates {
		d.servedBy = true
		return true
	}
	d.note(SharedMemory, d.pod.Containers[i].Name)
	return d.end(rejects)
}

// place finds the NUMA nodes for memory.
func (d *decision) place(container string, want request.Amounts, choice hint.Choice) (mask.Mask, bool) {
	nodes, err := d.usage.Place(want, choice, d.memory)
	short, _ := err.(*memory.PlacementError) //nolint:errorlint // Place returns no other, and never wraps it.
	switch {
	case err == nil:
		return nodes, true
	case short != nil && short.Cause == memory.NoSuchType:
		d.note(UnknownPages, container)
		return 0, d.end(down)
	case short != nil && short.Cause == memory.GroupConflict && short.Nodes.Len() == 1:
		d.faults = append(d.faults, fault{id: SingleOfGroup, container: container, nodes: short.Nodes})
		return short.Nodes, true
	}
	return 0, d.end(rejects)
}
