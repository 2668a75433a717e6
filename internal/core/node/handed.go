package node

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Misplaced is the kind of rule of the state that a grant from another planner breaks.
type Misplaced int

// The kinds. Their names are values of metric labels.
const (
	MisplacedShape   Misplaced = iota // shape
	MisplacedCPUs                     // cpus
	MisplacedMemory                   // memory
	MisplacedDevices                  // devices
	MisplacedCaches                   // caches
	// MisplacedNodes means that the policy does not admit the NUMA nodes, or not together.
	MisplacedNodes // alignment
)

// MisplacedError explains why PlanGrant makes no plan.
type MisplacedError struct {
	Kind   Misplaced
	Detail string
}

func (e *MisplacedError) Error() string {
	return fmt.Sprintf("the grant is against the rules of this node (%s): %s", e.Kind, e.Detail)
}

// PlanGrant plans a pod as another planner did: with the CPUs, NUMA nodes and devices of its grant
// g. The pod is admitted only if every rule of Plan allows it in this state. So g chooses among
// what the rules allow, and never gives the pod more than it requests. Only the assignments of g
// count: pod is the request. A known pod keeps its grant, as in Plan. The error is a
// *MisplacedError.
//
// The planner decides, with three differences: the Topology Manager considers only the NUMA nodes
// of g, CPUs and devices are those of g, and memory is placed on the NUMA nodes of g. The result
// must equal g. So a plan of Plan is accepted in every state of the node in which the resources of
// the plan are free, whatever other pods that state has. There are two exceptions. First, the
// aligned NUMA nodes must have enough, even if the pod has CPUs or devices of other NUMA nodes:
// with align-by-socket, and with devices near no NUMA node. Second, with full-pcpus-only the CPU
// allocator splits cores if the aligned NUMA nodes have only siblings of reserved CPUs. Such a plan
// is accepted only in states in which Plan makes it.
//
// Resources reserved for a pod that is on its way (OnItsWay) count as free: of two pods whose
// grants were made elsewhere, the one that starts first has its grant.
func (s *State) PlanGrant(pod request.Pod, g *Grant) (*Plan, error) {
	if len(g.Containers) != len(pod.Containers) {
		return nil, &MisplacedError{MisplacedShape, fmt.Sprintf("it has %d containers, the pod has %d", len(g.Containers), len(pod.Containers))}
	}
	if _, known := s.Grant(pod.UID); known {
		return s.Plan(pod), nil
	}
	p, wrong := s.follow(pod, g, MovedTo)
	if wrong == nil {
		return p, nil
	}
	if own := s.plan(pod, s.policy.MaxContainers, MovedTo); own.Grant != nil && own.Grant.misfit(g) == nil {
		return own, nil
	}
	return nil, wrong
}

// follow plans with the choices of g. It respects reservations for purposes up to beside.
func (s *State) follow(pod request.Pod, g *Grant, beside Purpose) (*Plan, *MisplacedError) {
	p, wrong := s.draft(pod, chooser{way: handed, grant: g}, s.policy.MaxContainers, beside)
	switch {
	case wrong != nil:
		return nil, wrong
	case p.Rejection != nil:
		return nil, &MisplacedError{kindOf(p.Trace.Stage), p.Rejection.Error()}
	}
	if wrong := p.Grant.misfit(g); wrong != nil {
		return nil, wrong
	}
	if err := s.checkGrant(p.Grant, s.FreeCPUs()); err != nil {
		return nil, &MisplacedError{MisplacedShape, err.Error()}
	}
	return p, nil
}

func kindOf(s Stage) Misplaced {
	switch s {
	case StageTopology:
		return MisplacedNodes
	case StageCPU:
		return MisplacedCPUs
	case StageMemory:
		return MisplacedMemory
	case StageDevices:
		return MisplacedDevices
	case StageBegin, StageEnd:
	}
	return MisplacedShape
}

// SameAssignments reports whether two grants give the same resources to the containers of a pod, in
// both places if the pod is being moved. Requests and remarks about the search do not count.
func (g *Grant) SameAssignments(h *Grant) bool {
	if (g.Moving == nil) != (h.Moving == nil) || g.Moving != nil && !g.Moving.SameAssignments(h.Moving) {
		return false
	}
	return len(g.Containers) == len(h.Containers) && g.misfit(h) == nil
}

// misfit returns the first difference between the assignments of two grants with the same number of
// containers, or nil.
func (g *Grant) misfit(h *Grant) *MisplacedError {
	if !g.Pool.Equal(h.Pool) {
		return &MisplacedError{MisplacedCPUs, fmt.Sprintf("its pool has CPUs %q, and the rules give %q", h.Pool, g.Pool)}
	}
	if !slices.Equal(g.PoolMemory, h.PoolMemory) {
		return &MisplacedError{MisplacedMemory, fmt.Sprintf("its pool has %v, and the rules give %v", h.PoolMemory, g.PoolMemory)}
	}
	if !g.PoolCache.Equal(h.PoolCache) {
		return &MisplacedError{MisplacedCaches, fmt.Sprintf("its pool has %s of the caches, and the rules give %s", h.PoolCache, g.PoolCache)}
	}
	for i := range g.Containers {
		a, b, at := &g.Containers[i], &h.Containers[i], fmt.Sprintf("container %d", i)
		if i < len(g.Pod.Containers) {
			at = "container " + g.Pod.Containers[i].Name
		}
		wrong := func(kind Misplaced, has, gets any) *MisplacedError {
			return &MisplacedError{kind, fmt.Sprintf("%s has %v, and the rules give %v", at, has, gets)}
		}
		same := func(x, y device.Assigned) bool { return x.Resource == y.Resource && slices.Equal(x.IDs, y.IDs) }
		switch x, y := a.Affinity, b.Affinity; {
		case !a.CPUs.Equal(b.CPUs):
			return wrong(MisplacedCPUs, b.CPUs, a.CPUs)
		case !slices.Equal(a.Memory, b.Memory) || a.MemoryNodes != b.MemoryNodes:
			return wrong(MisplacedMemory, b.Memory, a.Memory)
		case !slices.EqualFunc(a.Devices, b.Devices, same):
			return wrong(MisplacedDevices, b.Devices, a.Devices)
		case !a.Cache.Equal(b.Cache):
			return wrong(MisplacedCaches, b.Cache, a.Cache)
		case x.Mask != y.Mask || x.HasMask != y.HasMask || x.Preferred != y.Preferred || x.Admit != y.Admit || a.Removed != b.Removed:
			return wrong(MisplacedNodes, fmt.Sprintf("%s, preferred %t", y.Mask.Text(), y.Preferred), fmt.Sprintf("%s, preferred %t", x.Mask.Text(), x.Preferred))
		}
	}
	return nil
}

// misplaced ends a draft that follows the grant of another planner. The returned rejection is not
// for people: the error has the reason.
func (d *draft) misplaced(kind Misplaced, format string, args ...any) *rejection.Rejection {
	d.wrong = &MisplacedError{kind, fmt.Sprintf(format, args...)}
	return &rejection.Rejection{Detail: d.wrong.Detail}
}

// handedNodes returns the choice of the grant, if the policy admits it. Merge prefers a set of NUMA
// nodes if every hint set has and prefers it (R-HINT-51). Which of these sets it takes depends on
// what else is free. Under best-effort the grant may have any NUMA nodes, and need not be aligned:
// where it was planned, other pods may have had what would have aligned it.
func (d *draft) handedNodes(container string, hintSets []hint.Set, rules hint.Rules) (hint.Choice, *rejection.Rejection) {
	_, i := d.pod.Container(container)
	want := d.grant.Containers[max(0, i)].Affinity // All containers of a pod that is aligned as one have the same.
	if want.Mask.IsEmpty() || !rules.Nodes.Contains(want.Mask) {
		return hint.Choice{}, d.misplaced(MisplacedNodes, "it is aligned on %s, the machine has %s", want.Mask.Text(), rules.Nodes.Text())
	}
	choice := hint.Choice{Mask: want.Mask, HasMask: want.HasMask, Preferred: true}
	free := true
	for i := range hintSets {
		if s := &hintSets[i]; s.Kind != hint.Any {
			free = false
			choice.Preferred = choice.Preferred && s.Has(want.Mask) && s.Prefers(want.Mask)
		}
	}
	if free { // Merge gives all NUMA nodes then.
		choice.Preferred = want.Mask == rules.Nodes
	}
	switch rules.Policy {
	case hint.BestEffort:
		choice.Admit, choice.Preferred = true, choice.Preferred && want.Preferred
	case hint.Restricted:
		choice.Admit, choice.HasMask = choice.Preferred, true
	case hint.SingleNUMANode:
		choice.Admit, choice.HasMask = choice.Preferred && (free || want.Mask.Len() == 1), want.Mask != rules.Nodes
	}
	if !choice.Admit {
		return choice, d.misplaced(MisplacedNodes, "policy %s does not admit it on %s", d.s.policy.Topology, want.Mask.Text())
	}
	return choice, nil
}

// handedCPUs returns n CPUs of the grant, for container i or, if i is together, for the pool. It
// does not require that the set reuse as many as possible of the CPUs that init containers leave.
// The CPU allocator prefers whole cores to those CPUs, so its choice depends on what else is free.
// A set that was planned elsewhere, such as beside pods that have not started here, may leave them.
// Each set still has exactly as many CPUs as its container requests, like the CPU allocator's sets.
// So a grant has no more CPUs than the planner gives the pod in some other state of the node.
func (d *draft) handedCPUs(i, n int, from cpuset.Set, choice hint.Choice) (cpuset.Set, *rejection.Rejection) {
	set, of := d.grant.Pool, "the pool"
	if i != together {
		set, of = d.grant.Containers[i].CPUs, "container "+d.nameOf(i)
	}
	near := cpu.Local(d.s.machine, d.s.policy.CPU, choice.Mask)
	switch {
	case set.Len() != n:
		return set, d.misplaced(MisplacedCPUs, "%s has CPUs %q and asks for %d", of, set, n)
	case !from.Contains(set):
		taken := set.Difference(from)
		return set, d.misplaced(MisplacedCPUs, "%s has CPUs %s, which are not free%s", of, taken, d.s.holders(taken))
	case d.s.policy.CPU.FullPCPUsOnly && cpu.SplitsCores(d.s.machine, set):
		return set, d.misplaced(MisplacedCPUs, "%s has CPUs %s, which are not whole cores", of, set)
	case choice.HasMask && choice.Preferred && !near.Contains(set):
		return set, d.misplaced(MisplacedCPUs, "%s has CPUs %s, which are not on %s", of, set.Difference(near), choice.Mask.Text())
	}
	return set, nil
}

// handedSlice returns the slice of container i in the grant, if it is in what is left of the pool.
func (d *draft) handedSlice(i, n int, left cpuset.Set) (cpuset.Set, *rejection.Rejection) {
	set := d.grant.Containers[i].CPUs
	if set.Len() != n || !left.Contains(set) {
		return set, d.misplaced(MisplacedCPUs, "container %s has CPUs %q, and asks for %d of %s", d.nameOf(i), set, n, left)
	}
	if others := set.Difference(d.s.isolated); d.trace.Divisions[0].InParts && d.s.policy.CPU.Isolated == cpu.IsolatedOnly && !others.IsEmpty() {
		return set, d.misplaced(MisplacedCPUs, "container %s has CPUs %s, which are not isolated", d.nameOf(i), others)
	}
	return set, nil
}

// handedDevices returns the devices of the grant for container i. Like Allocate, it requires that
// the devices that init containers leave are used first.
func (d *draft) handedDevices(i int, resource string, n int, choice hint.Choice) ([]string, *rejection.Rejection) {
	var ids []string
	for _, h := range d.grant.Containers[i].Devices {
		if h.Resource == resource {
			ids = h.IDs
		}
	}
	reusable, name := d.reusableDevices.IDs(resource), d.pod.Containers[i].Name
	taken := d.reusableDevices.New(resource, ids)
	spare := max(0, n-len(reusable))
	if len(ids) != n || !slices.IsSorted(ids) || len(taken) > spare {
		return nil, d.misplaced(MisplacedDevices, "container %s has devices %q of %s, asks for %d, and init containers of the pod leave it %q", name, ids, resource, n, reusable)
	}
	free := d.devices.Free(resource)
	for _, id := range taken {
		if _, found := slices.BinarySearch(free, id); !found {
			return nil, d.misplaced(MisplacedDevices, "container %s has device %q of %s, which is not free", name, id, resource)
		}
		near, _ := d.devices.Inventory().Device(resource, id)
		if choice.HasMask && choice.Preferred && !near.Nodes.IsEmpty() && near.Nodes&choice.Mask == 0 {
			return nil, d.misplaced(MisplacedDevices, "container %s has device %q of %s, which is not near %s", name, id, resource, choice.Mask.Text())
		}
	}
	return ids, nil
}

// handedMemory returns the alignment for the memory of container i or, if i is together, of the
// pool: the NUMA nodes of the grant, which must be among the aligned ones.
func (d *draft) handedMemory(i int, choice hint.Choice) (hint.Choice, *rejection.Rejection) {
	blocks := d.grant.PoolMemory
	if i != together {
		blocks = d.grant.Containers[i].Memory
	}
	nodes := nodesOf(blocks)
	switch {
	case nodes.IsEmpty() || !d.s.machine.NodeMask().Contains(nodes):
		return choice, d.misplaced(MisplacedMemory, "its memory is on %s, the machine has %s", nodes.Text(), d.s.machine.NodeMask().Text())
	case choice.HasMask && choice.Preferred && !choice.Mask.Contains(nodes):
		return choice, d.misplaced(MisplacedMemory, "its memory is on %s, and it is aligned on %s", nodes.Text(), choice.Mask.Text())
	}
	choice.Mask, choice.HasMask, choice.Preferred = nodes, true, false
	return choice, nil
}

// holders returns ": POD has CPUs" for the pods that have some of the CPUs, in the order of their
// UIDs, or that they are reserved or promised if no pod has them.
func (s *State) holders(cpus cpuset.Set) string {
	var all []string
	for g := range s.AllGrants() {
		if has := g.everything().Intersection(cpus); !has.IsEmpty() {
			all = append(all, g.Pod.ID()+" has "+has.String())
		}
	}
	if len(all) == 0 {
		return ": they are reserved"
	}
	return ": " + strings.Join(all, ", ")
}
