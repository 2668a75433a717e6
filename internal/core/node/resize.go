package node

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/cache"
	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Resize decides about another request of a pod that has a grant (docs/rules/resize.md). It changes
// nothing: Apply does that. The plan has the complete next grant, or a rejection. After a
// rejection, the pod keeps what it has. A pod takes nothing that is reserved for another one. A
// request that equals the pod's present one is Known. Containers that grow keep every CPU.
// Containers that shrink get no other CPU and keep their baseline. Given devices are those of the
// grant.
func (s *State) Resize(uid string, pod request.Pod) *Plan {
	shared := s.SharedCPUs()
	p := &Plan{Base: s.generation, Pod: pod, Delta: Delta{SharedBefore: shared, SharedAfter: shared}}
	p.Trace.Method, p.Trace.BySocket = s.policy.CPU.Method(), s.policy.CPU.AlignBySocket
	old, known := s.Grant(uid)
	if !known {
		p.Trace.Demand = s.Demand(&pod)
		d := &draft{s: s, pod: pod, trace: &p.Trace}
		p.Rejection = d.reject(rejection.NotHere, &rejection.Rejection{Detail: "the pod has no assignments here that could be resized: admit it first"})
		return p
	}
	if len(pod.Containers) == len(old.Pod.Containers) {
		pod = sameBut(pod, &old.Pod)
	}
	p.Pod, p.Trace.Demand = pod, s.Demand(&pod)
	p.Trace.Demand.keepCaches(old)
	if old.Pod.Equal(pod) {
		p.Grant, p.Known = old, true
		p.Trace.Stage, p.Trace.Requests = StageEnd, p.Trace.Demand.requests()
		return p
	}
	o := s.offerTo(pod.UID, OnItsWay)
	r := &resizing{old: old, was: s.Demand(&old.Pod), memory: o.usage, draft: draft{
		s: s, pod: pod, demand: &p.Trace.Demand, trace: &p.Trace, chooser: chooser{way: staying, grant: old}, offer: o,
	}}
	r.next = *old
	r.next.Pod, r.next.Resized, r.next.Containers = pod, min(s.generation+1, MaxGeneration), slices.Clone(old.Containers)
	if p.Rejection = r.decide(); p.Rejection != nil {
		r.explain(p.Rejection)
		return p
	}
	p.Trace.Stage = StageEnd
	p.Grant, p.Before = &r.next, old
	p.ledger = r.without(ledger{usage: r.memory, devices: r.devices, caches: r.caches})
	p.unassigned = s.unassigned.Union(old.CPUs()).Difference(r.next.CPUs()).Intersection(s.sharable())
	p.Delta.SharedAfter = s.sharedOf(p.unassigned)
	return p
}

// sameBut returns pod with the fields of old that no resize changes: the devices that others chose
// for it, whether it shares isolated CPUs, what it asks of the caches, and its notes, except for
// the consent to moves.
func sameBut(pod request.Pod, old *request.Pod) request.Pod {
	pod.Stock, pod.DevicesUnknown, pod.SharesIsolated = old.Stock, old.DevicesUnknown, old.SharesIsolated
	pod.PoolCache, pod.CacheUnclear = old.PoolCache, old.CacheUnclear
	pod.Priority, pod.Created, pod.ResourceClaims = old.Priority, old.Created, old.ResourceClaims
	pod.Containers = slices.Clone(pod.Containers)
	for i := range pod.Containers {
		pod.Containers[i].Claims, pod.Containers[i].Given = old.Containers[i].Claims, old.Containers[i].Given
		pod.Containers[i].Cache = old.Containers[i].Cache
	}
	return pod
}

// resizing is a draft of a resize. The state of the embedded draft does not change, so the account
// of a rejection shows the node as it is.
type resizing struct {
	draft
	old *Grant
	was Demand // of the old request
	// next is the grant so far: containers that were not processed yet have what they had. memory
	// is the memory accounting with next.
	next   Grant
	memory memory.Usage
	// places is the result of placed. It is nil as long as no class grows.
	places *cache.Layout
}

func (r *resizing) decide() *rejection.Rejection {
	if rejection := r.resizable(); rejection != nil {
		return rejection
	}
	if r.demand.Path == AsPool && (r.demand.Together.CPUs > 0 || len(r.demand.Together.Memory) > 0) {
		return r.resizePool()
	}
	if rejection := r.shrink(); rejection != nil {
		return rejection
	}
	all := make([]int, len(r.next.Containers))
	for i := range all {
		all[i] = i
	}
	if r.demand.Path == AsOne {
		return r.grow("", all, &r.demand.Together)
	}
	for i := range all {
		if rejection := r.grow(r.pod.Containers[i].Name, all[i:i+1], &r.demand.Containers[i].Ask); rejection != nil {
			return rejection
		}
	}
	return nil
}

// shrink takes from the containers what they do not need any more. It runs first, because other
// containers may grow into it.
func (r *resizing) shrink() *rejection.Rejection {
	for i := range r.next.Containers {
		c := &r.next.Containers[i]
		n, has, base := r.demand.Containers[i].CPUs, c.CPUs.Len(), r.old.BaselineOf(i)
		if has > 0 && n != has {
			if rejection := r.checkSize(r.pod.Containers[i].Name, n, base); rejection != nil {
				return rejection
			}
		}
		if has > 0 && n < has {
			c.CPUs = cpu.Keep(r.s.machine, r.s.policy.CPU, c.CPUs, base, n)
			c.Baseline = above(base, c.CPUs)
			r.updateClass(i)
		}
		if sizes, grows := r.sizes(i); !grows && len(c.Memory) > 0 {
			r.memory = r.memory.Release(c.Memory)
			c.Memory = blocksOn(sizes, c.Memory[0].Nodes)
			r.memory = r.memory.Charge(c.Memory, nil)
		}
	}
	return nil
}

// checkSize rejects a number of CPUs that a container or, if the name is empty, a pool cannot have.
func (r *resizing) checkSize(container string, n int, base cpuset.Set) *rejection.Rejection {
	r.trace.Stage = StageCPU
	if n < base.Len() {
		return r.rejectBelow(container, n, base)
	}
	if err := cpu.CheckFullCores(r.s.machine, r.s.policy.CPU, n, n); err != nil {
		return r.rejectCPU(container, n, err)
	}
	return nil
}

// sizes returns the bytes that container i has after the resize, and whether they grow for any
// type. If a standard init container has left memory to later ones, its own is reduced by that
// amount (R-MEM-41).
func (r *resizing) sizes(i int) (sizes request.Amounts, grows bool) {
	for _, b := range r.old.Containers[i].Memory {
		now, _ := r.demand.Containers[i].Memory.Get(b.Type)
		before, _ := r.was.Containers[i].Memory.Get(b.Type)
		grows = grows || now > before
		sizes = append(sizes, request.Amount{Resource: b.Type, Value: max(0, b.Size+now-before)})
	}
	return sizes, grows
}

func blocksOn(sizes request.Amounts, nodes mask.Mask) []memory.Block {
	blocks := make([]memory.Block, len(sizes))
	for k, a := range sizes {
		blocks[k] = memory.Block{Type: a.Resource, Size: a.Value, Nodes: nodes}
	}
	return blocks
}

// grow gives containers that are aligned together what they additionally ask for. It uses the NUMA
// nodes that they have if those have room for all of it. Otherwise it uses those that the policy
// allows (R-RSZ-11, R-RSZ-13).
func (r *resizing) grow(who string, unit []int, ask *Ask) *rejection.Rejection {
	grows := false
	var kept cpuset.Set
	for _, i := range unit {
		_, more := r.sizes(i)
		grows = grows || more || r.growsCPUs(i)
		kept = kept.Union(r.next.Containers[i].CPUs)
	}
	if !grows {
		return nil
	}
	containers, usage, caches := slices.Clone(r.next.Containers), r.memory, r.caches
	if r.take(unit, hint.Choice{}, true) == nil {
		return nil
	}
	copy(r.next.Containers, containers)
	r.memory, r.caches, r.trace.Cause = usage, caches, rejection.NoCause
	choice := hint.Choice{Mask: r.s.machine.NodeMask(), Admit: true}
	if r.demand.Path != Unaligned {
		for _, i := range unit {
			usage = usage.Release(containers[i].Memory)
		}
		free := r.freeFor(unit[0])
		if len(unit) > 1 {
			free = r.available().Union(r.released())
		}
		var rejection *rejection.Rejection
		if choice, rejection = r.align(who, unit, ask, free, kept, usage); rejection != nil {
			return rejection
		}
	}
	return r.take(unit, choice, false)
}

func (r *resizing) growsCPUs(i int) bool {
	has := r.next.Containers[i].CPUs
	return !has.IsEmpty() && r.demand.Containers[i].CPUs > has.Len()
}

// here returns the NUMA nodes that container i has: those of its CPUs and memory, and those that
// the Topology Manager chose for it.
func (r *resizing) here(i int) hint.Choice {
	c := &r.next.Containers[i]
	nodes := r.s.machine.NodesOf(c.CPUs) | nodesOf(c.Memory)
	if c.Affinity.HasMask && r.demand.Path != Unaligned && !c.Removed {
		nodes |= c.Affinity.Mask
	}
	return hint.Choice{Mask: nodes, HasMask: true}
}

// align asks the Topology Manager about sets of NUMA nodes that contain what the containers have
// already. usage is the memory accounting without their memory.
func (r *resizing) align(who string, unit []int, ask *Ask, free, kept cpuset.Set, usage memory.Usage) (hint.Choice, *rejection.Rejection) {
	hintSets := r.hintSets(&Ask{Given: ask.Given}, together)
	var has Grant
	within := mask.Mask(0)
	for _, i := range unit {
		has.Containers = append(has.Containers, ContainerGrant{Devices: r.old.Containers[i].Devices})
		within |= nodesOf(r.next.Containers[i].Memory)
	}
	within |= nodesOf(r.next.PoolMemory)
	for _, h := range has.Devices() {
		hintSets = append(hintSets, r.devices.Hints(h.Resource, int64(len(h.IDs)), h.IDs))
	}
	if parts, is := r.parts(together); is && who == "" {
		hints := func(free cpuset.Set) hint.Set {
			return cpu.HintsApart(r.s.machine, r.s.policy.CPU, free, kept, r.onlineParts(parts, kept))
		}
		hintSets = append(append(hintSets, hints(r.free())), r.cacheHints(unit, r.free(), hints)...)
	} else if offline := kept.Difference(r.s.machine.AllCPUs()).Len(); ask.CPUs > offline {
		hints := func(free cpuset.Set) hint.Set {
			return cpu.Hints(r.s.machine, r.s.policy.CPU, free.Difference(kept), kept, ask.CPUs-offline)
		}
		hintSets = append(append(hintSets, hints(free)), r.cacheHints(unit, free, hints)...)
	}
	if len(ask.Memory) > 0 {
		hintSets = append(hintSets, usage.HintsAround(ask.Memory, within))
	}
	return r.chooseNodes(who, ask, hintSets)
}

// take gives the containers what they additionally ask for. If stay is set, take uses only the NUMA
// nodes that each container has, and does not change Affinity and the NUMA nodes of memory.
func (r *resizing) take(unit []int, choice hint.Choice, stay bool) *rejection.Rejection {
	if !stay {
		for _, i := range unit {
			r.memory = r.memory.Release(r.next.Containers[i].Memory)
		}
	}
	for _, i := range unit {
		c := &r.next.Containers[i]
		if c.Removed {
			continue
		}
		if stay {
			choice = r.here(i)
		}
		if r.growsCPUs(i) {
			base := r.old.BaselineOf(i)
			n := r.demand.Containers[i].CPUs
			set, err := r.extend(c.CPUs, r.nearOwn(i, r.freeFor(i)), n, choice, stay)
			if err != nil {
				return r.rejectGrowth(r.pod.Containers[i].Name, n, err, stay)
			}
			c.CPUs, c.Baseline = set, above(base, set)
			if !r.growClass(i) {
				return r.rejectClass(i, stay)
			}
		}
		if !stay {
			c.Affinity = choice
		}
		if rejection := r.takeMemory(i, choice, stay); rejection != nil {
			return rejection
		}
	}
	return nil
}

// takeMemory places the memory of container i. Unless stay is set, that memory must not be charged
// yet.
func (r *resizing) takeMemory(i int, choice hint.Choice, stay bool) *rejection.Rejection {
	c := &r.next.Containers[i]
	sizes, grows := r.sizes(i)
	if len(c.Memory) == 0 || stay && !grows {
		return nil
	}
	r.trace.Stage = StageMemory
	name, within := r.pod.Containers[i].Name, c.Memory[0].Nodes
	if stay {
		r.memory = r.memory.Release(c.Memory)
	}
	nodes, rejection := r.place(name, sizes, choice, within, stay)
	if rejection != nil {
		return rejection
	}
	c.Memory, c.MemoryNodes = blocksOn(sizes, nodes), nodes
	r.memory = r.memory.Charge(c.Memory, nil)
	return nil
}

// elsewhere means that the NUMA nodes that a pod has are not enough. The caller then tries again
// without that limit.
var elsewhere = &rejection.Rejection{} //nolint:gochecknoglobals // a sentinel; nothing reads or changes it

func (r *resizing) rejectGrowth(container string, n int, err error, stay bool) *rejection.Rejection {
	if stay {
		return elsewhere
	}
	i := together
	if container != "" {
		_, i = r.pod.Container(container)
	}
	if rejected := r.rejectNear(i, n); rejected != nil {
		return rejected
	}
	return r.rejectCPU(container, n, err)
}

// place finds the NUMA nodes for memory of a container or, if the name is empty, of the pool.
func (r *resizing) place(container string, sizes request.Amounts, choice hint.Choice, within mask.Mask, stay bool) (mask.Mask, *rejection.Rejection) {
	if stay && r.memory.Fits(within, sizes) {
		return within, nil
	}
	if stay {
		return 0, elsewhere
	}
	nodes, err := r.memory.PlaceAround(sizes, choice, within)
	if err != nil {
		return 0, r.rejectMemory(container, err)
	}
	if r.s.policy.Strict() && choice.HasMask && !choice.Mask.Contains(nodes) {
		return 0, r.rejectOutside(container, sizes, choice.Mask, nodes)
	}
	return nodes, nil
}

// extend returns the set of n CPUs that a container or pool has after it has grown into free: first
// CPUs near those that it has, then on the NUMA nodes of the choice, and, if the policy is not
// strict, anywhere.
func (r *resizing) extend(have, free cpuset.Set, n int, choice hint.Choice, stay bool) (cpuset.Set, error) {
	m, o := r.s.machine, r.s.policy.CPU
	r.trace.Stage = StageCPU
	r.trace.Requests.CPU++
	tiers := []cpuset.Set{m.CPUsOf(m.NodesOf(have))}
	if choice.HasMask {
		tiers = append(tiers, cpu.Local(m, o, choice.Mask))
	}
	if !stay && (!choice.HasMask || !r.s.policy.Strict()) {
		tiers = append(tiers, m.AllCPUs())
	}
	if o.FullPCPUsOnly {
		free = cpu.WholeCores(m, free, have)
	}
	set := have
	for _, tier := range tiers {
		local := free.Intersection(tier).Difference(set)
		var err error
		if set, err = cpu.Extend(m, o, set, local, min(n, set.Len()+local.Len())); err != nil {
			return cpuset.Set{}, err
		}
	}
	switch {
	case set.Len() == n:
		return set, nil
	case o.FullPCPUsOnly:
		return cpuset.Set{}, cpu.CheckFullCores(m, o, set.Len(), n)
	}
	return cpuset.Set{}, &cpu.NotEnoughError{Requested: n - have.Len(), Available: set.Len() - have.Len()}
}

// freeFor returns the CPUs that container i could have: the free ones, and those of the pod that no
// container that runs at the same time has. The container's own CPUs are among them.
func (r *resizing) freeFor(i int) cpuset.Set {
	free := r.available().Union(r.released())
	var b cpuset.Builder
	b.AddSet(free)
	for k := range r.next.Containers {
		b.AddSet(r.next.Containers[k].CPUs)
	}
	return b.Set().Difference(r.taken(i)).Difference(r.s.withheld)
}

// released returns the CPUs that the pod had and that none of its containers has now.
func (r *resizing) released() cpuset.Set {
	return r.old.CPUs().Difference(r.next.CPUs()).Difference(r.s.policy.ReservedCPUs)
}

// taken returns the CPUs of other exclusive containers that run at the same time as container i. A
// standard init container has ended before the containers after it start.
func (r *resizing) taken(i int) cpuset.Set {
	var b cpuset.Builder
	for k := range r.next.Containers {
		if k != i && r.pod.Containers[k].Exclusive() && r.pod.Containers[min(i, k)].Type != request.Init {
			b.AddSet(r.next.Containers[k].CPUs)
		}
	}
	return b.Set()
}
