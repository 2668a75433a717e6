package node

import (
	"slices"
	"strconv"

	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Misfit returns why an alignment of a plan with given devices is not preferred. It returns nil if
// the alignment is preferred, or if the devices are not the reason. s is the state that made the
// plan. If a plan was rejected for that reason, its Rejection has the Misfit.
func (s *State) Misfit(p *Plan, a *Alignment) *rejection.Misfit {
	return misfit(s, &p.Pod, &p.Trace.Demand, a)
}

func misfit(s *State, pod *request.Pod, demand *Demand, a *Alignment) *rejection.Misfit {
	if len(a.Given) == 0 || a.Outcome != NotPreferred {
		return nil
	}
	rules := hint.Rules{Policy: s.policy.Topology.hintPolicy(), Nodes: s.machine.NodeMask()}
	preferred := func(sets ...hint.Set) bool { return hint.Merge(sets, rules).Preferred }
	given, others := a.HintSets[:len(a.Given)], a.HintSets[len(a.Given):]
	m := &rejection.Misfit{}
	for _, g := range a.Given {
		for _, x := range g.Devices {
			if nodes := x.Nodes & rules.Nodes; !nodes.IsEmpty() {
				m.Devices = append(m.Devices, *x)
				m.Nodes |= nodes
			}
		}
	}
	if len(m.Devices) == 0 {
		return nil
	}
	if !preferred(given...) {
		m.Final = true
		return m
	}
	wanted := func(resource request.Resource) int64 { return demand.wanted(pod, a.Container, resource) }
	for i := range others {
		f := &others[i]
		switch {
		case f.Kind != hint.Fits:
		case !preferred(*f):
			if !addShortages(m, s, f, wanted) {
				return nil
			}
		case !preferred(append(slices.Clone(given), *f)...) && !addShortages(m, s, f, wanted):
			n := wanted(f.Resource)
			m.Short = append(m.Short, rejection.Shortage{Resource: f.Resource, Wanted: n, Free: n, Preferred: f.Preferred})
		}
	}
	if len(m.Short) == 0 {
		return nil
	}
	return m
}

// addShortages adds what the NUMA nodes of the devices lack of a hint set's resources. It reports
// whether they lack any.
func addShortages(m *rejection.Misfit, s *State, f *hint.Set, wanted func(request.Resource) int64) bool {
	before := len(m.Short)
	for i := range f.Needs {
		n := &f.Needs[i]
		short := rejection.Shortage{Resource: n.Resource, Wanted: max(n.Amount, wanted(n.Resource)), Preferred: f.Preferred}
		short.Free = n.Offered(m.Nodes) + short.Wanted - n.Amount // what can be reused is not needed again
		if short.Free >= short.Wanted {
			continue
		}
		short.Total = s.total(n.Resource, m.Nodes)
		m.Final = m.Final || short.Total < short.Wanted
		m.Short = append(m.Short, short)
	}
	return len(m.Short) > before
}

// noteUnaligned adds a note that a pod is admitted without being aligned with its given devices.
// Misfit, which costs as much as several alignments, reports what is missing.
func (d *draft) noteUnaligned(a *Alignment) {
	var first *request.Given
	count := 0
	for _, g := range a.Given {
		for _, x := range g.Devices {
			if nodes := x.Nodes & d.s.machine.NodeMask(); nodes.IsEmpty() {
				continue
			}
			if count++; first == nil {
				first = x
			}
		}
	}
	if first == nil {
		return
	}
	text := make([]byte, 0, 128) // One allocation, because every pod that is not aligned comes here.
	text = append(append(append(text, "not aligned with "...), first.Name...), " on "...)
	text = first.Nodes.AppendWords(text)
	if count > 1 {
		text = append(strconv.AppendInt(append(text, " and "...), int64(count-1), 10), " more devices that were given to it"...)
	}
	d.note(string(text))
}

// total returns how much of a resource pods could have on the NUMA nodes if there were no other
// pods.
func (s *State) total(resource request.Resource, nodes mask.Mask) int64 {
	if resource == request.CPU {
		return int64(s.AllocatableCPUs().IntersectionLen(s.machine.CPUsOf(nodes)))
	}
	var sum int64
	for _, d := range s.devices.Inventory().Devices(resource) {
		if d.Nodes&nodes != 0 {
			sum++
		}
	}
	if t := s.machine.MemoryType(resource); t >= 0 {
		for _, n := range s.capacity.Nodes() {
			if nodes.Has(n.ID) {
				sum += n.Types[t].Allocatable
			}
		}
	}
	return sum
}
