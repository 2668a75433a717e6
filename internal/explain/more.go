package explain

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/layout"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

// more looks for the smallest increase of amounts that admits the pod. Only restricted can admit
// more and reject less: it admits a pod whose resources all need the same number of NUMA nodes
// (R-HINT-62). For each such number, the smallest amounts that need it are planned, so the number
// of plans is at most that of NUMA nodes. With align-by-socket, CPUs can need fewer NUMA nodes than
// the others, on as many sockets (R-HINT-25), and smaller numbers are planned for them, too.
//
// Less of one resource with more of another is not tried. If NUMA nodes have room for amounts that
// need several of them, each has some of every resource, so that less of all, which is tried, is
// admitted on one, unless memory groups or the API forbid it. So such a mixture is hardly ever the
// only way, and it asks for what the pod does not need.
func (x *search) more() ([]Proposal, string) {
	all := x.trace.Alignments
	if x.trace.Cause != rejection.NotAligned || x.state.Policy().Topology != node.TopologyRestricted || len(all) == 0 {
		return nil, ""
	}
	a := &all[len(all)-1]
	nodes := len(x.state.Machine().Nodes())
	x.limit = x.allowed(nodes * nodes)
	most := 2 // Amounts that need one NUMA node agree already.
	for i := range a.HintSets {
		most = max(most, a.HintSets[i].Preferred)
	}
	for size := most; size <= nodes; size++ {
		for aligned := leastAligned(a, size); aligned <= size; aligned++ {
			pod, ok := x.needing(a, size, aligned)
			if !ok || sameAmounts(pod, x.pod) || AgainstAPI(pod).Text != "" {
				continue
			}
			x.what = "more " + strings.Join(changed(difference(x.pod, pod)), ", more ")
			if x.plan(x.state, pod) != nil {
				p := x.amountProposal(pod)
				if aligned == size {
					p.Text += fmt.Sprintf(" (each resource then needs %s)", countText(size, "NUMA node"))
				}
				return []Proposal{p}, "1 would admit it"
			}
		}
	}
	return nil, "none found of the smallest amounts that need equally many NUMA nodes; others were " + notFurther
}

// leastAligned returns the smallest number of NUMA nodes to plan for a resource that is aligned by
// socket while the others need size of them. It is size if none is.
func leastAligned(a *node.Alignment, size int) int {
	least := size
	for i := range a.HintSets {
		if f := &a.HintSets[i]; f.Sockets != nil {
			least = min(least, f.Preferred)
		}
	}
	return least
}

// changed returns the resources of changes, each once.
func changed(changes []Change) []string {
	var out []string
	for _, c := range changes {
		if !slices.Contains(out, c.Resource) {
			out = append(out, c.Resource)
		}
	}
	return out
}

// needing returns the pod with the smallest amounts that are not below its own and of which each
// needs this number of NUMA nodes: aligned if it is aligned by socket, and otherwise all. It
// returns false if there are none, or if the node cannot have them now.
func (x *search) needing(a *node.Alignment, all, aligned int) (request.Pod, bool) {
	pod := x.pod
	for i := range a.HintSets {
		f, size := &a.HintSets[i], all
		if f.Sockets != nil {
			size = aligned
		}
		if f.Kind != hint.Fits || f.Preferred >= size {
			continue
		}
		resource := f.Resource
		if slices.ContainsFunc(f.Needs, func(n hint.Need) bool { return n.Resource == machine.Memory }) {
			resource = machine.Memory // Not huge pages, which are requested together with it.
		}
		sizes, unit := x.sizes(resource), x.unit(resource)
		if size > len(sizes) {
			return pod, false
		}
		least := (sizes[size-2]/unit + 1) * unit
		// The first raise may only reach what an init container has already.
		for range 2 {
			more := (least - x.asks(pod, a.Container, resource) + unit - 1) / unit * unit
			if left, known := x.left[resource]; least > x.room(resource) || known && more > left {
				return pod, false
			}
			if more > 0 {
				pod = x.raisedBy(pod, a.Container, resource, more)
			}
		}
	}
	return pod, true
}

// asks returns how much of a resource a container asks for, or else the pod together.
func (x *search) asks(pod request.Pod, container, resource string) int64 {
	demand := x.state.Demand(&pod)
	if _, i := pod.Container(container); i >= 0 {
		return demand.Containers[i].Ask.Amount(resource)
	}
	return demand.Together.Amount(resource)
}

// sizes returns how much of a resource the largest NUMA node, the two largest, and so on could ever
// have together. A device that is local to several NUMA nodes counts on each.
func (x *search) sizes(resource string) []int64 {
	if resource == request.CPU || request.IsMemory(resource) {
		return sums(x.state, resource)
	}
	on := map[int]int64{}
	for _, d := range x.state.Devices().Inventory().Devices(resource) {
		for n := range d.Nodes.All() {
			on[n]++
		}
	}
	var sizes []int64
	for _, n := range on {
		sizes = append(sizes, n)
	}
	return largestSums(sizes)
}

// raisedBy returns the pod with more of a resource: at pod level if it has a pool, and otherwise in
// the named container, or in the one that requests most. If no container shares the pool, so that
// nothing could use more of it, that container gets it, too.
func (x *search) raisedBy(pod request.Pod, container, resource string, more int64) request.Pod {
	inContainer := true
	if x.pools(resource) {
		budget := budgetOf(pod, resource)
		shares := func(p layout.Piece) bool { return p.Part == layout.Rest }
		inContainer = !slices.ContainsFunc(pieces(pod, resource).divide(budget, math.MaxInt64).Pieces, shares)
		pod = Change{Resource: resource, To: budget + more}.apply(pod)
	}
	if !inContainer {
		return pod
	}
	var own int64
	if _, i := pod.Container(container); i >= 0 {
		own, _ = asked(&pod.Containers[i], resource)
	} else {
		for i := range pod.Containers {
			c := &pod.Containers[i]
			if n, ok := asked(c, resource); ok && n > own && c.Type != request.Init {
				container, own = c.Name, n
			}
		}
	}
	if own == 0 {
		return pod
	}
	return Change{Container: container, Resource: resource, To: own + more}.apply(pod)
}
