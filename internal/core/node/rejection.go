package node

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

// reject records the cause, and sets the reason and the rule of the rejection.
func (d *draft) reject(c rejection.Cause, r *rejection.Rejection) *rejection.Rejection {
	d.trace.Cause = c
	r.Reason, r.Rule = c.Names(r.Resource, d.s.policy.Topology == TopologySingleNUMANode)
	if d.s.policy.Behavior.MemoryNowhere && d.trace.Stage == StageMemory && r.Reason == rejection.TopologyAffinityError {
		r.Reason = rejection.UnexpectedAdmissionError
	}
	return r
}

// rejectDivision rejects a pod-level pod whose pool cannot be divided.
func (d *draft) rejectDivision(v *Division, cause rejection.Cause) *rejection.Rejection {
	if d.way == asking {
		return d.reject(cause, &rejection.Rejection{Resource: v.Resource, Wanted: v.Budget})
	}
	help := ": raise the pod-level request, or give every container its own cpu and memory limits"
	if v.Fault == rejection.PoolOverdrawn {
		help = ": the API server rejects such a pod"
	} else if v.InParts {
		help += fmt.Sprintf(", or let it share isolated CPUs (annotation %s: %s)", request.SharedPoolAnnotation, request.SharedPoolIsolated)
	}
	return d.reject(cause, &rejection.Rejection{Resource: v.Resource, Wanted: v.Budget, Detail: v.Wrong() + help})
}

// textOf returns the text of an error for a rejection. A verdict has none.
func (d *draft) textOf(err error) string {
	if d.way == asking {
		return ""
	}
	return err.Error()
}

// rejectCPU returns a rejection for an error of package cpu.
func (d *draft) rejectCPU(container string, n int, err error) *rejection.Rejection {
	cause := rejection.TooFewCPUs
	var smt *cpu.SMTAlignmentError
	switch {
	case errors.Is(err, cpu.ErrEndless):
		cause = rejection.KubeletHangs
	case !errors.As(err, &smt):
	case smt.Scarce:
		cause = rejection.TooFewCores
	default:
		cause = rejection.PartialCores
	}
	r := &rejection.Rejection{Container: container, Resource: request.CPU, Wanted: int64(n), Detail: d.textOf(err)}
	if d.s.policy.CPU.Isolated == cpu.IsolatedOnly && cause != rejection.PartialCores {
		r.Detail += "; only isolated CPUs become exclusive on this node"
	}
	if cause != rejection.PartialCores { // Which CPUs are free does not matter then.
		r.Nodes = d.account(request.CPU)
	}
	return d.reject(cause, r)
}

// rejectMemory returns a rejection for a *memory.PlacementError. The reference reports
// UnexpectedAdmissionError. Paddock treats it as a failed alignment like any other.
func (d *draft) rejectMemory(container string, err error) *rejection.Rejection {
	cause, r := rejection.MemoryNotThere, &rejection.Rejection{Container: container, Detail: d.textOf(err)}
	var short *memory.PlacementError
	if errors.As(err, &short) {
		r.Resource, r.Wanted = short.Type, short.Wanted
		switch short.Cause {
		case memory.NoSuchType:
			cause = rejection.NoMemoryType
			if d.s.policy.Behavior.PanicsAtUnknownPages {
				d.met(FaultPanicsAtUnknownPages, container)
				cause = rejection.KubeletPanics
			}
		case memory.NoRoom:
			cause = rejection.NoMemoryRoom
		case memory.GroupConflict:
			cause = rejection.MemoryGroups
		case memory.NoExtension, memory.NotPreferred:
		}
		r.Nodes = d.account(short.Type)
	}
	return d.reject(cause, r)
}

// rejectApart rejects a pod whose containers request memory that fits no set of NUMA nodes together
// . It names the first type that fits nowhere by itself, or all types.
func (d *draft) rejectApart(want request.Amounts) *rejection.Rejection {
	short := want
	for _, a := range want {
		if d.usage.Hints(request.Amounts{a}, nil).Kind == hint.Any {
			short = request.Amounts{a}
			break
		}
	}
	if d.way == asking {
		return d.reject(rejection.MemoryNotTogether, &rejection.Rejection{Resource: short[0].Resource, Wanted: short[0].Value})
	}
	texts := make([]string, len(short))
	for i, a := range short {
		texts[i] = request.Words(a.Resource, a.Value)
	}
	who := ""
	if len(d.pod.Containers) > 1 {
		who = " by the containers together"
	}
	set, size := "no set of NUMA nodes", len(d.s.machine.Nodes())
	if d.s.policy.Topology == TopologySingleNUMANode {
		set, size = "no single NUMA node", 1 // The pod may not use a larger set, whether one has as much or not.
	}
	return d.reject(rejection.MemoryNotTogether, &rejection.Rejection{
		Resource: short[0].Resource, Wanted: short[0].Value,
		Detail: fmt.Sprintf("%s wanted%s, and %s has that much free", strings.Join(texts, " and "), who, set) + d.groupsText(size),
		Nodes:  d.account(short[0].Resource),
	})
}

// rejectOutside rejects a container whose memory would be on more than the aligned NUMA nodes
//
func (d *draft) rejectOutside(container string, want request.Amounts, aligned, nodes mask.Mask) *rejection.Rejection {
	short := want[0]
	for _, a := range want {
		if d.usage.Free(aligned, a.Resource) < a.Value {
			short = a
			break
		}
	}
	d.trace.Stage = StageTopology // The memory manager would accept it.
	if d.way == asking {
		return d.reject(rejection.MemoryOutside, &rejection.Rejection{Resource: short.Resource, Wanted: short.Value})
	}
	return d.reject(rejection.MemoryOutside, &rejection.Rejection{
		Container: container, Resource: short.Resource, Wanted: short.Value,
		Detail: fmt.Sprintf("%s wanted, %s free on %s, where the rest of it is aligned; it would fit on %s",
			request.Words(short.Resource, short.Value), request.Bytes(d.usage.Free(aligned, short.Resource)), aligned.Text(), nodes.Text()),
		Nodes: d.account(short.Resource),
	})
}

// rejectAlignment rejects a pod that cannot be aligned. It names the first resource without a
// preferred mask or, if each resource has one, explains that they have none in common.
func (d *draft) rejectAlignment(a *Alignment) *rejection.Rejection {
	r := &rejection.Rejection{Container: a.Container}
	if a.Outcome == OutOfSteps {
		r.Detail = a.Choice.Why
		return d.reject(rejection.SearchLimit, r)
	}
	if m := misfit(d.s, &d.pod, d.demand, a); m != nil {
		if r.Misfit = m; d.way != asking {
			r.Detail = m.String()
		}
		if len(m.Short) == 0 {
			r.Resource = a.Given[0].Of
			return d.reject(rejection.GivenApart, r)
		}
		r.Resource, r.Wanted = m.Short[0].Resource, m.Short[0].Wanted
		r.Nodes = d.account(r.Resource)
		return d.reject(rejection.GivenElsewhere, r)
	}
	for _, f := range a.HintSets {
		if f.Kind != hint.None {
			continue
		}
		for i := range d.trace.Divisions {
			if v := &d.trace.Divisions[i]; v.Resource == f.Resource && v.Fault == rejection.PoolEmpty {
				return d.rejectDivision(v, rejection.PoolNotAligned)
			}
		}
		if request.IsCache(f.Resource) {
			return d.rejectCacheAlignment(a.Container, f)
		}
		r.Resource, r.Wanted, r.Detail = f.Resource, d.wanted(a.Container, f.Resource), f.Why
		r.Nodes = d.account(f.Resource)
		return d.reject(rejection.NotAligned, r)
	}
	var fitting []hint.Set
	most := 0
	for _, f := range a.HintSets {
		if f.Kind != hint.Fits {
			continue
		}
		alone := hint.Merge([]hint.Set{f}, hint.Rules{Policy: d.s.policy.Topology.hintPolicy(), Nodes: d.s.machine.NodeMask()})
		if !alone.Preferred {
			return d.rejectUnaligned(r, f)
		}
		// The account is of the resource that needs the most NUMA nodes, and otherwise of the last.
		if len(fitting) == 0 || f.Preferred >= most {
			most = f.Preferred
			r.Resource, r.Wanted = f.Resource, d.wanted(a.Container, f.Resource)
		}
		fitting = append(fitting, f)
	}
	if d.way == asking {
		return d.reject(rejection.NotAligned, r)
	}
	r.Detail = d.disagreement(a.Container, fitting)
	r.Nodes = d.account(r.Resource)
	return d.reject(rejection.NotAligned, r)
}

// disagreement explains why hint sets that can each be aligned cannot be aligned together. Either
// the fewest NUMA nodes of their resources differ in number, which restricted rejects, or no set of
// so many NUMA nodes has room for all of them.
func (d *draft) disagreement(container string, fitting []hint.Set) string {
	amounts := map[int][]string{}
	for _, f := range fitting {
		amounts[f.Preferred] = append(amounts[f.Preferred], d.wantedWords(container, f.Resource))
	}
	sizes := slices.Sorted(maps.Keys(amounts))
	if size := sizes[0]; len(sizes) == 1 {
		room := "no single NUMA node has"
		if size > 1 {
			room = fmt.Sprintf("no %s together have", mask.Count(size))
		}
		return fmt.Sprintf("%s would each fit on %s, but %s room for all of it", listText(amounts[size]), mask.Count(size), room)
	}
	parts := make([]string, len(sizes))
	for i, size := range sizes {
		parts[i] = fmt.Sprintf("%s only on %d", listText(amounts[size]), size)
	}
	return fmt.Sprintf("%s would fit on %s, but %s: %s rejects a pod whose resources need different numbers of NUMA nodes",
		listText(amounts[sizes[0]]), mask.Count(sizes[0]), listText(parts[1:]), d.s.policy.Topology)
}

// listText joins words as a sentence does: "a", "a and b" or "a, b and c".
func listText(words []string) string {
	if n := len(words) - 1; n > 0 {
		return strings.Join(words[:n], ", ") + " and " + words[n]
	}
	return words[0]
}

// reservedText returns the end of a sentence about n CPUs that fit on no NUMA node: that the
// reserved CPUs are the reason, if an empty NUMA node had room without them, and with them none.
func (d *draft) reservedText(n int64) string {
	most := 0
	for _, unit := range d.s.machine.CPUNodes() {
		if int64(d.s.AllocatableCPUs().IntersectionLen(unit.CPUs)) >= n {
			return ""
		}
		most = max(most, unit.CPUs.Len())
	}
	switch {
	case int64(most) < n:
		return ""
	case d.s.policy.CPU.Isolated == cpu.IsolatedOnly:
		return fmt.Sprintf(", because only CPUs %s are isolated", d.s.AllocatableCPUs())
	case d.s.policy.ReservedCPUs.IsEmpty():
		return ""
	}
	return fmt.Sprintf(", because CPUs %s are reserved for the system", d.s.policy.ReservedCPUs)
}

func (d *draft) rejectUnaligned(r *rejection.Rejection, f hint.Set) *rejection.Rejection {
	if request.IsCache(f.Resource) {
		return d.rejectCacheAlignment(r.Container, f)
	}
	size := f.Preferred
	if d.s.policy.Topology == TopologySingleNUMANode {
		size = 1
	}
	short := scarce(f, size)
	if r.Resource = f.Resource; !slices.Contains(short, f.Resource) {
		r.Resource = short[0]
	}
	r.Wanted = d.wanted(r.Container, r.Resource)
	if d.way == asking {
		return d.reject(rejection.NotAligned, r)
	}
	words := make([]string, len(short))
	for i, n := range short {
		words[i] = d.wantedWords(r.Container, n)
	}
	r.Nodes = d.account(r.Resource)
	nodes := "single NUMA node has"
	if size > 1 {
		nodes = fmt.Sprintf("%d NUMA nodes together have", size)
	}
	r.Detail = fmt.Sprintf("%s wanted, but no %s that much free", listText(words), nodes)
	switch {
	case f.Required.IsEmpty():
	case d.way == staying:
		r.Detail += fmt.Sprintf(", %s included, where the pod has what it keeps", f.Required.Text())
	default:
		r.Detail += fmt.Sprintf(" beside the init containers' CPUs on %s, which are to be reused", f.Required.Text())
	}
	if _, inParts := d.parts(together); r.Resource == request.CPU && size == 1 && !inParts {
		r.Detail += d.reservedText(r.Wanted)
	}
	r.Detail += d.partsText(r.Resource)
	if request.IsMemory(f.Resource) {
		r.Detail += d.groupsText(size)
	}
	return d.reject(rejection.NotAligned, r)
}

// scarce returns the first resource of a hint set of which no size NUMA nodes together have as much
// as it needs. If there is none, it returns all of the set: each would fit alone.
func scarce(f hint.Set, size int) []request.Resource {
	all := make([]request.Resource, 0, len(f.Needs))
	for _, n := range f.Needs {
		most := make([]int, len(n.Offer))
		for id := range most {
			most[id] = id
		}
		slices.SortFunc(most, func(a, b int) int { return cmp.Compare(n.Offer[b], n.Offer[a]) })
		if n.Offered(mask.Of(most[:min(size, len(most))]...)) < n.Amount {
			return []request.Resource{n.Resource}
		}
		all = append(all, n.Resource)
	}
	if all = slices.Compact(all); len(all) == 0 { // A pool of CPUs in parts needs them twice.
		all = append(all, f.Resource)
	}
	return all
}

// groupsText names the NUMA nodes that the rule of groups excludes from a request for size NUMA
// nodes (R-MEM-22).
func (d *draft) groupsText(size int) string {
	groups, single := d.usage.Serving(d.s.machine.NodeMask())
	var text string
	if len(groups) > 0 {
		names := make([]string, len(groups))
		for i, g := range groups {
			names[i] = g.Words()
		}
		text = fmt.Sprintf("; %s form one group of memory, which a request can use only as a whole", strings.Join(names, " and "))
	}
	if size > 1 && !single.IsEmpty() {
		serve := "serve"
		if single.Len() == 1 {
			serve = "serves"
		}
		text += fmt.Sprintf("; %s %s only pods whose memory is on one NUMA node", single.Words(), serve)
	}
	return text
}

// wanted returns how much of a resource the container or, if the name is empty, the pod asks for.
func (d *draft) wanted(container string, resource request.Resource) int64 {
	return d.demand.wanted(&d.pod, container, resource)
}

func (d *Demand) wanted(pod *request.Pod, container string, resource request.Resource) int64 {
	if _, i := pod.Container(container); i >= 0 {
		return d.Containers[i].Amount(resource)
	}
	return d.Together.Amount(resource)
}
