package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/paddock-project/paddock/internal/cluster/packing"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// fitting is what BestFit knows of a kind of node.
type fitting struct {
	key     string
	relaxed *Relaxed
	// worth is nil if the typical requests are not known.
	worth *packing.Worth
	// largest has the largest amount of each resource on a NUMA node.
	largest packing.Size
}

// worthBudget is the budget of package packing for the worth of room: about a second for 150 kinds
// of pods whose amounts have no common divisor, and far less for most others. With a third of it,
// the pods of the openb trace need 2 nodes more.
const worthBudget = 1_000_000_000

// bare returns a fitting without worth. It does not depend on the pods of the node. Nodes with the
// same key have the same.
func (r *Ranking) bare(of *Node) *fitting {
	n := *of
	n.Used = Amounts{}
	empty, err := node.New(n.State.Machine(), n.State.Policy())
	if err == nil {
		empty, err = empty.WithDevices(n.State.Devices().Inventory())
	}
	if err != nil { // The node has a state, so that this does not happen to it.
		empty = n.State
	}
	f := &fitting{relaxed: relax(&n, empty, r.shapes, true)}
	p := n.State.Policy()
	f.key = fmt.Sprint(f.relaxed.Node(1), f.relaxed.others, p.Topology, p.Scope, p.CPU.AlignBySocket, p.StaticMemory, p.PodLevelResources, p.PodLevelManagers, p.Behavior)
	f.largest = make(packing.Size, len(f.relaxed.whole))
	for _, c := range f.relaxed.cells {
		for k, x := range c {
			f.largest[k] = max(f.largest[k], x)
		}
	}
	return f
}

// Price makes room on nodes of several kinds comparable by what the nodes cost. It must be called
// before the ranking is used. It has an effect on BestFit alone.
func (r *Ranking) Price(nodes []Node, prices []float64) {
	if r.scoring != BestFit || len(r.shapes) == 0 || r.assumed {
		return
	}
	all := make([]*fitting, len(nodes))
	for i := range nodes {
		all[i] = r.bare(&nodes[i])
		r.kinds.price(all[i])
	}
	weigh(all, prices, r.shapes)
}

// weigh sets the worth of room on kinds of nodes: it weighs the typical requests by how badly they
// fit beside the others. Requests that a node without pods does not take do not count. The order of
// the requests does not matter. It takes at most about a second beside a busy core, however many
// requests there are. Other goroutines that need the same kind of node wait for that long. A
// ranking without typical requests, such as that of a scheduler, weighs nothing.
func weigh(all []*fitting, prices []float64, shapes []Shape) {
	byKey, milli := map[string]*packing.Item{}, map[string]int64{}
	for i := range shapes {
		key := shapes[i].Pod.Key()
		if byKey[key] == nil {
			byKey[key] = &packing.Item{}
			for _, f := range all {
				byKey[key].On = append(byKey[key].On, f.relaxed.Need(&shapes[i].Pod, !f.relaxed.takes(&shapes[i].Pod)))
			}
		}
		byKey[key].Count += shapes[i].Count
		milli[key] += shapes[i].Count * shapes[i].Pod.Asks.Milli
	}
	var items []packing.Item
	for _, key := range mostOf(milli) {
		if item := byKey[key]; slices.ContainsFunc(item.On, func(n packing.Need) bool { return !n.Never }) {
			items = append(items, *item)
		}
	}
	var nodes []packing.Node
	for i, f := range all {
		nodes = append(nodes, f.relaxed.Node(prices[i]))
	}
	r := packing.Bound(nodes, items, worthBudget, func() bool { return false })
	for i, f := range all {
		f.worth = packing.WorthOf(nodes, items, i, r)
	}
}

// maxWeighed is how many kinds of requests count as typical: those with the most CPU time in all.
// The traces in use have 160. Every bound of the cost on a node takes the time of all of them: with
// a thousand kinds, a thousand pods on as many nodes took half a minute.
const maxWeighed = 256

// mostOf returns the keys with the largest amounts, in order of the keys.
func mostOf(amounts map[string]int64) []string {
	keys := slices.Sorted(maps.Keys(amounts))
	if len(keys) <= maxWeighed {
		return keys
	}
	slices.SortStableFunc(keys, func(a, b string) int { return cmp.Compare(amounts[b], amounts[a]) })
	keys = keys[:maxWeighed]
	slices.Sort(keys)
	return keys
}

// rooms are the NUMA nodes of a view, in the order of the machine's Nodes, with their worth.
type rooms struct {
	sizes []packing.Size
	worth []int64
}

// measureRooms sets the rooms of the NUMA nodes.
func (v *View) measureRooms() {
	f := v.fitting
	for _, n := range v.State.Machine().Nodes() {
		size := f.relaxed.roomOf(v.State, n.ID)
		v.rooms.sizes = append(v.rooms.sizes, size)
		v.rooms.worth = append(v.rooms.worth, f.worthOf(size))
	}
}

func (f *fitting) worthOf(room packing.Size) int64 {
	if f.worth == nil {
		return 0
	}
	return f.worth.Of(room)
}

// left returns how much of a NUMA node is left, as the sum of the shares of its resources, in
// 1/unit.
func (f *fitting) left(room packing.Size) (sum int64) {
	for k, x := range room {
		if f.largest[k] > 0 && x < plenty {
			sum += int64(float64(x) / float64(f.largest[k]) * unit)
		}
	}
	return sum
}

// spanning is the cost of each NUMA node after the first: more than any room is worth, because a
// pod on several NUMA nodes is not aligned.
const spanning = packing.One << 8

// costOn returns the cost of taking a size from one NUMA node.
func (v *View) costOn(k int, size packing.Size) Cost {
	after := make(packing.Size, len(size))
	for r := range size {
		after[r] = v.rooms.sizes[k][r] - size[r]
	}
	c := Cost{NUMANodes: 1, Left: v.fitting.left(after)}
	if c.Stranded = v.rooms.worth[k] - v.fitting.worthOf(after); v.fitting.worth == nil {
		c.Stranded = c.Left
	}
	return c
}

// leastFit returns a lower bound of fitOf. If one NUMA node has room for everything, every policy
// that aligns puts it on such a NUMA node.
func (v *View) leastFit(pod *Pod, takes taking) (least Cost) {
	if !takes.known {
		return Cost{}
	}
	if !slices.ContainsFunc(takes.size, func(x int64) bool { return x > 0 }) {
		return Cost{Left: v.leftMilli(pod)}
	}
	found := false
	for k, room := range v.rooms.sizes {
		if !within(takes.size, room) {
			continue
		}
		if c := v.costOn(k, takes.size); !found || c.less(least) {
			least, found = c, true
		}
	}
	return least
}

// within reports whether a room has a size.
func within(size, room packing.Size) bool {
	for r, x := range size {
		if x > room[r] {
			return false
		}
	}
	return true
}

// fitOf returns the cost of a grant.
func (v *View) fitOf(pod *Pod, g *node.Grant) (cost Cost) {
	after := v.after(g)
	for k, room := range after {
		if slices.Equal(room, v.rooms.sizes[k]) {
			continue
		}
		cost.NUMANodes++
		cost.Left += v.fitting.left(room)
		cost.Stranded += v.rooms.worth[k] - v.fitting.worthOf(room)
	}
	switch {
	case cost.NUMANodes == 0:
		cost.Left = v.leftMilli(pod)
	case v.fitting.worth == nil:
		cost.Stranded = cost.Left
	}
	if cost.NUMANodes > 1 {
		cost.Stranded += int64(cost.NUMANodes-1) * spanning
	}
	return cost
}

// after returns the rooms of the NUMA nodes with a grant that the state does not have yet.
func (v *View) after(g *node.Grant) []packing.Size {
	r := v.fitting.relaxed
	usage := v.State.Memory().Charge(g.Charged(), nil)
	cpus := g.CPUs()
	after := make([]packing.Size, len(v.rooms.sizes))
	for k, n := range v.State.Machine().Nodes() {
		after[k] = slices.Clone(v.rooms.sizes[k])
		after[k][0] -= int64(n.CPUs.IntersectionLen(cpus)) * 1000
		if v.State.Policy().StaticMemory {
			after[k][1] = usage.Free(mask.Of(n.ID), request.Memory)
		}
	}
	taken := map[string]bool{} // Init containers leave devices to later ones.
	for i := range g.Containers {
		for _, d := range g.Containers[i].Devices {
			at := slices.Index(r.others, d.Resource)
			for _, id := range d.IDs {
				if at < 0 || taken[d.Resource+"/"+id] {
					continue
				}
				taken[d.Resource+"/"+id] = true
				device, _ := v.State.Devices().Inventory().Device(d.Resource, id)
				for k, n := range v.State.Machine().Nodes() {
					if device.Nodes.Has(n.ID) && after[k][2+at] < plenty {
						after[k][2+at]--
					}
				}
			}
		}
	}
	return after
}
