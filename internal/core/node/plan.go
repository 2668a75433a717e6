package node

import (
	"errors"
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/core/cache"
	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Plan is the answer to one pod: exactly one of Grant and Rejection is set.
type Plan struct {
	// Base is the generation of the state that made the plan.
	Base uint64
	Pod  request.Pod
	// Grant is what the pod gets or, if Known is set, already has.
	Grant *Grant
	Known bool
	// Before is the grant that Grant replaces, in the plan of a resize. It is nil for a new pod.
	Before *Grant
	// Rejection explains why the pod gets nothing.
	Rejection *rejection.Rejection
	Delta     Delta
	Trace     Trace

	ledger // of the state after the plan
	// left is what the admission leaves in a kubelet. It is nil where Paddock decides.
	left *left
}

// Delta is the effect of an admission on other pods.
type Delta struct {
	// SharedBefore and SharedAfter are the node shared pool before and after the admission.
	SharedBefore, SharedAfter cpuset.Set
}

// Plan decides about a pod. It changes nothing: Apply does that. A known pod keeps its grant,
// whatever it asks for now, unless Behavior.AdmitsAgain is set. No pod gets what is reserved for
// another one.
func (s *State) Plan(pod request.Pod) *Plan {
	if place := s.room(pod.UID); place != nil && len(place.Containers) == len(pod.Containers) {
		if _, known := s.Grant(pod.UID); !known {
			if p, wrong := s.follow(pod, place, OnItsWay); wrong == nil {
				return p
			}
		}
	}
	return s.plan(pod, s.policy.MaxContainers, OnItsWay)
}

// plan is Plan with another limit on the number of containers (0 means no limit). It respects
// reservations for purposes up to beside.
func (s *State) plan(pod request.Pod, most int, beside Purpose) *Plan {
	if g, known := s.Grant(pod.UID); known && !s.policy.Behavior.AdmitsAgain {
		p := s.planOf(pod)
		p.Grant, p.Known = g, true
		p.Trace.Demand = s.Demand(&g.Pod)
		p.Trace.Stage, p.Trace.Requests = StageEnd, p.Trace.Demand.requests()
		if !g.Pod.Equal(pod) {
			p.Trace.Notes = append(p.Trace.Notes, "the pod's request changed after it was admitted: it keeps what it has until it is created again")
		}
		return p
	}
	p, _ := s.swept(pod.UID).draft(pod, chooser{}, most, beside)
	return p
}

func (s *State) planOf(pod request.Pod) *Plan {
	shared := s.SharedCPUs()
	p := &Plan{Base: s.generation, Pod: pod, Delta: Delta{SharedBefore: shared, SharedAfter: shared}}
	p.Trace.Method, p.Trace.BySocket = s.policy.CPU.Method(), s.policy.CPU.AlignBySocket
	return p
}

// draft plans a pod that is not known: by itself, or as another planner did. most is the maximum
// number of containers, 0 for no limit. beside is the last purpose of reservations that count. The
// error is the first rule that a grant of another planner breaks.
func (s *State) draft(pod request.Pod, c chooser, most int, beside Purpose) (*Plan, *MisplacedError) {
	p := s.planOf(pod)
	d := &draft{s: s, pod: pod, offer: s.offerTo(pod.UID, beside), trace: &p.Trace, chooser: c}
	p.Trace.Demand = s.Demand(&pod)
	d.demand, d.containers = &p.Trace.Demand, make([]ContainerGrant, len(pod.Containers))
	if s.policy.Behavior != (Behavior{}) {
		d.begin()
	}
	p.Rejection = d.decide(most)
	if s.policy.Behavior != (Behavior{}) {
		p.left = d.leaves(p.Rejection != nil)
	}
	if p.Rejection != nil {
		p.Trace.Taken = d.containers
		return p, d.wrong
	}
	p.Trace.Stage = StageEnd
	p.Grant = &Grant{Pod: pod, Sequence: s.generation + 1, Pool: d.pool, PoolMemory: d.poolMemory, PoolCache: d.poolCache, Containers: d.containers}
	if had := d.had(); had != nil {
		p.Grant.keep(had)
	}
	p.ledger = d.without(d.ledger)
	p.Delta.SharedAfter = s.sharedOf(p.unassigned)
	return p, nil
}

// EstimatedNote is the remark on every decision about a pod whose request is estimated.
const EstimatedNote = "the request is estimated from cgroup numbers, because the pod's specification was not available: " +
	"what the pod gets it gets as a whole, and no container has anything for itself"

// draft collects what an admission takes. It is dropped as a whole on a rejection.
type draft struct {
	s      *State
	pod    request.Pod
	demand *Demand
	trace  *Trace
	chooser

	// offer is what the pod can still get.
	offer
	// The reusable resources are those that the pod's standard init containers leave (R-CPU-80,
	// R-MEM-40, R-HINT-42).
	reusableCPUs    cpuset.Set
	reusableMemory  memory.Reuse
	reusableDevices device.Reuse
	// lenders has the indexes of the standard init containers that still have memory for later
	// containers.
	lenders []int

	pool       cpuset.Set
	poolMemory []memory.Block
	poolCache  cache.Class
	containers []ContainerGrant

	// layout has the places of the classes of a pod that is aligned as one. It is nil as long as
	// nothing has asked for it.
	layout *cache.Layout

	// served and pinned are set if a container was given CPUs and memory, so that a kubelet keeps
	// what is left for this pod (Behavior.KeepsReuse).
	served, pinned bool

	// buffer is memory for hint sets, for the way asking. It is nil for the others, whose traces
	// keep the sets.
	buffer []hint.Set
}

// decide applies the rules to the pod.
func (d *draft) decide(most int) *rejection.Rejection {
	if rejection := d.checkContainers(most); rejection != nil {
		return rejection
	}
	return d.plan()
}

// checkContainers rejects a pod that has more containers than the limit (R-DEM-102).
func (d *draft) checkContainers(most int) *rejection.Rejection {
	n := len(d.pod.Containers)
	if most <= 0 || n <= most {
		return nil
	}
	return d.reject(rejection.ContainersAboveBound, &rejection.Rejection{
		Detail: fmt.Sprintf("the pod has %d containers, init containers included, and this node admits at most %d in a pod: split the pod, or raise maxContainersPerPod in the agent's configuration", n, most),
	})
}

func (d *draft) plan() *rejection.Rejection {
	if d.pod.Kind == request.Unmanaged && !d.s.policy.PodLevelResources {
		return d.reject(rejection.ResourcesOff, &rejection.Rejection{
			Detail: "the pod has pod-level resources and feature gate PodLevelResources is off: turn it on, or state resources for each container",
		})
	}
	if rejection := d.checkCaches(); rejection != nil {
		return rejection
	}
	if d.way != asking {
		d.noteOtherDevices()
	}
	if d.pod.Estimated {
		d.note(EstimatedNote)
	}
	switch d.demand.Path {
	case Unaligned:
		return d.planEach(func(int) (hint.Choice, *rejection.Rejection) {
			return hint.Choice{Mask: d.s.machine.NodeMask(), Admit: true}, nil
		})
	case ByContainer:
		return d.planEach(func(i int) (hint.Choice, *rejection.Rejection) { // R-HINT-64
			return d.alignContainer(i)
		})
	case AsPool:
		return d.planPool()
	case AsOne:
	}
	choice, wrong := d.alignSum()
	if wrong != nil {
		return wrong
	}
	if wrong := d.planEach(func(int) (hint.Choice, *rejection.Rejection) { return choice, nil }); wrong != nil {
		return wrong
	}
	if d.trace.Alignments[0].Outcome == MemoryApart {
		d.note("no set of NUMA nodes has enough memory for the containers together: each is placed by itself, and the pod is not aligned")
	}
	return nil
}

// planEach gives every container what it asks for, one after the other.
func (d *draft) planEach(align func(i int) (hint.Choice, *rejection.Rejection)) *rejection.Rejection {
	for i := range d.pod.Containers {
		choice, rejection := align(i)
		if rejection != nil {
			return rejection
		}
		d.containers[i].Affinity = choice
		if rejection := d.allocateDevices(i, choice); rejection != nil {
			return rejection
		}
		if rejection := d.takeCPUs(i, choice); rejection != nil {
			return rejection
		}
		if rejection := d.takeMemory(i, choice); rejection != nil {
			return rejection
		}
	}
	return nil
}

// available returns the CPUs that can become exclusive now.
func (d *draft) available() cpuset.Set { return d.unassigned.Difference(d.s.withheld) }

// free returns the CPUs that the pod can get now, exclusive or for its pod shared pool.
func (d *draft) free() cpuset.Set { return d.unassigned.Difference(d.s.policy.ReservedCPUs) }

// takeCPUs applies R-CPU-80…82 to one container.
func (d *draft) takeCPUs(i int, choice hint.Choice) *rejection.Rejection {
	n := d.demand.Containers[i].CPUs
	if n == 0 {
		return nil
	}
	d.trace.Stage = StageCPU
	d.trace.Requests.CPU++
	set, rejection := d.chooseCPUs(i, n, choice)
	if rejection != nil {
		return rejection
	}
	d.containers[i].CPUs, d.served = set, true
	if rejection := d.takeClass(i, set); rejection != nil {
		return rejection
	}
	if d.pod.Containers[i].Type == request.Init {
		d.reusableCPUs = d.reusableCPUs.Union(set)
	} else {
		d.reusableCPUs = d.reusableCPUs.Difference(set)
	}
	return nil
}

// freeCPUs lets the CPU allocator choose n CPUs, for container i or, if i is together, for the
// pod's pool.
func (d *draft) freeCPUs(i, n int, from cpuset.Set, choice hint.Choice) (cpuset.Set, *rejection.Rejection) {
	if near := d.nearCaches(i, from); near.Len() >= n {
		from = near
	} else if from.Len() >= n {
		return cpuset.Set{}, d.rejectCache(i)
	}
	set, err := d.chooseFree(func(o cpu.Options) (cpuset.Set, error) {
		return cpu.Allocate(d.s.machine, o, from, choice.Mask, choice.HasMask, n)
	})
	if err == nil {
		return set, nil
	}
	r := d.rejectCPU(d.nameOf(i), n, err)
	var few *cpu.NotEnoughError
	if errors.As(err, &few) && few.Requested < n { // The kubelet's words are about the rest of the request.
		verb := "are"
		if from.Len() == 1 {
			verb = "is"
		}
		r.Detail += fmt.Sprintf(" (%d CPUs are asked for, %d %s free)", n, from.Len(), verb)
	}
	return cpuset.Set{}, r
}

// takeMemory applies R-MEM-30…41 to one container.
func (d *draft) takeMemory(i int, choice hint.Choice) *rejection.Rejection {
	want := d.demand.Containers[i].Memory
	if len(want) == 0 {
		if d.pinsNothing(i) {
			return d.pinNothing(i, choice)
		}
		return nil
	}
	d.trace.Stage = StageMemory
	d.trace.Requests.Memory++
	name := d.pod.Containers[i].Name
	if d.s.policy.Behavior.UnreadFractions && d.pod.Containers[i].FractionalMemory {
		return d.rejectUnread(name)
	}
	d.pinned = true
	if d.keepsMemory(i) {
		return nil
	}
	choice, rejection := d.chooseMemory(i, choice)
	if rejection != nil {
		return rejection
	}
	nodes, rejection := d.place(name, want, choice)
	if rejection != nil {
		return rejection
	}
	if d.s.policy.Strict() && choice.HasMask && !choice.Mask.Contains(nodes) {
		if !d.s.policy.Behavior.InitMemoryAnywhere {
			return d.rejectOutside(name, want, choice.Mask, nodes)
		}
		d.met(FaultInitMemoryAnywhere, name)
	}
	if d.way == asking && d.lastMemory(i) {
		return nil
	}
	blocks := make([]memory.Block, len(want))
	for k, a := range want {
		blocks[k] = memory.Block{Type: a.Resource, Size: a.Value, Nodes: nodes}
	}
	d.usage = d.usage.Charge(blocks, d.reusableMemory.Charged(blocks))
	d.reusableMemory = d.reusableMemory.After(d.pod.Containers[i].Type, blocks)
	d.containers[i].Memory, d.containers[i].MemoryNodes = blocks, nodes
	d.shrinkInits(i, blocks)
	return nil
}

// place finds the NUMA nodes for the memory of a container or, if the name is empty, of the pod's
// pool.
func (d *draft) place(container string, want request.Amounts, choice hint.Choice) (mask.Mask, *rejection.Rejection) {
	nodes, err := d.usage.Place(want, choice, d.reusableMemory)
	if err == nil {
		return nodes, nil
	}
	if nodes, ok := d.placesAnyway(container, err); ok {
		return nodes, nil
	}
	return 0, d.rejectMemory(container, err)
}

// shrinkInits moves memory of earlier standard init containers to container i, so that the blocks
// of a pod add up to what it is charged for (R-MEM-41). Init containers without memory leave the
// list of lenders, so the cost does not grow with their number. The draft owns the blocks:
// takeMemory allocated them.
func (d *draft) shrinkInits(i int, blocks []memory.Block) {
	for _, b := range blocks {
		left := b.Size
		for _, k := range d.lenders {
			earlier := d.containers[k].Memory
			for j := range earlier {
				if earlier[j].Type == b.Type && earlier[j].Nodes == b.Nodes {
					part := min(left, earlier[j].Size)
					earlier[j].Size -= part
					left -= part
				}
			}
			if left == 0 {
				break
			}
		}
	}
	d.lenders = slices.DeleteFunc(d.lenders, func(k int) bool {
		return !slices.ContainsFunc(d.containers[k].Memory, func(b memory.Block) bool { return b.Size > 0 })
	})
	if d.pod.Containers[i].Type == request.Init {
		d.lenders = append(d.lenders, i)
	}
}
