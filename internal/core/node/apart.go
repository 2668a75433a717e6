package node

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/layout"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

// apart reports whether the containers that share the pool of a pod must not run on isolated CPUs
// (R-CPU-135, R-CPU-136): the kernel does not balance load there, so their tasks would all run on
// the CPU on which they were started.
func (s *State) apart(pod *request.Pod) bool { return !s.isolated.IsEmpty() && !pod.SharesIsolated }

// divideApart divides a pool of CPUs in two parts, if any container shares it: one for the
// exclusive containers, and one without isolated CPUs for the others. With cpu.IsolatedOnly, the
// first part has what exclusive containers need at the moment of the highest demand, because none
// of it can be of the other part. With cpu.IsolatedFirst, only what runs until the pod ends counts:
// an exclusive init container can use CPUs that are shared later. With full-pcpus-only, the first
// part is a whole number of cores.
func (s *State) divideApart(v *Division, claims []layout.Claim) {
	shares := func(p layout.Piece) bool { return p.Part != layout.Slice }
	if v.Overdrawn || v.Empty != layout.NotEmpty || !slices.ContainsFunc(v.Pieces, shares) {
		return
	}
	exclusive := v.Budget - v.Rest
	if s.policy.CPU.Isolated == cpu.IsolatedOnly {
		exclusive = layout.Budget(claims)
	}
	if core := int64(max(1, s.machine.CPUsPerCore())); s.policy.CPU.FullPCPUsOnly {
		exclusive = (exclusive + core - 1) / core * core
	}
	v.InParts, v.Exclusive = true, min(exclusive, v.Budget)
	v.Layout = v.Apart(v.Exclusive, claims)
}

// parts returns the parts of the pool that is being planned. It returns false for a container, and
// for a pool that is not in parts.
func (d *draft) parts(of int) (cpu.Parts, bool) {
	if of != together || len(d.trace.Divisions) == 0 || !d.trace.Divisions[0].InParts {
		return cpu.Parts{}, false
	}
	return d.trace.Divisions[0].parts(), true
}

func (v *Division) parts() cpu.Parts {
	return cpu.Parts{Exclusive: int(v.Exclusive), Shared: int(v.Budget - v.Exclusive)}
}

// sharedPart returns what containers share of what is left of a pool.
func (s *State) sharedPart(v *Division, left cpuset.Set) cpuset.Set {
	if v.InParts {
		return left.Difference(s.isolated)
	}
	return left
}

// choosePool chooses the CPUs of a pool. Of a pool in parts, the shared part is chosen first,
// because only some CPUs serve for it.
func (d *draft) choosePool(v *Division, choice hint.Choice) (cpuset.Set, *rejection.Rejection) {
	if !v.InParts {
		return d.chooseCPUs(together, int(v.Budget), choice)
	}
	n, parts := int(v.Budget), v.parts()
	physical := n
	if d.way != handed {
		physical = d.unassigned.Difference(cpu.PhysicalOf(d.s.machine, d.s.policy.ReservedCPUs)).Len()
	}
	if err := cpu.CheckFullCores(d.s.machine, d.s.policy.CPU, physical, n); err != nil {
		return cpuset.Set{}, d.rejectCPU("", n, err)
	}
	if d.way == handed {
		set, rejection := d.handedCPUs(together, n, d.free(), choice)
		if rejection != nil {
			return set, rejection
		}
		others := set.Difference(d.s.isolated).Len()
		if others < parts.Shared || others > parts.Shared && d.s.policy.CPU.Isolated == cpu.IsolatedOnly {
			return set, d.misplaced(MisplacedCPUs, "the pool has %d CPUs that are not isolated, and the rules give %d", others, parts.Shared)
		}
		d.unassigned = d.unassigned.Difference(set)
		return set, nil
	}
	set, err := d.chooseFree(func(o cpu.Options) (cpuset.Set, error) {
		alike := o
		alike.Isolated = cpu.IsolatedAlike
		near := d.nearCaches(together, d.free())
		shared, err := cpu.Allocate(d.s.machine, alike, near.Difference(d.s.isolated), choice.Mask, choice.HasMask, parts.Shared)
		if err != nil {
			return shared, err
		}
		first, err := cpu.Allocate(d.s.machine, o, near.Intersection(d.available()).Difference(shared), choice.Mask, choice.HasMask, parts.Exclusive)
		return shared.Union(first), err
	})
	if err != nil {
		return cpuset.Set{}, d.rejectCPU("", n, err)
	}
	d.unassigned = d.unassigned.Difference(set)
	return set, nil
}

// takeSlice picks the slice of a container from what is left of a pool in parts: isolated CPUs
// first. Slices need not be whole cores (R-CPU-73).
func (s *State) takeSlice(left cpuset.Set, n int) (cpuset.Set, error) {
	o := s.policy.CPU
	o.Isolated = cpu.IsolatedAlike
	isolated := left.Intersection(s.isolated)
	first, err := cpu.Take(s.machine, o, isolated, min(n, isolated.Len()))
	if err != nil || first.Len() == n {
		return first, err
	}
	rest, err := cpu.Take(s.machine, o, left.Difference(isolated), n-first.Len())
	return first.Union(rest), err
}

// isolatedFirst asks the Topology Manager with cpu.IsolatedFirst about the NUMA nodes that have
// enough isolated CPUs (R-CPU-134). It returns nil if no preferred set of them has enough of
// everything, and without the option.
func (d *draft) isolatedFirst(hintSets []hint.Set, rules hint.Rules) ([]hint.Set, hint.Choice) {
	if d.s.policy.CPU.Isolated != cpu.IsolatedFirst || d.s.isolated.IsEmpty() {
		return nil, hint.Choice{}
	}
	at := slices.IndexFunc(hintSets, func(s hint.Set) bool { return s.Resource == request.CPU && s.Kind == hint.Fits })
	if at < 0 {
		return nil, hint.Choice{}
	}
	set := hintSets[at]
	need := hint.Need{Resource: request.CPU, Which: "isolated", Amount: set.Needs[0].Amount, Offer: make([]int64, len(set.Needs[0].Offer))}
	if len(set.Needs) > 1 { // a pool in parts
		need.Amount -= set.Needs[1].Amount
	}
	if need.Amount <= 0 {
		return nil, hint.Choice{}
	}
	isolated := d.available().Intersection(d.s.isolated)
	if d.s.policy.CPU.FullPCPUsOnly {
		isolated = cpu.WholeCores(d.s.machine, isolated, cpuset.Set{})
	}
	for _, n := range d.s.machine.CPUNodes() {
		need.Offer[n.ID] = int64(isolated.IntersectionLen(n.CPUs))
	}
	set.Needs = append(slices.Clone(set.Needs), need)
	narrow := slices.Clone(hintSets)
	narrow[at] = set
	if choice := hint.Merge(narrow, rules); choice.Admit && choice.Preferred && choice.HasMask {
		return narrow, choice
	}
	return nil, hint.Choice{}
}

// wantedWords returns how much of a resource the container or, if the name is empty, the pod asks
// for, in words that name isolated CPUs.
func (d *draft) wantedWords(container string, resource request.Resource) string {
	n := d.wanted(container, resource)
	if resource != request.CPU || d.s.isolated.IsEmpty() {
		return request.Words(resource, n)
	}
	if parts, is := d.parts(together); is && container == "" {
		return parts.Words(d.s.policy.CPU)
	}
	if d.s.policy.CPU.Isolated == cpu.IsolatedOnly {
		return strings.Replace(request.Words(resource, n), " ", " isolated ", 1)
	}
	return request.Words(resource, n)
}

// partsText lists the free CPUs of each NUMA node for a pool in parts: how many are isolated, and
// how many are not. The account of a rejection has both together.
func (d *draft) partsText(resource request.Resource) string {
	if _, is := d.parts(together); !is || resource != request.CPU {
		return ""
	}
	free := d.free()
	nodes := d.s.machine.CPUNodes()
	texts := make([]string, 0, fewNodes)
	for _, n := range nodes[:min(fewNodes, len(nodes))] {
		here := free.Intersection(n.CPUs)
		isolated := here.IntersectionLen(d.s.isolated)
		texts = append(texts, fmt.Sprintf("%d isolated and %d others on NUMA node %d", isolated, here.Len()-isolated, n.ID))
	}
	if more := len(nodes) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("others on %d more NUMA nodes", more))
	}
	return "; free are " + strings.Join(texts, ", ")
}

// fewNodes is the number of NUMA nodes that a sentence lists.
const fewNodes = 4

// reportIsolation reports CPUs of a grant that no pod would get now, because they are isolated and
// shared, or exclusive and not isolated.
func (s *State) reportIsolation(g *Grant, report func(what string)) {
	var alone, shared cpuset.Builder
	for i := range g.Containers {
		if g.Isolation(i) == ContainerIsolation {
			alone.AddSet(g.Containers[i].CPUs)
		} else {
			shared.AddSet(g.Containers[i].CPUs)
		}
	}
	online := s.machine.AllCPUs()
	if others := alone.Set().Intersection(online).Difference(s.isolated); s.policy.CPU.Isolated == cpu.IsolatedOnly && !others.IsEmpty() {
		report(fmt.Sprintf("CPUs %s are exclusive and not isolated, and isolated-cpus is %s now", others, s.policy.CPU.Isolated))
	}
	if isolated := shared.Set().Intersection(s.isolated); s.apart(&g.Pod) && !isolated.IsEmpty() {
		report(fmt.Sprintf("CPUs %s are isolated, and containers of the pod share them: the kernel does not balance load there", isolated))
	}
}
