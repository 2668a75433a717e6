package node

import (
	"errors"
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/layout"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

// begin finds what a kubelet has of the pod: the grant of a pod that is admitted again, even if the
// kubelet has rejected it since, and what init containers of a pod with the same UID left
// (Behavior.KeepsReuse).
// The pod then stays there, also if another planner hands a grant over: State.PlanGrant compares.
func (d *draft) begin() {
	uid := d.pod.UID
	g, _ := d.s.Grant(uid)
	if k := d.s.past; k != nil {
		if g == nil && k.stale != nil && k.stale.Pod.UID == uid {
			g = k.stale
		}
		if k.cpusOf == uid {
			d.reusableCPUs = k.cpus
		}
		if k.memoryOf == uid {
			d.reusableMemory = k.memory
		}
	}
	if g != nil && len(g.Containers) == len(d.pod.Containers) {
		d.chooser = chooser{way: staying, grant: g}
	}
	if d.way != staying && (!d.reusableCPUs.IsEmpty() || len(d.reusableMemory) > 0) {
		d.met(FaultKeepsReuse, "")
	}
}

// hadCPUs returns the CPUs that container i already has if the pod is admitted again. All
// containers together have none: a kubelet admits no pool again.
func (d *draft) hadCPUs(i int) (cpuset.Set, bool) {
	had := d.had()
	if had == nil || i == together || had.Containers[i].Removed || had.Containers[i].CPUs.IsEmpty() {
		return cpuset.Set{}, false
	}
	return had.Containers[i].CPUs, true
}

// hadMemory returns the blocks that container i already has if the pod is admitted again. For all
// containers together, it returns the blocks of the first container that has any.
func (d *draft) hadMemory(i int) []memory.Block {
	had := d.had()
	switch {
	case had == nil:
		return nil
	case i != together:
		return had.Containers[i].Memory
	}
	for k := range had.Containers {
		if blocks := had.Containers[k].Memory; len(blocks) > 0 {
			return blocks
		}
	}
	return nil
}

// cpuHintsAgain returns the CPU hints of a pod that is admitted again: the mask must contain what
// the pod's containers have. If a container does not have as many CPUs as it requests, nothing
// fits. That is the case for each container that shares a pool.
func (d *draft) cpuHintsAgain(n, of int) hint.Set {
	var own cpuset.Set
	for i := range d.pod.Containers {
		set, has := d.hadCPUs(i)
		if !has || of != together && of != i {
			continue
		}
		if set.Len() != d.demand.Containers[i].CPUs {
			return hint.Set{Resource: request.CPU, Kind: hint.None, Why: fmt.Sprintf(
				"container %s has CPUs %s and requests %d of its own", d.pod.Containers[i].Name, set, d.demand.Containers[i].CPUs)}
		}
		own = own.Union(set)
	}
	if own.Len() == n {
		set := cpu.Hints(d.s.machine, d.s.policy.CPU, own, cpuset.Set{}, n)
		set.Kept = d.s.machine.NodesOf(own)
		return set
	}
	return cpu.Hints(d.s.machine, d.s.policy.CPU, d.available(), d.reusableCPUs.Union(own), n)
}

// deviceHintsAgain returns the hints of devices of a pod that is admitted again: container of, or
// all its containers together.
func (d *draft) deviceHintsAgain(a request.Amount, of int) hint.Set {
	var ids []string
	for i := range d.grant.Containers {
		for _, has := range d.grant.Containers[i].Devices {
			if has.Resource == a.Resource && (of == together || of == i) {
				ids = append(ids, has.IDs...)
			}
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids) // Init containers leave their devices to others.
	if len(ids) == 0 {
		return d.devices.Hints(a.Resource, a.Value, d.reusableDevices.IDs(a.Resource))
	}
	return d.devices.HintsAgain(a.Resource, a.Value, ids)
}

// widenDeviceHints applies Behavior.MasksWithoutDevices to the hints of devices.
func (d *draft) widenDeviceHints(hintSets []hint.Set) {
	if !d.s.policy.Behavior.MasksWithoutDevices {
		return
	}
	for i := range hintSets {
		if hintSets[i].Kind == hint.Fits {
			hintSets[i].Candidates = d.s.machine.NodeMask()
		}
	}
}

// metMasks records that Behavior.MasksWithoutDevices changed the choice of NUMA nodes.
func (d *draft) metMasks(container string, ask *Ask, hintSets []hint.Set, rules hint.Rules, choice hint.Choice) {
	if !d.s.policy.Behavior.MasksWithoutDevices || len(ask.Devices) == 0 {
		return
	}
	narrow, narrower := slices.Clone(hintSets), false
	for i := range narrow {
		devices := slices.ContainsFunc(ask.Devices, func(a request.Amount) bool { return a.Resource == narrow[i].Resource })
		if !devices || narrow[i].Kind != hint.Fits {
			continue
		}
		narrow[i].Candidates = d.devices.Inventory().Nodes(narrow[i].Resource)
		narrower = narrower || narrow[i].Candidates != hintSets[i].Candidates
	}
	if !narrower {
		return // Every NUMA node has devices of each resource, as on most machines.
	}
	without := hint.Merge(narrow, rules)
	if without.Mask != choice.Mask || without.HasMask != choice.HasMask || without.Preferred != choice.Preferred || without.Admit != choice.Admit {
		d.met(FaultMasksWithoutDevices, container)
	}
}

// unregisteredInit applies Behavior.UnregisteredInits to container i of a pod that is admitted
// again.
func (d *draft) unregisteredInit(i int) *rejection.Rejection {
	c := &d.pod.Containers[i]
	if !d.s.policy.Behavior.UnregisteredInits || c.Type != request.Init {
		return nil
	}
	for _, had := range d.grant.Containers[i].Devices {
		if d.devices.Inventory().Has(had.Resource) {
			continue
		}
		d.trace.Stage = StageDevices
		d.met(FaultUnregisteredInits, c.Name)
		return d.reject(rejection.TooFewDevices, &rejection.Rejection{
			Container: c.Name, Resource: had.Resource, Wanted: int64(len(had.IDs)),
			Detail: fmt.Sprintf("no device plugin has registered %s since the restart of the kubelet", had.Resource),
		})
	}
	return nil
}

// regenerated returns the hints of existing blocks: only their NUMA nodes if the blocks match the
// request, otherwise no preference.
func regenerated(blocks []memory.Block, want request.Amounts) hint.Set {
	none := hint.Set{Resource: request.Memory}
	if len(blocks) != len(want) {
		return none
	}
	set := hint.Set{Resource: request.Memory, Kind: hint.Fits, Copies: len(want)}
	for _, b := range blocks {
		if n, asked := want.Get(b.Type); !asked || n != b.Size {
			return none
		}
		set.Explicit, set.Preferred, set.Kept = append(set.Explicit[:0], b.Nodes), b.Nodes.Len(), b.Nodes
	}
	return set
}

// keepsMemory reports whether container i of a pod that is admitted again keeps its blocks.
func (d *draft) keepsMemory(i int) bool {
	had := d.had()
	if had == nil {
		return false
	}
	c := &d.pod.Containers[i]
	blocks := had.Containers[i].Memory
	if len(blocks) == 0 {
		if c.Type == request.Init {
			d.met(FaultEndedInits, c.Name)
			return !d.s.policy.Behavior.EndedInits
		}
		return false
	}
	d.containers[i].Memory, d.containers[i].MemoryNodes = blocks, had.Containers[i].MemoryNodes
	d.reusableMemory = d.reusableMemory.After(c.Type, blocks)
	return true
}

// pinsNothing reports whether a kubelet asks for NUMA nodes for container i although the container
// requests no memory of its own (Behavior.PinsNothing).
func (d *draft) pinsNothing(i int) bool {
	return d.s.policy.Behavior.PinsNothing && d.demand.Containers[i].MemoryBasis == NotEquivalent
}

// pinNothing applies Behavior.PinsNothing to container i.
func (d *draft) pinNothing(i int, choice hint.Choice) *rejection.Rejection {
	// If this kubelet has admitted the pod before, the container has an entry, be it an empty one.
	// Another kubelet leaves none, and that of a standard init container has ended (R-MEM-63).
	if had := d.had(); had != nil && had.Containers[i].Memory != nil && d.pod.Containers[i].Type != request.Init {
		d.containers[i].Memory = had.Containers[i].Memory
		return nil
	}
	d.trace.Stage = StageMemory
	// The kubelet checks whether a set of several NUMA nodes keeps to the groups (R-MEM-36).
	groups, single := d.usage.Serving(choice.Mask)
	violates := choice.Mask.Len() > 1 && (!single.IsEmpty() || slices.ContainsFunc(groups, func(g mask.Mask) bool { return g != choice.Mask }))
	if choice.HasMask && !violates {
		d.pinned = true
		d.containers[i].Memory = []memory.Block{}
		return nil
	}
	d.met(FaultPinsNothing, d.pod.Containers[i].Name)
	cause, detail := rejection.NoMemoryRoom, "no NUMA nodes are found for a request of no memory"
	if choice.HasMask {
		cause, detail = rejection.MemoryGroups, fmt.Sprintf("a request of no memory would be on %s together, but some of them already serve memory one by one, or together with others", choice.Mask.Text())
	}
	return d.reject(cause, &rejection.Rejection{Container: d.pod.Containers[i].Name, Resource: request.Memory, Detail: detail})
}

// unread reports whether the memory of container i, or of all containers together, cannot be read
// (Behavior.UnreadFractions). A pod-level budget that cannot be read is not in the demand.
func (d *draft) unread(i int) bool {
	if !d.s.policy.Behavior.UnreadFractions || d.demand.Path == AsPool {
		return false
	}
	if i != together {
		return d.pod.Containers[i].FractionalMemory
	}
	if !slices.ContainsFunc(d.pod.Containers, fractional) {
		return false
	}
	d.met(FaultUnreadFractions, "")
	return true
}

func fractional(c request.Container) bool { return c.FractionalMemory }

func (d *draft) rejectUnread(container string) *rejection.Rejection {
	d.met(FaultUnreadFractions, container)
	return d.reject(rejection.MemoryUnread, &rejection.Rejection{
		Container: container, Resource: request.Memory,
		Detail: "the amount of memory has a fraction of a byte: write it in Mi or in bytes",
	})
}

// findsEmpty reports whether a pool that can be divided counts as empty: because of huge pages that
// no sharing container requests (Behavior.UnusedPages), or because the memory of a container cannot
// be read (Behavior.UnreadFractions).
func (d *draft) findsEmpty(v *Division) bool {
	b := &d.s.policy.Behavior
	if b.UnusedPages {
		claims := PoolClaims(&d.pod, v.Resource)
		for i := range claims {
			claims[i].Indifferent = false
		}
		if v.Empty = layout.Divide(v.Budget, claims).Empty; v.Empty != layout.NotEmpty {
			d.met(FaultUnusedPages, "")
			return true
		}
	}
	if i := slices.IndexFunc(d.pod.Containers, fractional); b.UnreadFractions && i >= 0 && request.IsMemory(v.Resource) {
		d.met(FaultUnreadFractions, d.pod.Containers[i].Name)
		return true
	}
	return false
}

// meetHints records how a kubelet treats hints of memory that fits nowhere.
func (d *draft) meetHints(of int, set *hint.Set) {
	b := &d.s.policy.Behavior
	switch {
	case set.Kind == hint.None && b.PanicsAtUnknownPages:
		name := ""
		if of != together {
			name = d.pod.Containers[of].Name
		}
		d.met(FaultPanicsAtUnknownPages, name)
	case set.Kind == hint.Any && d.demand.Path == AsOne && b.MemoryNowhere:
		d.met(FaultMemoryNowhere, "")
	}
}

// goesDown rejects a pod at which the kubelet panics before it merges the hints, or which it does
// not finish merging.
func (d *draft) goesDown(container string, hintSets []hint.Set) *rejection.Rejection {
	b := &d.s.policy.Behavior
	if b.PanicsAtUnknownPages {
		for i := range hintSets {
			if s := &hintSets[i]; s.Kind == hint.None && request.IsMemory(s.Resource) && d.emptyPool(request.IsMemory) == nil {
				return d.reject(rejection.KubeletPanics, &rejection.Rejection{Container: container, Resource: s.Resource, Detail: s.Why})
			}
		}
	}
	if b.SlowMerges && d.s.policy.Topology != TopologySingleNUMANode && hint.ManyCombinations(hintSets, slowMerge) {
		d.met(FaultSlowMerges, container)
		return d.reject(rejection.KubeletHangs, &rejection.Rejection{Container: container, Detail: fmt.Sprintf(
			"the hints of its resources can be combined in over %d million ways, and the Topology Manager visits each of them, which takes more than a minute", slowMerge/1_000_000)})
	}
	if !b.DistancesByPosition || !d.s.policy.PreferClosest || !d.s.machine.ShortDistances() || d.s.policy.Topology == TopologySingleNUMANode {
		return nil
	}
	// The kubelet compares two merged masks, one of them with a NUMA node id for which the list of
	// distances is too short. A merged mask has only NUMA nodes that every hint set allows.
	// NUMA nodes that each of its sets has to have are in every merged mask.
	common, always, some := mask.Mask(0), mask.Mask(0), false
	for i := range hintSets {
		switch s := &hintSets[i]; {
		case s.Kind != hint.Fits:
		case !some:
			common, always, some = s.Candidates, s.Indispensable(), true
		default:
			common &= s.Candidates
			always &= s.Indispensable()
		}
	}
	if (common&^always).Len() < 2 || common.Highest() < d.s.machine.NodeMask().Len() {
		return nil
	}
	d.met(FaultDistancesByPosition, "")
	return d.reject(rejection.KubeletPanics, &rejection.Rejection{Container: container, Detail: "distances are looked up by NUMA node id, and the ids have gaps"})
}

// slowMerge is how many combinations of hints a kubelet merges in about a minute: it took 8.6 s for
// 16.6 million (R-HINT-80).
const slowMerge = 120_000_000

// placesAnyway returns the NUMA nodes on which a kubelet places memory for which Place returned
// err. It reports false if the kubelet does not place it either.
func (d *draft) placesAnyway(container string, err error) (mask.Mask, bool) {
	b := &d.s.policy.Behavior
	var short *memory.PlacementError
	if !b.SingleOfGroup || !errors.As(err, &short) || short.Cause != memory.GroupConflict || short.Nodes.Len() != 1 {
		return 0, false
	}
	d.met(FaultSingleOfGroup, container)
	return short.Nodes, true
}

// chooseFree lets take choose CPUs with the options of the node, and records which points of
// cpu.Behavior changed the choice: each point without which take returns a different result. The
// points that cannot change a result on this machine are left out, which are all of them on most
// machines.
func (d *draft) chooseFree(take func(cpu.Options) (cpuset.Set, error)) (cpuset.Set, error) {
	o := d.s.policy.CPU.Effective(d.s.machine)
	set, err := take(o)
	all := o.Behavior
	if all == (cpu.Behavior{}) {
		return set, err
	}
	points := [...]struct {
		fault   Fault
		without cpu.Behavior
	}{{FaultAverageUnits, all}, {FaultEndlessRemainder, all}, {FaultWholeCoresOfUncore, all}, {FaultSharedSubsets, all}}
	points[0].without.AverageUnits = false
	points[1].without.EndlessRemainder = false
	points[2].without.WholeCoresOfUncore = false
	points[3].without.SharedSubsets = false
	for _, p := range points {
		if p.without == all {
			continue
		}
		o.Behavior = p.without
		other, otherErr := take(o)
		if !other.Equal(set) || (otherErr == nil) != (err == nil) {
			d.met(p.fault, "")
			if errors.Is(err, cpu.ErrEndless) {
				break
			}
		}
	}
	return set, err
}
