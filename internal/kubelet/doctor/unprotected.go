package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
)

// A file with a broken checksum is still worth reading, because most often only one byte of it is
// wrong. The redundancy of the file partly shows which one: every CPU of the machine is in exactly
// one list, the containers of a pool are within it, and the memory accounting is the sum of the
// blocks. If all of this is true, a single wrong byte can be in a list of CPUs only where it made
// the list equal to another one of its pod, and a third container still has the right list: see
// equalLists. If it is not true, or for such a list, a person must look at what runs.

// compareCPUs and compareMemory describe what to do with content that is not protected.
const (
	compareCPUs = "before the kubelet starts, compare each list with the CPUs that the container runs on " +
		"(its cpuset.cpus, or crictl inspect), and delete every pod whose list differs, with --pods naming the others"
	compareMemory = "before the kubelet starts, compare each NUMA node with the one that the container runs on " +
		"(its cpuset.mems, or crictl inspect), and delete every pod that differs"
)

func (r *repair) check(uid, format string, args ...any) {
	r.remarks = append(r.remarks, Remark{UID: uid, Check: true, What: fmt.Sprintf(format, args...)})
}

// checkUnprotected adds remarks about what may be wrong in the files that are not protected. living
// is old without the pods that are gone.
func (r *repair) checkUnprotected(old, living *State) error {
	if old.CPU == nil && old.Memory == nil || len(old.Unprotected) == 0 {
		return nil
	}
	for _, uid := range old.Pods() {
		if r.pods.Alive != nil && !r.pods.Alive(uid) {
			r.check(uid, "no pod that was named has this UID: if the UID is what is damaged, its pod runs on these CPUs and must be deleted")
		}
	}
	if why, is := old.Unprotected[kubeletstate.MemoryManager]; is && old.Memory != nil {
		r.checkMemory(old.Memory, why)
	}
	why, is := old.Unprotected[kubeletstate.CPUManager]
	if !is || old.CPU == nil {
		return nil
	}
	r.checkCPUs(old.CPU, why)
	if !r.setup.Policy.StaticCPU {
		return nil
	}
	b, err := readLists(living.CPU)
	if err != nil {
		return notAList(err)
	}
	known := b.shared.Union(union(b.all()))
	leaked := !sharable(r.setup).Difference(known).IsEmpty()
	for _, uid := range slices.Sorted(maps.Keys(byPod(b))) {
		if err := r.withinPod(b, uid, leaked); err != nil {
			return err
		}
	}
	return nil
}

// checkCPUs reports lists of a CPU file that contradict each other.
func (r *repair) checkCPUs(c *kubeletstate.CPU, why string) {
	begin := fmt.Sprintf("the content of the CPU file is not protected (%s)", why)
	b, err := readLists(c)
	if err != nil {
		r.check("", "%s: %v; %s", begin, err, compareCPUs)
		return
	}
	all := b.all()
	leaked := sharable(r.setup).Difference(b.shared).Difference(union(all))
	equal := r.equalLists(b)
	switch suspect := r.suspects(b, all); {
	case len(all) == 0:
		r.check("", "%s; no pod has CPUs in it: if one of the node runs on CPUs of its own, delete it", begin)
	case !leaked.IsEmpty():
		r.check("", "%s, and %s in no list, so that a pod may have lost CPUs: any of %s; %s", begin, are(leaked), podsIn(all), compareCPUs)
	case suspect:
		r.check("", "%s, and its lists contradict each other: see the pods; %s", begin, compareCPUs)
	case equal:
		r.check("", "%s; its lists do not contradict each other, but those of containers with the same list may be wrong (see the pods), "+
			"or something else is, such as the name of a pod or container: %s; %s", begin, podsIn(all), compareCPUs)
	default:
		r.check("", "%s; its lists do not contradict each other, so that most likely something else is wrong in it, "+
			"such as the name of a pod or container: %s; %s", begin, podsIn(all), compareCPUs)
	}
}

// suspects adds a remark for each pod with a list that contradicts another list or the machine. It
// reports whether there are any.
func (r *repair) suspects(b *cpuLists, all []assignment) bool {
	found := false
	add := func(h assignment, format string, args ...any) {
		found = true
		r.check(h.uid, "%s: "+format, append([]any{h.own()}, args...)...)
	}
	pools := map[string]cpuset.Set{}
	for _, p := range b.pools {
		pools[p.uid] = p.cpus
	}
	for _, h := range all {
		if both := h.cpus.Intersection(b.shared); !both.IsEmpty() {
			add(h, "%s in its list and in the node shared pool as well: one of the two is wrong", are(both))
		}
		if absent := h.cpus.Difference(r.setup.Machine.AllCPUs()); !absent.IsEmpty() {
			add(h, "%s in its list and not on the machine: the list is wrong, or they are offline", are(absent))
		}
		pool, pooled := pools[h.uid]
		if outside := h.cpus.Difference(pool); pooled && !outside.IsEmpty() {
			add(h, "%s in its list and not in the pool of its pod, %s: one of the two is wrong", are(outside), pool)
		}
	}
	return found
}

// own names the assignment without its pod.
func (h assignment) own() string {
	if h.container == "" {
		return "its pool"
	}
	return "container " + h.container
}

// podsIn lists the pods that have any assignment.
func podsIn(list []assignment) string {
	names := map[string]bool{}
	for _, h := range list {
		if h.uid == "" {
			names[h.own()] = true
			continue
		}
		names["pod "+h.uid] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), ", ")
}

// withinPod returns an error if two containers of a pod have a CPU that they cannot both have. They
// can have the same CPU if one is an init container, which ends before the others start, or if both
// share what is left of a budget, in which case their lists are equal. If a wrong byte made one
// list equal to another, the list lost a CPU that is then in no list.
func (r *repair) withinPod(b *cpuLists, uid string, leaked bool) error {
	var pool cpuset.Set
	for _, p := range b.pools {
		if p.uid == uid {
			pool = p.cpus
		}
	}
	own, first := r.ofPod(b, uid)
	// lost is set if a list may have lost a CPU. A CPU that an init container also has is still in
	// a list, so it does not show up as leaked.
	lost := !union(own).Equal(pool)
	if pool.IsEmpty() {
		lost = leaked || !union(first).Difference(union(own)).IsEmpty() || r.pods.Init == nil &&
			slices.ContainsFunc(own, func(h assignment) bool { return !h.cpus.Equal(own[0].cpus) })
	}
	for i, a := range own {
		for _, c := range own[i+1:] {
			both := a.cpus.Intersection(c.cpus)
			if both.IsEmpty() || a.cpus.Equal(c.cpus) && !lost {
				continue
			}
			return fmt.Errorf("%w: %s in the lists of two containers of pod %s, %s and %s: if one of them is an init container, "+
				"name all pods of the node with --pods; otherwise delete the pod and name the others with --pods", ErrUnmendable, are(both), uid, a.container, c.container)
		}
	}
	return nil
}

// ofPod returns the lists of the containers of a pod that can run at the same time, and those of
// its init containers.
func (r *repair) ofPod(b *cpuLists, uid string) (own, first []assignment) {
	for _, h := range b.entries {
		switch {
		case h.uid != uid:
		case r.pods.Init != nil && r.pods.Init(uid, h.container):
			first = append(first, h)
		default:
			own = append(own, h)
		}
	}
	return own, first
}

// equalLists adds a remark for each pod of which some containers have one list and others another
// one, and reports whether there are any. The containers with the same list share what is left of
// the budget. Or one of them did so with a container that has another list, and a wrong byte made
// its list equal to one of exclusive CPUs: every CPU is still in a list, so the file does not show
// which of the two is true.
func (r *repair) equalLists(b *cpuLists) bool {
	found := false
	for _, uid := range slices.Sorted(maps.Keys(byPod(b))) {
		if r.pods.Alive != nil && !r.pods.Alive(uid) {
			continue
		}
		own, _ := r.ofPod(b, uid)
		lists := map[string][]string{} // the names of the containers by list
		for _, h := range own {
			lists[h.cpus.String()] = append(lists[h.cpus.String()], h.container)
		}
		for _, list := range slices.Sorted(maps.Keys(lists)) {
			if names := lists[list]; list != "" && len(names) > 1 && len(lists) > 1 {
				found = true
				r.check(uid, "containers %s have the same list, %s: they share these CPUs, or the list of one of them is wrong and it runs on CPUs of another container", strings.Join(names, ", "), list)
			}
		}
	}
	return found
}

// checkMemory adds remarks about what may be wrong in a memory file.
func (r *repair) checkMemory(old *kubeletstate.Memory, why string) {
	state := State{Memory: old}
	pods := state.Pods()
	begin := fmt.Sprintf("the content of the memory file is not protected (%s)", why)
	if len(pods) == 0 {
		r.check("", "%s; no pod has memory in it: if one of the node runs on NUMA nodes of its own, delete it", begin)
		return
	}
	who := "pod " + strings.Join(pods, ", pod ")
	want := accounting(old.Nodes).emptied()
	if want.chargeAll(old, len(old.Pools) > 0) == nil && len(accounting(old.Nodes).differences(want)) == 0 {
		r.check("", "%s; its amounts and NUMA nodes agree, so that what is wrong is most likely something else; names of pods and containers may be: %s; %s",
			begin, who, compareMemory)
		return
	}
	r.check("", "%s, and the memory accounting in it does not agree with what pods have: a block of memory of one of them may be wrong: %s; %s", begin, who, compareMemory)
}
