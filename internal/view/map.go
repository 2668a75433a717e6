package view

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Use is what a CPU is used for.
type Use string

// The uses of a CPU, of a part of a bar and of a device.
const (
	UseNone      Use = "unmanaged" // the CPU policy is none: everybody runs everywhere
	UseShared    Use = "shared"    // in the node's shared pool, and free to become exclusive; free memory and devices
	UseReserved  Use = "reserved"  // the system's; containers without CPUs of their own may run there too
	UseExclusive Use = "exclusive" // one container's alone
	UsePooled    Use = "pooled"    // shared by containers of one pod
	UseIdle      Use = "idle"      // in a pod's pool where no container of it runs
	UseUnhealthy Use = "unhealthy" // a device that is not given out
)

// Map is a node with what its pods hold, to be drawn. It keeps the state that it was made of.
type Map struct {
	Name       string `json:"machine"`
	Policy     string `json:"policy"`
	Generation uint64 `json:"generation"`
	// CPUs ascend by id.
	CPUs []MapCPU `json:"cpus"`
	// Pods are in order of admission.
	Pods []MapPod `json:"pods"`

	state *node.State
	byID  map[int]int // positions in CPUs
}

// MapPod is a pod on the map.
type MapPod struct {
	// Tag stands in the cells of the pod, Slot is the number of its colour; "" and -1 for a pod
	// that holds nothing of its own.
	Tag  string `json:"tag,omitempty"`
	Slot int    `json:"slot"`
	// Since is the generation that admitted it.
	Since uint64 `json:"sinceGeneration"`
	// CPUs and Memory are all that it holds, as a pod or by its containers.
	CPUs   string      `json:"cpus,omitempty"`
	Memory []PlanBlock `json:"memory,omitempty"`
	PlanPod
}

// MapCPU is a thread on the map.
type MapCPU struct {
	ID     int `json:"cpu"`
	Core   int `json:"core"`
	Node   int `json:"numaNode"`
	Socket int `json:"socket"`
	Use    Use `json:"use"`
	// Reserved CPUs may also be held, by pods that were there before the reservation.
	Reserved bool `json:"reserved,omitempty"`
	// UID is the pod that holds the CPU. Container is who has it alone; it is empty where the pod's
	// containers share it.
	UID       string `json:"uid,omitempty"`
	Container string `json:"container,omitempty"`
	Tag       string `json:"tag,omitempty"`
	pod       int    // position in Pods, or -1
}

// noPod is the position of no pod, and the slot of pods without a colour.
const noPod = -1

// MapOf makes the map of a state: machine and policy are what people call them. slots, parallel
// to the grants, say which place in the palette a pod has; see NextSlots.
func MapOf(name, policy string, s *node.State, slots []int32) Map {
	m := Map{Name: name, Policy: policy, Generation: s.Generation(), state: s, byID: map[int]int{}, Pods: []MapPod{}}
	for i, g := range s.Grants() {
		pod := MapPod{
			Slot: int(slots[i]), Since: g.Sequence, CPUs: g.CPUs().String(), Memory: sumOf(g.Charged()),
			PlanPod: planPod(&node.Plan{Pod: g.Pod, Grant: g}, s),
		}
		if pod.Slot != noPod {
			pod.Tag = tagOf(pod.Slot)
		}
		m.Pods = append(m.Pods, pod)
	}
	slices.SortStableFunc(m.Pods, func(a, b MapPod) int { return cmp.Compare(a.Since, b.Since) })
	policyOf := s.Policy()
	for _, c := range s.Machine().CPUs() {
		use, reserved := UseShared, policyOf.ReservedCPUs.Has(c.ID)
		switch {
		case !policyOf.StaticCPU:
			use = UseNone
		case reserved:
			use = UseReserved
		}
		m.byID[c.ID] = len(m.CPUs)
		m.CPUs = append(m.CPUs, MapCPU{ID: c.ID, Core: c.Core, Node: c.Node, Socket: c.Socket, Use: use, Reserved: reserved, pod: noPod})
	}
	for i, pod := range m.Pods {
		g, _ := s.Grant(pod.UID)
		m.occupy(i, g)
	}
	return m
}

// occupy marks the CPUs of a pod. Of containers that come after each other on a CPU the one that
// runs longer is shown: a sidecar or app container before an init container.
func (m *Map) occupy(pod int, g *node.Grant) {
	mark := func(set cpuset.Set, use Use, container, suffix string) {
		for id := range set.All() {
			at, known := m.byID[id]
			if !known {
				continue
			}
			c := &m.CPUs[at]
			c.pod, c.UID, c.Use, c.Container, c.Tag = pod, m.Pods[pod].UID, use, container, m.Pods[pod].Tag+suffix
		}
	}
	mark(g.CPUs(), UseIdle, "", "")
	for _, lasting := range []bool{false, true} {
		for _, use := range []Use{UsePooled, UseExclusive} {
			for i, c := range g.Pod.Containers {
				alone := g.Isolation(i) == node.ContainerIsolation
				if (c.Lane != request.Init) != lasting || alone != (use == UseExclusive) {
					continue
				}
				name, suffix := "", ""
				if alone {
					name, suffix = c.Name, strconv.Itoa(i+1)
				}
				mark(g.Containers[i].CPUs, use, name, suffix)
			}
		}
	}
}

// tagOf is the name of a slot: A to Z, AA, AB and so on.
func tagOf(slot int) string {
	var letters []byte
	for n := slot + 1; n > 0; n = (n - 1) / 26 {
		letters = append(letters, byte('A'+(n-1)%26))
	}
	slices.Reverse(letters)
	return string(letters)
}

// NextSlots gives every grant of a state that holds CPUs, memory or devices a number of its own,
// and others -1. Pods that were in the state before keep theirs; others get the lowest that is
// free, in order of admission, so that a pod keeps its colour while it lives. before may be nil.
func NextSlots(before *node.State, slots []int32, s *node.State) []int32 {
	var old []*node.Grant
	if before != nil {
		old = before.Grants()
	}
	next := make([]int32, len(s.Grants()))
	var fresh []int
	var taken []bool
	for i, g := range s.Grants() {
		for len(old) > 0 && old[0].Pod.UID < g.Pod.UID {
			old, slots = old[1:], slots[1:]
		}
		next[i] = noPod
		switch {
		case len(old) > 0 && old[0].Pod.UID == g.Pod.UID && slots[0] != noPod:
			next[i] = slots[0]
			taken = mark(taken, slots[0])
		case holdsAnything(g):
			fresh = append(fresh, i)
		}
	}
	slices.SortStableFunc(fresh, func(a, b int) int { return cmp.Compare(s.Grants()[a].Sequence, s.Grants()[b].Sequence) })
	free := 0
	for _, i := range fresh {
		for free < len(taken) && taken[free] {
			free++
		}
		next[i] = int32(free)
		free++
	}
	return next
}

// mark sets a bit of a list that grows as needed.
func mark(taken []bool, slot int32) []bool {
	for int(slot) >= len(taken) {
		taken = append(taken, false)
	}
	taken[slot] = true
	return taken
}

func holdsAnything(g *node.Grant) bool {
	return !g.CPUs().IsEmpty() || g.HasPool() || len(g.Devices()) > 0 ||
		slices.ContainsFunc(g.Containers, func(c node.ContainerGrant) bool { return len(c.Memory) > 0 })
}

// Summary says in one sentence how full the node is.
func (m Map) Summary() string {
	counts := map[Use]int{}
	for _, c := range m.CPUs {
		counts[c.Use]++
	}
	parts := []string{count(len(m.Pods), "pod"), count(len(m.CPUs), "CPU")}
	if counts[UseNone] > 0 {
		return strings.Join(append(parts, "CPUs are not managed"), ", ")
	}
	for _, p := range []struct {
		use  Use
		word string
	}{
		{UseExclusive, "exclusive"},
		{UsePooled, "in pods' pools"},
		{UseIdle, "in pools and out of use"},
		{UseReserved, "reserved"},
		{UseShared, "in the node shared pool"},
	} {
		if n := counts[p.use]; n > 0 {
			parts = append(parts, strconv.Itoa(n)+" "+p.word)
		}
	}
	return strings.Join(parts, ", ")
}

// about says of a CPU where it is and whose.
func (m Map) about(c MapCPU) string {
	text := "CPU " + strconv.Itoa(c.ID) + ", core " + strconv.Itoa(c.Core) + ", NUMA node " + strconv.Itoa(c.Node) +
		", socket " + strconv.Itoa(c.Socket) + ": "
	if c.pod != noPod {
		pod := m.Pods[c.pod].Pod
		switch {
		case c.Use == UseExclusive:
			text += "container " + c.Container + " of pod " + pod + " has it alone"
		case c.Use == UsePooled:
			text += "shared by containers of pod " + pod
		default:
			text += "in the pool of pod " + pod + ", where no container runs on it"
		}
		if c.Reserved {
			text += "; it is reserved now"
		}
		return text
	}
	switch {
	case c.Use == UseReserved:
		return text + "reserved for the system"
	case c.Use == UseNone:
		return text + "not managed"
	}
	return text + "in the node shared pool"
}
