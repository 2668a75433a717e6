package node

import (
	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Verdict is what a plan decides, without the places and the texts.
type Verdict struct {
	// Fits is true if the pod gets what it asks for, or has it already. If not, the other fields
	// are those of the rejection.
	Fits     bool
	Cause    rejection.Cause
	Reason   rejection.Reason
	Resource request.Resource
	// Wanted is the requested amount of Resource. It is 0 if the reason is not an amount.
	Wanted int64
}

// Verdict returns the verdict of the plan.
func (p *Plan) Verdict() Verdict { return verdictOf(p.Rejection, p.Trace.Cause) }

func verdictOf(r *rejection.Rejection, cause rejection.Cause) Verdict {
	if r == nil {
		return Verdict{Fits: true}
	}
	return Verdict{Cause: cause, Reason: r.Reason, Resource: r.Resource, Wanted: r.Wanted}
}

// Scratch is memory for calls of Admits. The zero value is ready to use, for one call at a time. It
// keeps the slices that were needed, except those of very large pods, and nothing of the states and
// pods.
type Scratch struct {
	draft      draft
	trace      Trace
	demands    []ContainerDemand
	containers []ContainerGrant
	hintSets   []hint.Set
}

// Admits returns the verdict of Plan. It costs less than half as much.
//
// It applies the rules as Plan does, in the same code, and stops where nothing can change the
// verdict any more: it does not choose the CPUs of the last container that gets some, if enough are
// free, because package cpu can take any number of CPUs that there are. The same is true for the
// last memory, after its place is known. Where that is not enough, Admits plans (plansToAnswer).
func (s *State) Admits(pod *request.Pod, in *Scratch) Verdict {
	if s.plansToAnswer(pod.UID) {
		return s.Preview(*pod).Verdict()
	}
	defer in.clear()
	n := len(pod.Containers)
	in.demands, in.containers = zeroed(in.demands, n), zeroed(in.containers, n)
	d := &in.draft
	in.trace.Demand = s.demand(pod, in.demands)
	*d = draft{
		s: s, pod: *pod, offer: s.offerTo(pod.UID, OnItsWay), demand: &in.trace.Demand, trace: &in.trace,
		chooser: chooser{way: asking}, containers: in.containers, buffer: in.hintSets,
	}
	return verdictOf(d.decide(s.policy.MaxContainers), in.trace.Cause)
}

// plansToAnswer reports whether only a plan has the verdict about a pod: it has a grant or a place
// that is reserved, its containers can get classes of the caches of their CPUs, or a kubelet
// decides that has something of the pod or of a rejected one, or that does not take every number of
// CPUs that there are (cpu.Behavior, which changes nothing on most machines).
func (s *State) plansToAnswer(uid string) bool {
	if k := s.past; k != nil && (k.stale != nil || k.cpusOf == uid || k.memoryOf == uid) {
		return true
	}
	if s.policy.CPU.DividesCaches || s.policy.CPU.Effective(s.machine).Behavior != (cpu.Behavior{}) || s.room(uid) != nil {
		return true
	}
	_, known := s.Grant(uid)
	return known
}

// mostKept is the number of containers of the largest pod whose slices are kept.
const mostKept = 64

// clear forgets the state and the pod, so that the memory of neither is kept.
func (in *Scratch) clear() {
	if len(in.demands) > mostKept {
		*in = Scratch{}
		return
	}
	alignments := in.trace.Alignments
	clear(alignments)
	in.hintSets = in.draft.buffer
	clear(in.hintSets[:cap(in.hintSets)])
	clear(in.demands)
	clear(in.containers)
	in.draft, in.trace = draft{}, Trace{Alignments: alignments[:0]}
}

// zeroed returns a slice of n zero values, in the memory of s if there is enough. s must be zero.
func zeroed[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// AppendFree appends bytes that are the same for two states of one machine and policy exactly if
// they have the same free. Then they plan every pod alike that neither knows. It reports false if
// more than that decides: reservations, devices, classes of caches, and what a kubelet keeps.
func (s *State) AppendFree(b []byte) ([]byte, bool) {
	if len(s.devices.Inventory().Resources()) > 0 {
		return b, false
	}
	return s.AppendFreeDevices(b)
}

// AppendFreeDevices is AppendFree for states that have the same inventory of devices: the bytes
// have the free devices, too.
func (s *State) AppendFreeDevices(b []byte) ([]byte, bool) {
	if s.reserved != nil || s.policy.Behavior != (Behavior{}) || s.residue != nil || s.past != nil || s.caches.Divides() {
		return b, false
	}
	b = s.usage.AppendKey(s.unassigned.AppendKey(b))
	for _, resource := range s.devices.Inventory().Resources() {
		b = append(b, 0)
		for _, id := range s.devices.Free(resource) {
			b = append(append(b, id...), ' ')
		}
	}
	return b, true
}

// countFree returns how many CPUs a container of the pod can get: those that can become exclusive,
// and those that init containers leave.
func (d *draft) countFree() int {
	return d.unassigned.Len() - d.unassigned.IntersectionLen(d.s.withheld) + d.reusableCPUs.Len()
}

// lastCPUs reports whether no container after container i takes CPUs. A pool is always the last:
// its slices are CPUs of the pool.
func (d *draft) lastCPUs(i int) bool {
	for k := i + 1; i != together && k < len(d.demand.Containers); k++ {
		if d.demand.Containers[k].CPUs > 0 {
			return false
		}
	}
	return true
}

// lastMemory reports whether no container after container i takes memory, or NUMA nodes for none
// (pinsNothing).
func (d *draft) lastMemory(i int) bool {
	for k := i + 1; k < len(d.demand.Containers); k++ {
		if len(d.demand.Containers[k].Memory) > 0 || d.pinsNothing(k) {
			return false
		}
	}
	return true
}
