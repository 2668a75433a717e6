package node

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/account"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

// resizable rejects what no node resizes: changes that Kubernetes does not allow (R-RSZ-2), virtual
// machines with CPUs of their own (R-RSZ-8), pods that have assignments of another policy
// (R-RSZ-3), and containers or pools that would begin or cease to be exclusive (R-RSZ-4).
func (r *resizing) resizable() *rejection.Rejection {
	if what := fixed(&r.old.Pod, &r.pod); what != "" {
		return r.reject(rejection.NotResizable, &rejection.Rejection{Detail: what + ": Kubernetes resizes cpu and memory of a pod's containers and of the pod, and nothing else; create the pod again"})
	}
	if r.pod.VirtualMachine && !r.old.CPUs().IsEmpty() {
		return r.reject(rejection.PinnedInside, &rejection.Rejection{Detail: "it is a virtual machine, which pins its virtual CPUs to the pod's CPUs once, when it starts: change the machine and migrate it live"})
	}
	if r.old.Moving != nil {
		return r.reject(rejection.BeingMoved, &rejection.Rejection{Detail: "the pod is being moved to other CPUs or memory: it can be resized when the move has ended"})
	}
	if r.s.aboutToMove(r.old.Pod.UID) {
		return r.reject(rejection.BeingMoved, &rejection.Rejection{Detail: "the pod is about to be moved to other CPUs or memory: it can be resized when the move has ended"})
	}
	if what := r.admittedOtherwise(); what != "" {
		return r.reject(rejection.OtherPolicy, &rejection.Rejection{Detail: what + ": the policy is another than when the pod was admitted; create the pod again"})
	}
	var apart string
	r.s.reportIsolation(r.old, func(what string) { apart = cmp.Or(apart, what) })
	if apart != "" && !r.old.CPUs().IsEmpty() {
		return r.reject(rejection.OtherPolicy, &rejection.Rejection{Detail: apart + ": create the pod again"})
	}
	return r.crossing()
}

// fixed describes the first difference between two requests that no resize makes. It returns "" if
// there is none.
func fixed(old, pod *request.Pod) string {
	huge := func(a request.Amounts) request.Amounts {
		return slices.DeleteFunc(slices.Clone(a), func(x request.Amount) bool { return x.Resource == machine.Memory || x.Value == 0 })
	}
	switch {
	case old.UID != pod.UID || old.ID() != pod.ID():
		return fmt.Sprintf("it is another pod: %s with UID %s, not %s with UID %s", pod.ID(), pod.UID, old.ID(), old.UID)
	case old.Estimated || pod.Estimated:
		return "the request of the pod was estimated from cgroup numbers"
	case old.QoS != pod.QoS:
		return fmt.Sprintf("the QoS class would change from %s to %s", old.QoS, pod.QoS)
	case old.Kind != pod.Kind:
		return fmt.Sprintf("the pod is %s and would be %s", old.Kind, pod.Kind)
	case !slices.EqualFunc(old.Containers, pod.Containers, func(a, b request.Container) bool { return a.Name == b.Name && a.Type == b.Type }):
		return "the containers are not the same, in the same order"
	case !slices.Equal(huge(old.BudgetMemory), huge(pod.BudgetMemory)):
		return "the pod-level huge pages would change"
	}
	for i := range old.Containers {
		a, b := &old.Containers[i], &pod.Containers[i]
		switch {
		case !slices.Equal(a.HugePages, b.HugePages) || !slices.Equal(huge(a.Memory), huge(b.Memory)):
			return fmt.Sprintf("the huge pages of container %s would change", a.Name)
		case !slices.Equal(a.Devices, b.Devices):
			return fmt.Sprintf("the devices of container %s would change", a.Name)
		}
	}
	return ""
}

// admittedOtherwise describes an assignment that the pod would not get under the present policy. It
// returns "" if there is none.
func (r *resizing) admittedOtherwise() string {
	g := r.old
	pooled := r.was.Path == AsPool
	left := slices.ContainsFunc(g.Containers, func(c ContainerGrant) bool { return !c.Removed })
	switch {
	case !pooled && g.HasPool():
		return "it has a pool, and no pod gets one now"
	case pooled && left && g.Pool.Len() != r.was.Together.CPUs:
		return fmt.Sprintf("its pool has %d CPUs and would have %d", g.Pool.Len(), r.was.Together.CPUs)
	}
	bytes := len(g.PoolMemory) > 0
	for i := range g.Containers {
		has, asks, c := &g.Containers[i], &r.was.Containers[i], &g.Pod.Containers[i]
		bytes = bytes || len(has.Memory) > 0
		switch {
		case has.Removed:
		case (!pooled || c.Exclusive()) && has.CPUs.Len() != asks.CPUs:
			return fmt.Sprintf("container %s has %d exclusive CPUs and would have %d", c.Name, has.CPUs.Len(), asks.CPUs)
		case !pooled && c.Type != request.Init && (len(has.Memory) > 0) != (len(asks.Memory) > 0):
			return fmt.Sprintf("container %s has %d kinds of memory of its own and would have %d", c.Name, len(has.Memory), len(asks.Memory))
		}
	}
	if pooled && bytes && len(g.PoolMemory) == 0 {
		return "its containers have memory of their own, and pods get a pool now"
	}
	if bytes && !r.s.policy.StaticMemory {
		return "it has memory on NUMA nodes of its own, and no pod gets that now"
	}
	return ""
}

// crossing rejects a container or a pool that would begin or cease to have its own CPUs or memory.
func (r *resizing) crossing() *rejection.Rejection {
	reject := func(who string, resource request.Resource, now bool) *rejection.Rejection {
		from, to := "exclusive", "shared"
		if now {
			from, to = to, from
		}
		what := cmp.Or(map[string]string{request.CPU: "CPUs"}[resource], resource)
		return r.reject(rejection.Crossing, &rejection.Rejection{Container: who, Resource: resource, Detail: fmt.Sprintf(
			"%s would change from %s to %s: no resize does that; keep whole CPUs, with requests equal to limits, or create the pod again", what, from, to)})
	}
	if a, b := r.was.Together.CPUs > 0, r.demand.Together.CPUs > 0; r.demand.Path == AsPool && a != b {
		return reject("", request.CPU, b)
	}
	if a, b := len(r.was.Together.Memory) > 0, len(r.demand.Together.Memory) > 0; r.demand.Path == AsPool && a != b {
		return reject("", request.Memory, b)
	}
	for i := range r.demand.Containers {
		was, now, name := &r.was.Containers[i], &r.demand.Containers[i], r.pod.Containers[i].Name
		if a, b := was.CPUs > 0, now.CPUs > 0; a != b {
			return reject(name, request.CPU, b)
		}
		if a, b := len(was.Memory) > 0, len(now.Memory) > 0; a != b {
			return reject(name, request.Memory, b)
		}
	}
	return nil
}

// rejectBelow rejects a resize to fewer CPUs than a container or the pool was admitted with.
func (r *resizing) rejectBelow(container string, n int, base cpuset.Set) *rejection.Rejection {
	return r.reject(rejection.BelowBaseline, &rejection.Rejection{Container: container, Resource: request.CPU, Wanted: int64(n), Detail: fmt.Sprintf(
		"%s wanted, and it was admitted with %d, CPUs %s: no resize goes below; create the pod again", request.Words(request.CPU, int64(n)), base.Len(), base)})
}

// rejectSlices rejects sizes that fit into the pool, but not with the CPUs that the containers
// keep.
func (r *resizing) rejectSlices(container string, n int) *rejection.Rejection {
	what := fmt.Sprintf("the pool cannot have %s with the CPUs that its exclusive containers keep", request.Words(request.CPU, int64(n)))
	if container != "" {
		what = fmt.Sprintf("%s wanted, and the other CPUs of the pool are those of containers that run at the same time", request.Words(request.CPU, int64(n)))
	}
	return r.reject(rejection.SlicesApart, &rejection.Rejection{Container: container, Resource: request.CPU, Wanted: int64(n), Detail: what + ": resize exclusive containers to the sizes of their admission first"})
}

// explain completes a rejection: it adds what was to be resized, and whether that would be possible
// without the other pods, or without what is reserved for them (R-RSZ-20).
func (r *resizing) explain(why *rejection.Rejection) {
	if why.Reason == rejection.Infeasible || r.trace.Cause == rejection.BeingMoved {
		return
	}
	why.Detail = r.changes(why.Container) + ": " + why.Detail
	why.Reason = rejection.Infeasible
	if len(r.kept) > 0 {
		if r.s.WithReservations(nil).Resize(r.old.Pod.UID, r.pod).Rejection == nil {
			why.Reason = rejection.Deferred
			why.Detail += "; there would be enough without what is " + account.ReservedFor + keptNames(r.kept)
			return
		}
	}
	if r.s.grants.len == 1 {
		return
	}
	alone, err := New(r.s.machine, r.s.policy)
	if err == nil {
		alone, err = alone.WithDevices(r.s.devices.Inventory())
	}
	if err == nil && alone.adopt(r.old) == nil && alone.Resize(r.old.Pod.UID, r.pod).Rejection == nil {
		why.Reason = rejection.Deferred
	}
}

// changes describes the requested changes, e.g. "CPUs of container app from 2 to 4". It omits the
// name of the container that the reader knows.
func (r *resizing) changes(known string) string {
	var parts []string
	differ := func(what string, from, to int64, text func(int64) string) {
		if from != to {
			parts = append(parts, fmt.Sprintf("%s from %s to %s", what, text(from), text(to)))
		}
	}
	number, bytes := func(n int64) string { return fmt.Sprint(n) }, request.Bytes[int64]
	compare := func(who string, was, now *Ask) {
		differ("CPUs"+who, int64(was.CPUs), int64(now.CPUs), number)
		for _, a := range now.Memory {
			before, _ := was.Memory.Get(a.Resource)
			differ(a.Resource+who, before, a.Value, bytes)
		}
	}
	if r.demand.Path == AsPool {
		compare(" of the pool", &r.was.Together, &r.demand.Together)
	}
	for i := range r.demand.Containers {
		who := ""
		if name := r.pod.Containers[i].Name; name != known {
			who = " of container " + name
		}
		compare(who, &r.was.Containers[i].Ask, &r.demand.Containers[i].Ask)
	}
	const few = 3 // fit in a line
	if more := len(parts) - few; more > 0 {
		parts = append(parts[:few], fmt.Sprintf("%d more", more))
	}
	return strings.Join(parts, ", ")
}
