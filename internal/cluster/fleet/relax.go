package fleet

import (
	"slices"

	"github.com/paddock-project/paddock/internal/cluster/packing"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Relaxed describes a kind of node to package packing: as what it can hold at most. Needs are parts
// only as far as the policy of the node makes sure of it:
//
//   - Under single-numa-node, all that is aligned as one is on one NUMA node: a pod under scope
//     pod, and each container under scope container.
//   - Under restricted, so is what fits on one NUMA node that has no pods, in all resources. Other
//     pods may be on several NUMA nodes, and count against the whole node only.
//   - Under best-effort and none, under CPU option align-by-socket, and where a kubelet decides,
//     which may assign something twice, every pod counts against the whole node only.
type Relaxed struct {
	node  *Node
	state *node.State // without pods
	// aligned is false if the NUMA nodes do not count.
	aligned bool
	others  []request.Resource // devices and huge pages, after CPU time and memory
	cells   []packing.Size
	whole   packing.Size
	// pinned is set if every pod has memory that is pinned. A NUMA node that has a part of the
	// memory of one pod then has no memory of a pod that has it on one NUMA node (R-MEM-22).
	pinned bool
}

// Relax describes a kind of node for pods.
func Relax(n *Node, pods []Shape) (*Relaxed, error) {
	empty, err := node.New(n.State.Machine(), n.State.Policy())
	if err == nil {
		empty, err = empty.WithDevices(n.State.Devices().Inventory())
	}
	if err != nil {
		return nil, err
	}
	policy := n.State.Policy()
	return relax(n, empty, pods, policy.Behavior == (node.Behavior{}) && !policy.CPU.AlignBySocket &&
		(policy.Topology == node.TopologySingleNUMANode || policy.Topology == node.TopologyRestricted)), nil
}

// relax describes a kind of node, of which empty is the state without pods. If aligned is set, its
// NUMA nodes count.
func relax(n *Node, empty *node.State, pods []Shape, aligned bool) *Relaxed {
	r := &Relaxed{node: n, state: empty, aligned: aligned}
	add := func(asks Amounts) {
		for _, a := range asks.Others {
			if !slices.Contains(r.others, a.Resource) {
				r.others = append(r.others, a.Resource)
			}
		}
	}
	for i := range pods { // All kinds of a fleet have the same resources, whatever they read.
		add(pods[i].Pod.Asks)
		for k := range pods[i].Pod.Readings {
			add(pods[i].Pod.Readings[k].Asks)
		}
	}
	slices.Sort(r.others)
	free := n.Allocatable
	free.Milli, free.Memory = free.Milli-n.Used.Milli, free.Memory-n.Used.Memory
	r.whole = r.sizeOf(free)
	if !r.aligned {
		r.cells = []packing.Size{r.whole}
		return r
	}
	for _, m := range empty.Machine().Nodes() {
		r.cells = append(r.cells, r.roomOf(empty, m.ID))
	}
	r.pinned = empty.Policy().StaticMemory && !slices.ContainsFunc(pods, func(s Shape) bool { return !r.pins(s.Pod.On(n)) })
	for _, c := range r.cells { // No NUMA node gives more than the node.
		for k := range c {
			c[k] = min(c[k], r.whole[k])
		}
	}
	return r
}

// Node returns the node for packing.
func (r *Relaxed) Node(price float64) packing.Node {
	return packing.Node{Price: price, Cells: r.cells, Whole: r.whole}
}

// plenty is an amount of a resource that a NUMA node does not limit.
const plenty = 1 << 60

// sizeOf returns amounts as a size: CPU time in thousandths, bytes, and devices.
func (r *Relaxed) sizeOf(a Amounts) packing.Size {
	size := packing.Size{max(0, a.Milli), max(0, a.Memory)}
	for _, o := range r.others {
		n, _ := a.Others.Get(o)
		size = append(size, max(0, n))
	}
	return size
}

// roomOf returns what a NUMA node has for pods in a state. A resource that the NUMA node does not
// limit has plenty.
func (r *Relaxed) roomOf(s *node.State, id int) packing.Size {
	size := packing.Size{0, plenty}
	if n, has := s.Machine().Node(id); has {
		size[0] = int64(n.CPUs.IntersectionLen(s.AvailableCPUs())) * 1000
	}
	if s.Policy().StaticMemory {
		size[1] = s.Memory().Free(mask.Of(id), request.Memory)
	}
	for _, o := range r.others {
		size = append(size, roomFor(s, o, id))
	}
	return size
}

// taking is what a pod takes of the NUMA nodes. It is known if it is nothing, or if one NUMA node
// that has room for everything gives everything.
type taking struct {
	size  packing.Size
	known bool
}

// takingOf returns what a pod takes.
func (r *Relaxed) takingOf(pod *Pod, policy node.Policy) taking {
	if policy.Scope == node.ContainerScope && len(pod.Containers) > 1 || policy.Topology == node.TopologyNone ||
		!takesAtOnce(&pod.Pod) || policy.CPU.AlignBySocket || policy.Behavior != (node.Behavior{}) {
		return taking{}
	}
	d := r.state.Demand(&pod.Pod)
	ask := &d.Together
	if d.Path == node.ByContainer {
		ask = &d.Containers[0].Ask
	}
	return taking{r.askOf(ask), len(ask.Given) == 0 && len(ask.Memory) <= 1}
}

// roomFor returns the free devices of a resource near a NUMA node. Huge pages, and resources of
// which some device reports no NUMA node, have plenty.
func roomFor(s *node.State, resource request.Resource, id int) int64 {
	counts := s.Devices().Counts(resource)
	if len(counts) == 0 || slices.ContainsFunc(counts, func(c device.Count) bool { return c.Node == device.NoNode }) {
		return plenty
	}
	for _, c := range counts {
		if c.Node == id {
			return int64(c.Free)
		}
	}
	return 0
}

// Need returns what a pod needs. never is set if no node takes the pod.
func (r *Relaxed) Need(pod *Pod, never bool) packing.Need {
	pod = pod.On(r.node)
	need := packing.Need{Never: never, Whole: r.sizeOf(pod.Asks)}
	if !r.aligned {
		need.Parts = []packing.Size{need.Whole}
		return need
	}
	d := r.state.Demand(&pod.Pod)
	switch d.Path {
	case node.ByContainer:
		for i := range d.Containers {
			if pod.Containers[i].Type != request.Init && r.confined(&d.Containers[i].Ask) {
				need.Parts = append(need.Parts, r.askOf(&d.Containers[i].Ask))
			}
		}
	case node.AsPool:
		if r.confined(&d.Together) {
			need.Parts = append(need.Parts, r.askOf(&d.Together))
		}
	case node.AsOne:
		if r.confined(&d.Together) {
			need.Parts = append(need.Parts, r.askOf(ownOf(pod, &d)))
		}
	case node.Unaligned:
	}
	together := make(packing.Size, len(need.Whole))
	for _, part := range need.Parts {
		for k, x := range part {
			together[k] += x
		}
	}
	if !within(together, need.Whole) { // A pod-level budget that is smaller than what containers request.
		need.Parts = nil
		return need
	}
	if r.pinned && len(need.Parts) == 0 {
		need.Apart = r.widthOf(&d)
	}
	need.Parts = slices.DeleteFunc(need.Parts, func(s packing.Size) bool { return !slices.ContainsFunc(s, func(x int64) bool { return x > 0 }) })
	return need
}

// takes reports whether the node without pods takes a pod.
func (r *Relaxed) takes(pod *Pod) bool {
	if pod.Allowed != nil && !pod.Allowed(r.node) {
		return false
	}
	pod = pod.On(r.node)
	return r.node.Allocatable.Short(Amounts{}, pod.Asks) == "" && r.state.Plan(pod.Pod).Rejection == nil
}

// pins reports whether all that a pod has is with memory that is pinned.
func (r *Relaxed) pins(pod *Pod) bool {
	has := func(a *node.Ask) bool { bytes, _ := a.Memory.Get(request.Memory); return bytes > 0 }
	d := r.state.Demand(&pod.Pod)
	if d.Path == node.ByContainer {
		return !slices.ContainsFunc(d.Containers, func(c node.ContainerDemand) bool { return !has(&c.Ask) })
	}
	return has(&d.Together) && has(ownOf(pod, &d))
}

// widthOf returns the number of NUMA nodes on which the memory of a pod is if it is more than one,
// and otherwise 0. It is the smallest number that could have so much: others are not preferred
// (R-HINT-32), and policy restricted rejects the pod there.
func (r *Relaxed) widthOf(d *node.Demand) int {
	ask := &d.Together
	if d.Path == node.ByContainer {
		if len(d.Containers) != 1 {
			return 0
		}
		ask = &d.Containers[0].Ask
	}
	bytes, _ := ask.Memory.Get(request.Memory)
	if len(ask.Memory) > 1 { // Huge pages count for the width, too.
		return 0
	}
	var all []int64
	for _, c := range r.cells {
		all = append(all, c[1])
	}
	slices.Sort(all)
	for k := range all {
		if bytes -= all[len(all)-1-k]; bytes <= 0 && k > 0 {
			return k + 1
		}
		if bytes <= 0 {
			return 0
		}
	}
	return 0
}

// ownOf returns what a pod that is aligned as one has to itself as long as it runs. What init
// containers need more may be left to other pods.
func ownOf(pod *Pod, d *node.Demand) *node.Ask {
	var own node.Ask
	for i := range d.Containers {
		if pod.Containers[i].Type != request.Init {
			own = own.Plus(&d.Containers[i].Ask)
		}
	}
	return &own
}

// askOf returns the size of what is aligned as one.
func (r *Relaxed) askOf(a *node.Ask) packing.Size {
	memory, _ := a.Memory.Get(request.Memory)
	size := packing.Size{int64(a.CPUs) * 1000, memory}
	for _, o := range r.others {
		n, _ := a.Devices.Get(o)
		if n > 0 && roomFor(r.state, o, 0) == plenty {
			n = 0
		}
		size = append(size, n)
	}
	return size
}

// confined reports whether what is aligned as one is on one NUMA node wherever it is admitted.
// Under policy restricted, that is so if a single NUMA node could offer each resource: then only
// hints of one NUMA node are preferred, and all must agree (R-HINT-32, R-HINT-43).
func (r *Relaxed) confined(a *node.Ask) bool {
	if len(a.Given) > 0 {
		return false
	}
	if r.node.State.Policy().Topology == node.TopologySingleNUMANode {
		return true
	}
	for _, m := range a.Memory { // Huge pages are not a resource of the cells.
		if m.Resource != request.Memory && m.Value > 0 {
			return false
		}
	}
	for k, x := range r.askOf(a) {
		if !slices.ContainsFunc(r.cells, func(c packing.Size) bool { return x <= c[k] }) {
			return false
		}
	}
	return true
}
