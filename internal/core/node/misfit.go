package node

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Misfit explains why a container or pod cannot be aligned with its given devices. Paddock did not
// choose these devices, and they stay the same when the pod is tried again.
type Misfit struct {
	// Devices are the given devices with known NUMA nodes, in the order of the request. Nodes are
	// all their NUMA nodes.
	Devices []request.Given
	Nodes   mask.Mask
	// Short lists what does not fit on Nodes. If empty, the devices are near more NUMA nodes than
	// the policy admits.
	Short []Shortage
	// Final is set if the reason remains on this Kubernetes node, whatever other pods return.
	Final bool
}

// Shortage describes how much of a resource the Nodes of a Misfit have.
type Shortage struct {
	Resource request.Resource
	// Wanted is how much the container or pod asks for. Free is how much it could have there now,
	// and Total how much it could have there without any other pod.
	Wanted, Free, Total int64
	// Preferred is the number of NUMA nodes on which the resource is preferred. It matters only if
	// Free is at least Wanted.
	Preferred int
}

// Misfit returns why an alignment of a plan with given devices is not preferred. It returns nil if
// the alignment is preferred, or if the devices are not the reason. s is the state that made the
// plan. If a plan was rejected for that reason, its Rejection has the Misfit.
func (s *State) Misfit(p *Plan, a *Alignment) *Misfit {
	return misfit(s, &p.Pod, &p.Trace.Demand, a)
}

func misfit(s *State, pod *request.Pod, demand *Demand, a *Alignment) *Misfit {
	if len(a.Given) == 0 || a.Outcome != NotPreferred {
		return nil
	}
	rules := hint.Rules{Policy: s.policy.Topology.hintPolicy(), Nodes: s.machine.NodeMask()}
	preferred := func(sets ...hint.Set) bool { return hint.Merge(sets, rules).Preferred }
	given, others := a.HintSets[:len(a.Given)], a.HintSets[len(a.Given):]
	m := &Misfit{}
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
			if !m.addShortages(s, f, wanted) {
				return nil
			}
		case !preferred(append(slices.Clone(given), *f)...) && !m.addShortages(s, f, wanted):
			n := wanted(f.Resource)
			m.Short = append(m.Short, Shortage{Resource: f.Resource, Wanted: n, Free: n, Preferred: f.Preferred})
		}
	}
	if len(m.Short) == 0 {
		return nil
	}
	return m
}

// addShortages adds what the NUMA nodes of the devices lack of a hint set's resources. It reports
// whether they lack any.
func (m *Misfit) addShortages(s *State, f *hint.Set, wanted func(request.Resource) int64) bool {
	before := len(m.Short)
	for i := range f.Needs {
		n := &f.Needs[i]
		short := Shortage{Resource: n.Resource, Wanted: max(n.Amount, wanted(n.Resource)), Preferred: f.Preferred}
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
	text = appendNUMA(text, first.Nodes)
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

// maxNamed is the number of sets of NUMA nodes, and maxDevices the number of devices, that a
// sentence names. It counts the others.
const (
	maxNamed   = 3
	maxDevices = 16
)

// where returns the names of the devices with their NUMA nodes.
func (m *Misfit) where() string {
	byNodes := slices.Clone(m.Devices)
	slices.SortStableFunc(byNodes, func(a, b request.Given) int { return cmp.Compare(a.Nodes, b.Nodes) })
	text, named := "", 0
	for i := range min(len(byNodes), maxDevices) {
		if i > 0 {
			text += ", "
		}
		text += byNodes[i].Name
		last := i == len(byNodes)-1
		if last || i == maxDevices-1 || byNodes[i+1].Nodes != byNodes[i].Nodes {
			text += " on " + numaText(byNodes[i].Nodes)
			named++
		}
		if !last && (named == maxNamed || i == maxDevices-1) {
			return text + fmt.Sprintf(" and %d more devices", len(byNodes)-i-1)
		}
	}
	return text
}

// String returns one sentence, e.g. "gpu0 on NUMA node 1; 12 free CPUs there, 16 wanted".
func (m *Misfit) String() string {
	text := m.where()
	if len(m.Short) == 0 {
		return text + ": more NUMA nodes than the topology policy admits for them; a retry on this node gets the same devices"
	}
	for _, s := range m.Short {
		switch {
		case s.Free >= s.Wanted && s.Preferred != m.Nodes.Len():
			text += fmt.Sprintf("; %s fit there, but prefer %s", amountText(s.Resource, s.Wanted), numaCount(s.Preferred))
		case s.Free >= s.Wanted:
			text += fmt.Sprintf("; %s fit there, but not on exactly these NUMA nodes", amountText(s.Resource, s.Wanted))
		case s.Resource == request.CPU:
			text += fmt.Sprintf("; %d free CPUs there, %d wanted", s.Free, s.Wanted)
		case request.IsMemory(s.Resource):
			text += fmt.Sprintf("; %s of %s free there, %s wanted", request.Bytes(s.Free), s.Resource, request.Bytes(s.Wanted))
		default:
			text += fmt.Sprintf("; %d free %s there, %d wanted", s.Free, s.Resource, s.Wanted)
		}
	}
	if m.Final {
		text += ", more than there can ever be"
	}
	return text
}

func numaCount(n int) string {
	if n == 1 {
		return "1 NUMA node"
	}
	return fmt.Sprintf("%d NUMA nodes", n)
}

func numaText(m mask.Mask) string { return string(appendNUMA(nil, m)) }

func appendNUMA(b []byte, m mask.Mask) []byte {
	if m.Len() == 1 {
		return strconv.AppendInt(append(b, "NUMA node "...), int64(m.Lowest()), 10)
	}
	return append(append(b, "NUMA nodes "...), strings.Trim(m.String(), "{}")...)
}
