package explain

import (
	"cmp"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Missing describes what a pod lacks on each NUMA node, or on the node as a whole.
//
// It is about one question to the Topology Manager: the one that rejected the pod or, if the plan
// admits the pod, the first. Under scope pod that is the pod, under scope container the first
// container that found no place beside those before it. What is free is what this question found,
// so a resource is missing on a NUMA node exactly if the hint set of the resource needs more than
// the NUMA node offers.
//
// Places are NUMA nodes if the policy admits the question on a single one only: under
// single-numa-node, and under restricted if a resource fits on one NUMA node of an empty machine
// and option align-by-socket is off, because all resources must then agree on one. Otherwise, the
// only place is the node as a whole.
type Missing struct {
	// Container is the container of the question. It is empty if the question is about the pod.
	Container string `json:"container,omitempty"`
	// Whole is set if the only place is the node as a whole.
	Whole bool `json:"whole,omitempty"`
	// Wanted has what is asked for on a place, without what init containers leave.
	Wanted []Amount       `json:"wanted"`
	Places []MissingPlace `json:"places"`
	// WithoutCPUs has the NUMA nodes that are no places because CPUs are asked for, and they have
	// none.
	WithoutCPUs []int `json:"withoutCPUs,omitempty"`
}

// faults begins the ids of the faults of kubelets, as rejections have them in place of a rule.
const faults = "Q-"

// MissingPlace is a NUMA node, or the node as a whole.
type MissingPlace struct {
	// NUMANode is the id of the NUMA node. It is left out for the node as a whole.
	NUMANode *int `json:"numaNode,omitempty"`
	// Missing has how much of each resource is missing. An amount of a part of the caches is the
	// number of CPUs whose caches have too little room.
	Missing []Amount `json:"missing,omitempty"`
	// Barred is set if something keeps the pod away that is no amount, and Bars has what does.
	// There can be amounts that are missing as well.
	Barred bool  `json:"barred,omitempty"`
	Bars   []Bar `json:"bars,omitempty"`
}

// Bar is a reason that keeps a pod off a place and is no amount.
type Bar string

// The reasons.
const (
	// BarredByGroup is memory that belongs to another group of NUMA nodes (R-MEM-22).
	BarredByGroup Bar = "memoryGroup"
	// BarredByDevices is that devices were chosen for the pod that are near other NUMA nodes.
	BarredByDevices Bar = "chosenDevices"
	// BarredByCores is that the CPUs of a container are no whole number of cores (R-CPU-70).
	BarredByCores Bar = "partialCores"
	// BarredByPod is what the pod itself has: what init containers leave, or an empty pool.
	BarredByPod Bar = "pod"
)

// bar adds a reason.
func (p *MissingPlace) bar(why Bar) {
	p.Barred = true
	if !slices.Contains(p.Bars, why) {
		p.Bars = append(p.Bars, why)
	}
}

// Alone returns the resource that alone is missing.
func (p *MissingPlace) Alone() (Amount, bool) {
	if len(p.Missing) != 1 || p.Barred {
		return Amount{}, false
	}
	return p.Missing[0], true
}

// Lacks adds that an amount is missing. Of two amounts of a resource, the larger one counts.
func (p *MissingPlace) Lacks(a Amount) {
	i := slices.IndexFunc(p.Missing, func(b Amount) bool { return b.Resource == a.Resource })
	if i < 0 {
		at := slices.IndexFunc(p.Missing, func(b Amount) bool {
			return cmp.Or(cmp.Compare(rank(a.Resource), rank(b.Resource)), cmp.Compare(a.Resource, b.Resource)) < 0
		})
		if at < 0 {
			at = len(p.Missing)
		}
		p.Missing = slices.Insert(p.Missing, at, a)
		return
	}
	p.Missing[i].Value = max(p.Missing[i].Value, a.Value)
}

// MissingOf returns what is missing for a pod that was planned on s. It returns nil if the plan
// ended before the Topology Manager or, without one, before the CPU Manager was asked, and if the
// pod asks for nothing of its own. It also returns nil if smaller amounts are not the answer: if a
// fault of the kubelet rejected the pod, or if s counts what the pod itself has as taken.
func MissingOf(s *node.State, p *node.Plan) *Missing {
	if p.Known || p.Trace.Cause.Down() || p.Rejection != nil && strings.HasPrefix(p.Rejection.Rule, faults) {
		return nil
	}
	if _, counted := s.Grant(p.Pod.UID); counted {
		return nil
	}
	if p.Trace.Demand.Path == node.Unaligned {
		return missingUnaligned(s, p)
	}
	a := judged(p)
	if a == nil {
		return nil
	}
	out := &Missing{Container: a.Container, Wanted: wantedOf(p, a)}
	if len(out.Wanted) == 0 {
		return nil
	}
	places := []mask.Mask{s.Machine().NodeMask()}
	if out.Whole = !confined(s, a); !out.Whole {
		places, out.WithoutCPUs = numaNodesOf(s, out.Wanted)
	}
	for _, m := range places {
		place := MissingPlace{}
		if !out.Whole {
			id := m.Lowest()
			place.NUMANode = &id
		}
		for i := range a.HintSets {
			place.judge(s, a, i, m)
		}
		place.settle(s, p, a)
		out.Places = append(out.Places, place)
	}
	return out
}

// judged returns the alignment that is judged.
func judged(p *node.Plan) *node.Alignment {
	all := p.Trace.Alignments
	if p.Rejection != nil && len(all) > 0 {
		return &all[len(all)-1]
	}
	at := slices.IndexFunc(all, func(a node.Alignment) bool { return len(a.HintSets) > 0 })
	if at < 0 {
		return nil
	}
	return &all[at]
}

// wantedOf returns what an alignment asks for.
func wantedOf(p *node.Plan, a *node.Alignment) []Amount {
	ask := &p.Trace.Demand.Together
	if _, i := p.Pod.Container(a.Container); a.Container != "" && i >= 0 {
		ask = &p.Trace.Demand.Containers[i].Ask
	}
	return amountsOf(ask)
}

func amountsOf(ask *node.Ask) []Amount {
	var out []Amount
	if ask.CPUs > 0 {
		out = append(out, Amount{request.CPU, int64(ask.CPUs)})
	}
	for _, list := range []request.Amounts{ask.Memory, ask.Devices} {
		for _, a := range list {
			if a.Value > 0 {
				out = append(out, Amount(a))
			}
		}
	}
	for _, g := range ask.Given {
		out = append(out, Amount{g.Of, int64(len(g.Devices))})
	}
	for _, r := range []request.Resource{request.L3, request.Bandwidth} {
		if n := ask.Cache.Amount(r); n > 0 {
			out = append(out, Amount{r, n})
		}
	}
	return out
}

// numaNodesOf returns the NUMA nodes that count: those with CPUs, if CPUs are asked for. without
// has the others.
func numaNodesOf(s *node.State, wanted []Amount) (count []mask.Mask, without []int) {
	for _, n := range s.Machine().Nodes() {
		if wanted[0].Resource == request.CPU && n.CPUs.IsEmpty() {
			without = append(without, n.ID)
			continue
		}
		count = append(count, mask.Of(n.ID))
	}
	return count, without
}

// confined reports whether the policy admits an alignment on a single NUMA node only.
func confined(s *node.State, a *node.Alignment) bool {
	switch policy := s.Policy(); policy.Topology {
	case node.TopologySingleNUMANode:
		return true
	case node.TopologyRestricted:
		return !policy.CPU.AlignBySocket && slices.ContainsFunc(a.HintSets, func(f hint.Set) bool { return fitsOnOne(s, &f) })
	case node.TopologyNone, node.TopologyBestEffort:
	}
	return false
}

// fitsOnOne reports whether one NUMA node of an empty machine could have what a hint set needs, so
// that only hints of one NUMA node are preferred (R-HINT-26, R-HINT-32, R-HINT-43).
func fitsOnOne(s *node.State, f *hint.Set) bool {
	if f.Preferred > 0 || len(f.Needs) == 0 {
		return f.Preferred == 1
	}
	need := &f.Needs[0] // of CPUs or devices that are too few on all NUMA nodes together
	if need.Resource != request.CPU {
		return slices.ContainsFunc(s.Devices().Counts(need.Resource), func(c device.Count) bool { return int64(c.Total) >= need.Amount })
	}
	for _, n := range s.Machine().CPUNodes() {
		size := n.Size
		if s.Policy().CPU.Isolated == cpu.IsolatedOnly {
			size = s.Machine().Isolation().Isolated.IntersectionLen(n.CPUs)
		}
		if int64(size) >= need.Amount {
			return true
		}
	}
	return false
}

// judge adds what the i-th hint set of an alignment lacks on m.
func (p *MissingPlace) judge(s *node.State, a *node.Alignment, i int, m mask.Mask) {
	f := &a.HintSets[i]
	// The node as a whole has what fits on some of its NUMA nodes. There need not be a hint for all
	// of them: memory groups that are apart have none together (R-MEM-22).
	whole := p.NUMANode == nil
	if f.Kind == hint.Fits && (whole && !f.IsEmpty() || f.Has(m)) || f.Kind == hint.Any && len(f.Needs) == 0 {
		return
	}
	if i < len(a.Given) { // Other devices cannot take their place.
		p.bar(BarredByDevices)
		return
	}
	short := false
	for k := range f.Needs {
		n := &f.Needs[k]
		have := n.Offered(m)
		switch {
		case have >= n.Amount:
		case k > 0 && n.Resource == request.CPU: // CPUs of the other part of a pool: fewer may not help.
		case request.IsCache(f.Resource) && have >= cpusOn(a, m): // CPUs are missing, not room in their caches.
			short = true
		case request.IsCache(f.Resource):
			short = true
			p.Lacks(Amount{f.Resource, n.Amount - have})
		default:
			short = true
			p.Lacks(Amount{n.Resource, n.Amount - have})
		}
	}
	if f.Kind == hint.None && len(f.Needs) == 0 && request.IsMemory(f.Resource) && s.Machine().MemoryType(f.Resource) < 0 {
		p.Lacks(Amount{f.Resource, 0})
		return
	}
	switch memory := request.IsMemory(f.Resource); {
	case memory && grouped(s, m):
		p.bar(BarredByGroup)
	case !m.Contains(f.Required):
		p.bar(BarredByPod)
	case !short && memory && (f.Kind != hint.None || len(f.Needs) > 0): // Enough is free, but in another group.
		p.bar(BarredByGroup)
	case !short:
		p.bar(BarredByPod)
	}
}

// grouped reports whether a NUMA node of m gives memory only together with others (R-MEM-22).
func grouped(s *node.State, m mask.Mask) bool {
	groups, _ := s.Memory().Serving(m)
	return slices.ContainsFunc(groups, func(g mask.Mask) bool { return !m.Contains(g) })
}

// cpusOn returns how many CPUs the hint set of CPUs offers on m.
func cpusOn(a *node.Alignment, m mask.Mask) int64 {
	for i := range a.HintSets {
		if f := &a.HintSets[i]; f.Resource == request.CPU && len(f.Needs) > 0 {
			return f.Needs[0].Offered(m)
		}
	}
	return 0
}

// settle completes a place with the amounts of resources that the machine does not have, and with
// what the CPU Manager rejects after the alignment.
func (p *MissingPlace) settle(s *node.State, plan *node.Plan, a *node.Alignment) {
	for i := range p.Missing {
		if m := &p.Missing[i]; m.Value == 0 {
			at := slices.IndexFunc(wantedOf(plan, a), func(w Amount) bool { return w.Resource == m.Resource })
			m.Value = wantedOf(plan, a)[max(0, at)].Value
		}
	}
	if s.Policy().CPU.FullPCPUsOnly {
		core, physical := max(1, s.Machine().CPUsPerCore()), s.PhysicalCPUs().Len()
		for _, n := range coresOf(plan, a) {
			if n%core != 0 {
				p.bar(BarredByCores)
			}
			if n > physical { // Threads are free whose cores are not (R-CPU-71).
				p.Lacks(Amount{request.CPU, int64(n - physical)})
			}
		}
	}
}

// coresOf returns the numbers of CPUs that an alignment asks for, each of which must be whole cores
// under full-pcpus-only.
func coresOf(p *node.Plan, a *node.Alignment) []int {
	d := &p.Trace.Demand
	if d.Path == node.AsPool {
		return []int{d.Together.CPUs}
	}
	var all []int
	for i := range d.Containers {
		if a.Container == "" || p.Pod.Containers[i].Name == a.Container {
			all = append(all, d.Containers[i].CPUs)
		}
	}
	return all
}

// rank orders resources for people: CPUs, memory, huge pages, and everything else.
func rank(resource string) int {
	switch {
	case resource == request.CPU:
		return 0
	case resource == request.Memory:
		return 1
	case request.IsMemory(resource):
		return 2
	}
	return 3
}

// missingUnaligned returns what is missing on the node as a whole where nothing is aligned.
func missingUnaligned(s *node.State, p *node.Plan) *Missing {
	var ask node.Ask
	for i := range p.Trace.Demand.Containers {
		if p.Pod.Containers[i].Type != request.Init {
			ask = ask.Plus(&p.Trace.Demand.Containers[i].Ask)
		}
	}
	out := &Missing{Whole: true, Wanted: amountsOf(&ask)}
	if len(out.Wanted) == 0 || p.Rejection != nil && p.Trace.Stage < node.StageDevices {
		return nil
	}
	place := MissingPlace{}
	for _, w := range out.Wanted {
		var free int64
		switch {
		case w.Resource == request.CPU:
			free = int64(s.AvailableCPUs().Len())
		case request.IsMemory(w.Resource):
			free = s.Memory().Free(s.Machine().NodeMask(), w.Resource)
		case request.IsCache(w.Resource):
			continue
		default:
			free = int64(len(s.Devices().Free(w.Resource)))
		}
		if free < w.Value {
			place.Lacks(Amount{w.Resource, w.Value - free})
		}
	}
	place.settle(s, p, &node.Alignment{})
	out.Places = []MissingPlace{place}
	return out
}
