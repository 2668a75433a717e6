package doctor

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/request"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
)

// Pods describes the pods of a node, independently of the state files. Every field may be nil.
type Pods struct {
	// Alive reports whether a pod exists. If nil, all pods are assumed to exist.
	Alive func(uid string) bool
	// Owners maps container ids to containers, for files of V1.
	Owners map[string]Owner
	// Init reports whether a container is an init container that ends before the other containers
	// start.
	Init func(uid, container string) bool
}

// Repair converts a state on which the kubelet of the setup does not start into one on which it
// does, and returns what it changed. The setup must have a machine and a policy. No CPU of an
// existing pod moves, and no CPU is in the lists of two pods. If that is not possible, the error
// wraps ErrUnmendable and names the pods.
//
// If no checksum protects the content of a file (State.Unprotected), Repair does not trust content
// that contradicts itself. The remarks with Check set name the pods whose lists may be wrong.
func Repair(old *State, s Setup, pods Pods) (*State, []Remark, error) {
	r := repair{setup: s, pods: pods}
	now, err := r.state(old)
	if why, is := old.Unprotected[kubeletstate.CPUManager]; is && errors.Is(err, ErrUnmendable) {
		err = fmt.Errorf("%w. The content of the CPU file is not protected (%s), so that any list in it may be wrong: %s", err, why, compareCPUs)
	}
	if err != nil {
		return nil, nil, err
	}
	return now, r.remarks, nil
}

type repair struct {
	conversion
	setup Setup
	pods  Pods
}

func (r *repair) state(old *State) (*State, error) {
	living := r.living(old)
	if err := r.checkUnprotected(old, living); err != nil {
		return nil, err
	}
	now, remarks, err := Convert(living, r.setup.Kubelet, r.pods.Owners)
	if err != nil {
		return nil, err
	}
	r.remarks = append(r.remarks, remarks...)
	if now.CPU != nil {
		if err := r.cpu(now.CPU); err != nil {
			return nil, err
		}
	}
	if now.Memory != nil {
		if err := r.memory(old.Memory, now.Memory); err != nil {
			return nil, err
		}
	}
	return now, nil
}

// living returns a copy of the state without the pods that are gone. It replaces a node shared pool
// that does not parse by an empty one, because the pool is computed again anyway. It does not
// change old.
func (r *repair) living(old *State) *State {
	out := &State{}
	gone := func(uid string) bool { return r.pods.Alive != nil && !r.pods.Alive(uid) }
	for _, uid := range old.Pods() {
		if gone(uid) {
			r.lose(uid, "is not there any more: what it had is free again")
		}
	}
	if c := old.CPU; c != nil {
		out.CPU = &kubeletstate.CPU{Policy: c.Policy, Default: c.Default, Entries: without(c.Entries, gone), Pools: without(c.Pools, gone), ByID: c.ByID}
		if _, err := cpuset.Parse(c.Default); err != nil {
			out.CPU.Default = ""
			r.remark("", "the node shared pool was no list of CPUs: %q", c.Default)
		}
	}
	if m := old.Memory; m != nil {
		out.Memory = &kubeletstate.Memory{Policy: m.Policy, Nodes: m.Nodes, Entries: without(m.Entries, gone), Pools: without(m.Pools, gone)}
	}
	return out
}

func without[V any](m map[string]V, gone func(uid string) bool) map[string]V {
	out := maps.Clone(m)
	maps.DeleteFunc(out, func(uid string, _ V) bool { return gone(uid) })
	return out
}

// cpu corrects the CPU file in place for the machine and the policy.
func (r *repair) cpu(c *kubeletstate.CPU) error {
	if !r.setup.Policy.StaticCPU {
		if c.Policy != "none" || c.HasEntries() {
			r.lose("", "the CPU policy is none: no CPU is exclusive any more; containers keep their cpusets until they are created again")
		}
		*c = kubeletstate.CPU{Policy: "none"}
		return nil
	}
	if c.Policy != "static" {
		r.remark("", "the CPU policy was %s and is static: pods get CPUs of their own when the kubelet admits them again", c.Policy)
		c.Policy = "static"
	}
	b, err := readLists(c)
	if err != nil {
		return notAList(err)
	}
	if err := r.present(c, b); err != nil {
		return err
	}
	if b, err = readLists(c); err != nil {
		return err
	}
	all, sets := b.all(), byPod(b)
	uids := slices.Sorted(maps.Keys(sets))
	for i, uid := range uids { // No CPU may be in the lists of two pods.
		for _, other := range uids[i+1:] {
			if both := sets[uid].Intersection(sets[other]); !both.IsEmpty() {
				return fmt.Errorf("%w: %s in the lists of two pods, %s: delete pod %s or pod %s and name the others with --pods",
					ErrUnmendable, are(both), has(all, both), uid, other)
			}
		}
	}
	if both := r.setup.Policy.ReservedCPUs.Intersection(union(all)); !both.IsEmpty() {
		return fmt.Errorf("%w: %s reserved now and in use, %s: reserve others, or delete these pods and name the others with --pods", ErrUnmendable, are(both), has(all, both))
	}
	shared := sharable(r.setup).Difference(union(all))
	if shared.IsEmpty() && len(b.entries) > 0 {
		return fmt.Errorf("%w: every CPU is a pod's, and the kubelet does not start on an empty node shared pool: delete one of them and name the others with --pods", ErrUnmendable)
	}
	if more := shared.Difference(b.shared); !more.IsEmpty() {
		r.remark("", "back to the node shared pool: %s", cpus(more))
	}
	if less := b.shared.Difference(shared); !less.IsEmpty() {
		r.remark("", "out of the node shared pool: %s, as a pod's, reserved, or not on this machine", cpus(less))
	}
	c.Default = shared.String()
	return nil
}

// notAList returns the error for a list that does not parse. The error names the pod.
func notAList(err error) error {
	return fmt.Errorf("%w: %w: delete that pod and name the others with --pods", ErrUnmendable, err)
}

// present removes CPUs that the machine does not have.
func (r *repair) present(c *kubeletstate.CPU, b *cpuLists) error {
	there := r.setup.Machine.AllCPUs()
	for _, e := range b.entries {
		left := e.cpus.Intersection(there)
		switch {
		case left.Equal(e.cpus):
			continue
		case left.IsEmpty():
			return fmt.Errorf("%w: %s has CPUs %s, none of which the machine has: delete the pod and name the others with --pods", ErrUnmendable, e, e.cpus)
		}
		r.lose(e.uid, "container %s loses %s, which the machine does not have, and keeps %s", e.container, cpus(e.cpus.Difference(left)), left)
		c.Entries[e.uid] = maps.Clone(c.Entries[e.uid])
		c.Entries[e.uid][e.container] = left.String()
	}
	for _, p := range b.pools {
		c.Pools[p.uid] = p.cpus.Intersection(there)
	}
	return nil
}

// memory corrects the memory file in place for the machine and the policy.
func (r *repair) memory(old, m *kubeletstate.Memory) error {
	if !r.setup.Policy.StaticMemory {
		if m.Policy != "None" || len(m.Entries) > 0 {
			r.lose("", "the memory policy is None: no memory is counted any more; containers keep their NUMA nodes until they are created again")
		}
		*m = kubeletstate.Memory{Policy: "None"}
		return nil
	}
	if m.Policy != "Static" {
		r.remark("", "the memory policy was %s and is Static: pods are pinned when the kubelet admits them again", m.Policy)
		m.Policy = "Static"
	}
	capacity, err := memory.NewCapacity(r.setup.Machine, r.setup.Policy.ReservedMemory)
	if err != nil {
		return err
	}
	r.presentMemory(m, newAccounting(capacity))
	fresh := newAccounting(capacity)
	if err := fresh.chargeAll(m, r.setup.Kubelet.CountsPools()); err != nil {
		return err
	}
	for _, line := range accounting(old.Nodes).differences(fresh) {
		r.remark("", "memory accounting: %s", line)
	}
	m.Nodes = fresh
	return nil
}

// presentMemory drops blocks of memory that the machine does not have.
func (r *repair) presentMemory(m *kubeletstate.Memory, machine accounting) {
	fits := func(b kubeletstate.Block) bool {
		return !slices.ContainsFunc(b.Nodes, func(id int) bool { return machine[id] == nil || machine[id].Tables[b.Type] == nil })
	}
	keep := func(uid, who string, list []kubeletstate.Block) []kubeletstate.Block {
		kept := make([]kubeletstate.Block, 0, len(list))
		for _, b := range list {
			if fits(b) {
				kept = append(kept, b)
				continue
			}
			r.lose(uid, "%s loses its claim to %s of %s on NUMA nodes %s, which the machine does not have", who, request.Bytes(b.Size), b.Type, numbers(b.Nodes))
		}
		return kept
	}
	for uid, containers := range m.Entries {
		m.Entries[uid] = maps.Clone(containers)
		for _, name := range slices.Sorted(maps.Keys(containers)) {
			m.Entries[uid][name] = keep(uid, "container "+name, containers[name])
		}
	}
	for uid, list := range m.Pools {
		m.Pools[uid] = keep(uid, "its pool", list)
	}
}

// ErrRejected is wrapped by the error of Check.
var ErrRejected = errors.New("the kubelet would not start with it")

// Check verifies files. It returns an error with the faults if the kubelet would not start on one
// of them.
func Check(files map[kubeletstate.Manager][]byte, s Setup) error {
	var faults []string
	for _, m := range slices.Sorted(maps.Keys(files)) {
		d := Verify(m, files[m], s)
		for _, f := range d.Findings {
			if f.Level == Fault {
				faults = append(faults, f.What)
			}
		}
	}
	if len(faults) > 0 {
		return fmt.Errorf("%w: %s", ErrRejected, strings.Join(faults, "; "))
	}
	return nil
}
