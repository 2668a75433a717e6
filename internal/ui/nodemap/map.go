// Package nodemap draws a node and what is assigned to its pods: as SVG, as a page that needs no
// scripts, and with the characters of a terminal. One layout serves all of them. A map is made from
// a state and decides nothing. The same state gives the same bytes.
package nodemap

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// Use describes what a CPU is used for.
type Use string

// The uses of a CPU, of a part of a bar and of a device.
const (
	UseNone      Use = "unmanaged" // the CPU policy is none: every container runs on every CPU
	UseShared    Use = "shared"    // in the node shared pool, and free to become exclusive; free memory and devices
	UseIsolated  Use = "isolated"  // isolated and free to become exclusive, in no shared pool
	UseReserved  Use = "reserved"  // for the system; containers without exclusive CPUs may run there too
	UseExclusive Use = "exclusive" // exclusive to one container
	UsePooled    Use = "pooled"    // shared by containers of one pod
	UseIdle      Use = "idle"      // in a pod's pool, but no container of the pod runs there
	UseMoving    Use = "moving"    // the new place of a pod that is being moved
	UseLost      Use = "lost"      // neither free nor of a pod, by a fault of a kubelet
	UseUnhealthy Use = "unhealthy" // a device that is not given out
)

// lostSign is in the cells of CPUs that are neither free nor of a pod.
const lostSign = "?"

// isolatedSign is in the cells of CPUs that are isolated and free.
const isolatedSign = "i"

// ofPod reports whether a CPU or device with this use belongs to a pod.
func (u Use) ofPod() bool {
	return u == UseExclusive || u == UsePooled || u == UseIdle || u == UseMoving
}

// Map is a node with what is assigned to its pods, ready to be drawn. It keeps the state from which
// it was made.
type Map struct {
	Name     string `json:"machine"`
	Policy   string `json:"policy"`
	Revision uint64 `json:"revision"`
	// CPUs are in ascending order of ID.
	CPUs []CPU `json:"cpus"`
	// Pods are in order of admission.
	Pods []Pod `json:"pods"`
	// Devices are in ascending order of resource or driver, pool and name.
	Devices []Device `json:"devices,omitempty"`
	// Caches is set if the node divides its L3 caches (cache-allocation).
	Caches *Caches `json:"caches,omitempty"`

	state  *node.State
	byID   map[int]int // positions in CPUs
	folded bool        // without the legend
	width  int         // of the picture in pixels; 0 is the usual width
	arrows []Arrow
}

// Pod is a pod on the map.
type Pod struct {
	// Tag is the text in the pod's cells. Slot is the number of its colour. They are "" and -1 for
	// a pod that is assigned nothing.
	Tag  string `json:"tag,omitempty"`
	Slot int    `json:"slot"`
	// Colour is the position in the palette, which repeats after its last colour. It is the slot,
	// or the number of the pod's group.
	Colour int `json:"colour"`
	// Workload is the pod's name without the suffix that a controller added. It is derived from the
	// name because the kubelet does not know controllers.
	Workload string `json:"workload"`
	// Since is the revision that admitted the pod.
	Since uint64 `json:"sinceRevision"`
	// CPUs and Memory are everything that is assigned to the pod or to its containers.
	CPUs   string           `json:"cpus,omitempty"`
	Memory []view.PlanBlock `json:"memory,omitempty"`
	// MovingTo are the CPUs to which the pod is being moved, and MovingFrom those that it leaves.
	// CPUs includes both places during a move.
	MovingTo   string `json:"movingTo,omitempty"`
	MovingFrom string `json:"movingFrom,omitempty"`
	// moving describes for people where the pod is being moved to.
	moving string
	view.PlanPod
}

// CPU is a hardware thread on the map.
type CPU struct {
	ID     int `json:"cpu"`
	Core   int `json:"core"`
	Node   int `json:"numaNode"`
	Socket int `json:"socket"`
	Use    Use `json:"use"`
	// Reserved CPUs may also be assigned to pods that were admitted before the reservation.
	Reserved bool `json:"reserved,omitempty"`
	// Isolated is set for CPUs of the boot parameter isolcpus.
	Isolated bool `json:"isolated,omitempty"`
	// UID is the UID of the pod that has the CPU. Container is the container that has the CPU
	// exclusively. It is empty if the pod's containers share the CPU.
	UID       string `json:"uid,omitempty"`
	Container string `json:"container,omitempty"`
	Tag       string `json:"tag,omitempty"`
	// Interruptions is the number of interruptions of the CPU per second. An agent counts them for
	// exclusive CPUs.
	Interruptions float64 `json:"interruptionsPerSecond,omitempty"`
	pod           int     // position in Pods, or -1
}

// noPod is the position that means no pod, and the slot of pods without a colour.
const noPod = -1

// Of returns the map of a state. name and policy are for people. slots are parallel to the grants
// and give each pod its place in the palette; see NextSlots.
func Of(name, policy string, s *node.State, slots []int32) Map {
	m := Map{Name: name, Policy: policy, Revision: s.Generation(), state: s, byID: map[int]int{}, Pods: []Pod{}}
	for i, g := range s.Grants() {
		pod := Pod{
			Slot: int(slots[i]), Since: g.Sequence, CPUs: g.CPUs().String(), Memory: view.SumOf(g.Charged()),
			PlanPod: view.PodOf(&node.Plan{Pod: g.Pod, Grant: g}, s),
		}
		if g.Moving != nil {
			a := underWay(g)
			pod.MovingTo, pod.MovingFrom = a.To.String(), a.From.String()
			of, _, to := a.places()
			pod.moving = of + to
			m.arrows = append(m.arrows, a)
		}
		pod.Colour, pod.Workload = pod.Slot, generated.ReplaceAllString(pod.Pod, "")
		if pod.Slot != noPod {
			pod.Tag = tagOf(pod.Slot)
		}
		m.Pods = append(m.Pods, pod)
	}
	slices.SortStableFunc(m.Pods, func(a, b Pod) int { return cmp.Compare(a.Since, b.Since) })
	policyOf := s.Policy()
	for _, c := range s.Machine().CPUs() {
		use, reserved := UseShared, policyOf.ReservedCPUs.Has(c.ID)
		switch {
		case !policyOf.StaticCPU:
			use = UseNone
		case reserved:
			use = UseReserved
		case s.IsolatedCPUs().Has(c.ID):
			use = UseIsolated
		}
		m.byID[c.ID] = len(m.CPUs)
		m.CPUs = append(m.CPUs, CPU{ID: c.ID, Core: c.Core, Node: c.Node, Socket: c.Socket, Use: use, Reserved: reserved, Isolated: s.Machine().Isolation().Isolated.Has(c.ID), pod: noPod})
	}
	for _, r := range s.Residue() {
		for id := range r.CPUs.All() {
			if at, known := m.byID[id]; known {
				m.CPUs[at].Use = UseLost
			}
		}
	}
	for i, pod := range m.Pods {
		g, _ := s.Grant(pod.UID)
		m.occupy(i, g)
	}
	m.findDevices()
	m.findCaches()
	return m
}

// occupy marks the CPUs of a pod. If containers use a CPU one after the other, the one that runs
// longer is shown: a sidecar or app container before an init container.
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
	if g.Moving != nil {
		mark(g.Moving.CPUs(), UseMoving, "", "")
	}
	for _, lasting := range []bool{false, true} {
		for _, use := range []Use{UsePooled, UseExclusive} {
			for i, c := range g.Pod.Containers {
				alone := g.Isolation(i) == node.ContainerIsolation
				if (c.Type != request.Init) != lasting || alone != (use == UseExclusive) {
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

// tagOf returns the name of a slot: A to Z, AA, AB and so on.
func tagOf(slot int) string {
	var letters []byte
	for n := slot + 1; n > 0; n = (n - 1) / 26 {
		letters = append(letters, byte('A'+(n-1)%26))
	}
	slices.Reverse(letters)
	return string(letters)
}

// NextSlots returns a slot for every grant of a state. Grants with CPUs, memory or devices,
// including devices that others chose, get a number of their own, and all other grants get -1. Pods
// that were in the state before keep their number. Others get the lowest free number in order of
// admission, so a pod keeps its colour while it lives. before may be nil.
func NextSlots(before *node.State, slots []int32, s *node.State) []int32 {
	var old []*node.Grant
	if before != nil {
		old = before.Grants()
	}
	grants := s.Grants()
	next := make([]int32, len(grants))
	var fresh []int
	var taken []bool
	for i, g := range grants {
		for len(old) > 0 && old[0].Pod.UID < g.Pod.UID {
			old, slots = old[1:], slots[1:]
		}
		next[i] = noPod
		switch {
		case len(old) > 0 && old[0].Pod.UID == g.Pod.UID && slots[0] != noPod:
			next[i] = slots[0]
			taken = mark(taken, slots[0])
		case !g.CPUs().IsEmpty() || g.HasPool() || len(g.Charged()) > 0 || len(s.DevicesOf(g)) > 0:
			fresh = append(fresh, i)
		}
	}
	slices.SortStableFunc(fresh, func(a, b int) int { return cmp.Compare(grants[a].Sequence, grants[b].Sequence) })
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

// mark sets an element of taken, which grows as needed.
func mark(taken []bool, slot int32) []bool {
	for int(slot) >= len(taken) {
		taken = append(taken, false)
	}
	taken[slot] = true
	return taken
}

// Summary describes in one sentence how full the node is. It counts the node shared pool as all
// other outputs do: all CPUs that no pod has, including the reserved ones.
func (m Map) Summary() string {
	parts := []string{view.Count(len(m.Pods), "pod"), view.Count(len(m.CPUs), "CPU")}
	if !m.state.Policy().StaticCPU {
		return strings.Join(append(parts, "CPUs are not managed"), ", ")
	}
	counts := map[Use]int{}
	for _, c := range m.CPUs {
		counts[c.Use]++
	}
	for _, p := range []struct {
		use  Use
		word string
	}{
		{UseExclusive, "exclusive"},
		{UsePooled, "in pods' pools"},
		{UseIdle, "in pools and out of use"},
		{UseMoving, "for pods that are being moved"},
		{UseLost, "neither free nor assigned"},
		{UseIsolated, "isolated and free"},
	} {
		if n := counts[p.use]; n > 0 {
			parts = append(parts, strconv.Itoa(n)+" "+p.word)
		}
	}
	shared := m.state.SharedCPUs()
	text := strconv.Itoa(shared.Len()) + " in the node shared pool"
	if reserved := shared.IntersectionLen(m.state.Policy().ReservedCPUs); reserved > 0 {
		text += " (" + strconv.Itoa(reserved) + " of them reserved)"
	}
	if c := m.Caches; c != nil {
		text += ", " + strconv.Itoa(c.UsedClasses) + " of " + strconv.Itoa(c.Classes) + " classes of the caches in use"
	}
	return strings.Join(append(parts, text), ", ")
}

// about describes in one sentence where a CPU is and which pod has it.
func (m Map) about(c CPU) string {
	text := m.owner(c)
	if c.Interruptions > 0 {
		text += ", interrupted " + interruptionsText(c.Interruptions) + " times a second"
	}
	return text
}

// owner describes where a CPU is and which pod has it.
func (m Map) owner(c CPU) string {
	text := "CPU " + strconv.Itoa(c.ID) + ", core " + strconv.Itoa(c.Core) + ", NUMA node " + strconv.Itoa(c.Node) +
		", socket " + strconv.Itoa(c.Socket)
	if c.Isolated {
		text += ", isolated"
	}
	text += ": "
	if c.pod != noPod {
		pod := m.Pods[c.pod].Pod
		switch {
		case c.Use == UseExclusive:
			text += "container " + c.Container + " of pod " + pod + " has it alone"
		case c.Use == UsePooled:
			text += "shared by containers of pod " + pod
		case c.Use == UseMoving:
			text += "the new place of pod " + pod + ", which is being moved"
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
		return text + "in the node shared pool, reserved for the system"
	case c.Use == UseIsolated:
		return text + "free, and in no shared pool"
	case c.Use == UseNone:
		return text + "not managed"
	case c.Use == UseLost:
		return text + "neither free nor assigned: no pod gets it"
	}
	return text + "in the node shared pool"
}
