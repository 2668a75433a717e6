package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/request"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
)

// ErrUnmendable is wrapped by the error for a state from which no file can be made on which the
// kubelet would start without a change to a running pod.
var ErrUnmendable = errors.New("cannot be done without touching a running pod")

// State is the content of the state files of a node. A field is nil if its file does not exist.
type State struct {
	CPU    *kubeletstate.CPU
	Memory *kubeletstate.Memory
	// Unprotected maps a file to the reason why a change of its content would not have been
	// detected: its checksum is broken, or it has none. Files that are not in the map are intact.
	Unprotected map[kubeletstate.Manager]string
	// Devices are the devices of device plugins that containers have, by the UID of the pod and the
	// name of the container. They are in none of the two files, and only ToPaddock reads them.
	Devices map[string]map[string][]device.Assigned
}

// Add adds a file to the state. The state must not yet have a file of the same manager.
func (s *State) Add(f *kubeletstate.File) {
	if why := f.Unprotected(); why != "" {
		if s.Unprotected == nil {
			s.Unprotected = map[kubeletstate.Manager]string{}
		}
		s.Unprotected[f.Manager] = why
	}
	if f.Manager == kubeletstate.MemoryManager {
		s.Memory = f.Memory
	} else {
		s.CPU = f.CPU
	}
}

// AddRead adds a file as a kubelet has read it.
func (s *State) AddRead(l *kubeletstate.Loaded) {
	if l.CPU != nil {
		s.CPU = l.CPU
	}
	if l.Memory != nil {
		s.Memory = l.Memory
	}
}

// Drop releases what pods have that are not alive, as the kubelet does before it admits the next
// pod. It returns their UIDs in ascending order. A node shared pool that is not a list of CPUs
// stays as it is.
func (s *State) Drop(alive func(uid string) bool) []string {
	gone := slices.DeleteFunc(s.Pods(), alive)
	if len(gone) == 0 {
		return nil
	}
	dead := func(uid string) bool { return slices.Contains(gone, uid) }
	if c := s.CPU; c != nil {
		left := &kubeletstate.CPU{Policy: c.Policy, Default: c.Default, Entries: without(c.Entries, dead), Pools: without(c.Pools, dead), ByID: c.ByID}
		had, has := assignedTo(c), assignedTo(left)
		if shared, err := cpuset.Parse(c.Default); err == nil {
			left.Default = shared.Union(had.Difference(has)).String()
		}
		s.CPU = left
	}
	if m := s.Memory; m != nil {
		s.Memory = &kubeletstate.Memory{Policy: m.Policy, Nodes: m.Nodes, Entries: without(m.Entries, dead), Pools: without(m.Pools, dead)}
	}
	return gone
}

// assignedTo returns all CPUs of pods. Lists that are not CPUs do not count.
func assignedTo(c *kubeletstate.CPU) cpuset.Set {
	var all cpuset.Set
	for _, pool := range c.Pools {
		all = all.Union(pool)
	}
	for _, containers := range c.Entries {
		for _, list := range containers {
			if set, err := cpuset.Parse(list); err == nil {
				all = all.Union(set)
			}
		}
	}
	return all
}

// Pods returns the UIDs of all pods that have any assignment, in ascending order.
func (s *State) Pods() []string {
	uids := map[string]bool{}
	if s.CPU != nil {
		addKeys(uids, s.CPU.Entries)
		addKeys(uids, s.CPU.Pools)
	}
	if s.Memory != nil {
		addKeys(uids, s.Memory.Entries)
		addKeys(uids, s.Memory.Pools)
	}
	return slices.Sorted(maps.Keys(uids))
}

func addKeys[V any](set map[string]bool, m map[string]V) {
	for k := range m {
		set[k] = true
	}
}

// Encode returns the files as the kubelet would write them.
func (s *State) Encode(k kubeletstate.Kubelet) (map[kubeletstate.Manager][]byte, error) {
	files := map[kubeletstate.Manager][]byte{}
	var err error
	if s.CPU != nil {
		if files[kubeletstate.CPUManager], err = kubeletstate.EncodeCPU(s.CPU, k.Writes(kubeletstate.CPUManager)); err != nil {
			return nil, err
		}
	}
	if s.Memory != nil {
		if files[kubeletstate.MemoryManager], err = kubeletstate.EncodeMemory(s.Memory, k.Writes(kubeletstate.MemoryManager)); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// Remark describes something that a conversion or a repair does to one pod or, if UID is empty, to
// the node.
type Remark struct {
	UID string
	// Lost is set if the new state lacks something of the old one.
	Lost bool
	// Check is set if nothing was changed, but a person must compare the content with the running
	// containers before the kubelet starts.
	Check bool
	What  string
}

// Owner is the container that a V1 file identifies by its id.
type Owner struct{ UID, Container string }

// Convert converts the state for the files of another kubelet and returns remarks about the
// differences. owners maps container ids to containers, for files of V1. Everything else in the old
// state is kept. The remarks name everything for which the new state has no place.
func Convert(old *State, to kubeletstate.Kubelet, owners map[string]Owner) (*State, []Remark, error) {
	c := conversion{pools: to.CountsPools()}
	s := &State{}
	if old.CPU != nil {
		cpu, err := c.byPod(old.CPU, owners)
		if err != nil {
			return nil, nil, err
		}
		s.CPU = c.cpu(cpu)
	}
	if old.Memory != nil {
		s.Memory = c.memory(old.Memory)
	}
	slices.SortStableFunc(c.remarks, func(a, b Remark) int { return cmp.Compare(a.UID, b.UID) })
	return s, c.remarks, nil
}

// conversion collects the remarks.
type conversion struct {
	// pools is set if the new files have a place for pools.
	pools   bool
	remarks []Remark
}

func (c *conversion) lose(uid, format string, args ...any) {
	c.remarks = append(c.remarks, Remark{UID: uid, Lost: true, What: fmt.Sprintf(format, args...)})
}

func (c *conversion) remark(uid, format string, args ...any) {
	c.remarks = append(c.remarks, Remark{UID: uid, What: fmt.Sprintf(format, args...)})
}

// byPod assigns the entries of a V1 file to their pods (R-ST-32).
func (c *conversion) byPod(old *kubeletstate.CPU, owners map[string]Owner) (*kubeletstate.CPU, error) {
	if len(old.ByID) == 0 {
		return old, nil
	}
	out := &kubeletstate.CPU{Policy: old.Policy, Default: old.Default, Entries: map[string]map[string]string{}}
	var missing []string
	for _, id := range slices.Sorted(maps.Keys(old.ByID)) {
		owner, known := owners[id]
		if !known {
			missing = append(missing, id)
			continue
		}
		if out.Entries[owner.UID] == nil {
			out.Entries[owner.UID] = map[string]string{}
		}
		out.Entries[owner.UID][owner.Container] = old.ByID[id]
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("the CPU file is of V1, which knows containers by id, and no pod is known that has %s: name the running pods, with their status, as --pods",
			strings.Join(missing, ", "))
	}
	return out, nil
}

// cpu drops the pools if the new file has no place for them. Containers keep the CPUs that they
// have from a pool, and the rest returns to the node shared pool.
func (c *conversion) cpu(old *kubeletstate.CPU) *kubeletstate.CPU {
	out := &kubeletstate.CPU{Policy: old.Policy, Default: old.Default, Entries: old.Entries, Pools: old.Pools}
	if c.pools || len(old.Pools) == 0 {
		return out
	}
	out.Pools = nil
	b, err := readLists(old)
	if err != nil { // the list stays as it is; Verify for the new kubelet reports what to do about it
		for _, uid := range slices.Sorted(maps.Keys(old.Pools)) {
			c.lose(uid, "its pool %s is no longer known; the node shared pool is left as it is, since %v", old.Pools[uid], err)
		}
		return out
	}
	shared := b.shared
	for _, p := range b.pools {
		var own cpuset.Builder
		for _, e := range b.entries {
			if e.uid == p.uid {
				own.AddSet(e.cpus)
			}
		}
		c.remark(p.uid, "its pool %s is no longer known; its containers keep their CPUs of it", p.cpus)
		if rest := p.cpus.Difference(own.Set()); !rest.IsEmpty() {
			shared = shared.Union(rest)
			c.lose(p.uid, "of its pool %s no container's: back to the node shared pool", are(rest))
		}
	}
	out.Default = shared.String()
	return out
}

// memory drops the pools if the new file has no place for them. The new kubelet adds up the blocks
// of all containers, so memory that containers share must not be counted twice. Each block is
// reduced to what is left of the pool, if necessary to zero, and keeps its NUMA nodes (R-MEM-80).
func (c *conversion) memory(old *kubeletstate.Memory) *kubeletstate.Memory {
	out := &kubeletstate.Memory{Policy: old.Policy, Nodes: old.Nodes, Entries: old.Entries, Pools: old.Pools}
	if !c.pools && len(old.Pools) > 0 {
		out.Pools, out.Entries = nil, maps.Clone(old.Entries)
		for _, uid := range slices.Sorted(maps.Keys(old.Pools)) {
			if len(old.Entries[uid]) == 0 {
				c.lose(uid, "its pool of memory is no container's: it is free again")
				continue
			}
			out.Entries[uid] = c.withinPool(uid, old.Entries[uid], old.Pools[uid])
		}
	}
	fresh := accounting(old.Nodes).emptied()
	if err := fresh.chargeAll(out, c.pools); err != nil {
		return out // it is already wrong for its own machine; Verify for the target reports that
	}
	if len(old.Nodes) == 0 || len(accounting(old.Nodes).differences(fresh)) == 0 {
		return out
	}
	if c.pools || len(old.Pools) == 0 {
		c.remark("", "the memory accounting is rebuilt from the entries of the pods that remain")
	}
	out.Nodes = fresh
	return out
}

// withinPool reduces the blocks of a pod's containers to what its pool has.
func (c *conversion) withinPool(uid string, containers map[string][]kubeletstate.Block, pool []kubeletstate.Block) map[string][]kubeletstate.Block {
	left := map[string]uint64{}
	for _, b := range pool {
		left[b.Type] += b.Size
	}
	out := map[string][]kubeletstate.Block{}
	for _, name := range slices.Sorted(maps.Keys(containers)) {
		blocks := slices.Clone(containers[name])
		for i := range blocks {
			b := &blocks[i]
			if b.Size > left[b.Type] {
				c.lose(uid, "container %s shares %s of %s with others of its pod, which can only be counted once: it keeps %s and its NUMA nodes %s",
					name, request.Bytes(b.Size), b.Type, request.Bytes(left[b.Type]), numbers(b.Nodes))
				b.Size = left[b.Type]
			}
			left[b.Type] -= b.Size
		}
		out[name] = blocks
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		if left[name] > 0 {
			c.lose(uid, "%s of %s of its pool are no container's: they are free again", request.Bytes(left[name]), name)
		}
	}
	return out
}

// Fate describes what the new kubelet does with a running pod when it starts on the state that old
// was converted to.
func Fate(old *State, uid string, to kubeletstate.Kubelet) string {
	cpu, memory := false, false
	if old.CPU != nil {
		_, cpu = old.CPU.Pools[uid]
	}
	if old.Memory != nil {
		_, memory = old.Memory.Pools[uid]
	}
	switch {
	case !cpu && !memory:
		return "keeps what it has"
	case to.PodLevelManagers:
		return "is admitted again when the kubelet starts: it gets a second pool and the CPUs of the first are lost, or it is rejected (kubernetes#140989): drain it before"
	}
	return "keeps the CPUs and memory of its containers; created again, it gets none of its own, because this kubelet makes no pools"
}
