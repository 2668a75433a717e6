package fleet

import (
	"math"

	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/moves"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// View is a node at one moment, with what a ranking measures of it. It does not change: a placement
// makes another one. Any number of goroutines may ask it.
type View struct {
	Node
	ranking *Ranking
	// free is what of each NUMA node could become exclusive now, parallel to the machine's
	// CPUNodes; stranded is what it costs, see score.go.
	free     []room
	stranded int64
	total    int // of the free CPUs
	table    *table
}

// View measures a node, which must have a state.
func (r *Ranking) View(n Node) *View {
	v := &View{Node: n, ranking: r, table: r.table(n.State)}
	v.measure()
	return v
}

// Next is the node in another state, on the same machine under the same policy.
func (v *View) Next(s *node.State, used Amounts) *View {
	next := &View{Node: v.Node, ranking: v.ranking, table: v.table}
	next.State, next.Used = s, used
	next.measure()
	return next
}

// With is the node with other amounts.
func (v *View) With(allocatable, used Amounts) *View {
	next := *v // The free CPUs are the same.
	next.Allocatable, next.Used = allocatable, used
	next.strand()
	return &next
}

// measure takes stock of the free CPUs.
func (v *View) measure() {
	units := v.State.Machine().CPUNodes()
	available := v.State.AvailableCPUs()
	v.free = make([]room, len(units))
	for k, n := range units {
		v.free[k] = room{n.CPUs.IntersectionLen(available), unlimited}
		v.total += v.free[k].cpus
	}
	v.setMemory(v.free, nil)
	v.strand()
}

// setMemory sets the free memory of the NUMA nodes if it counts, with a grant that the state does
// not have; nil: none.
func (v *View) setMemory(free []room, g *node.Grant) {
	if !v.table.memory {
		return
	}
	usage := v.State.Memory()
	if g != nil {
		usage = usage.Charge(g.Charged(), nil)
	}
	for k, n := range v.State.Machine().CPUNodes() {
		free[k].memory = usage.Free(mask.Of(n.ID), request.Memory)
	}
}

// strand sets what the free CPUs cost.
func (v *View) strand() {
	o := v.outlook(v.Used)
	v.stranded = o.stranded(v.free)
}

// Answer is what a node's own planner answers to a pod.
type Answer struct {
	Fits bool
	// AfterMoves: it fits once the node has moved running pods.
	AfterMoves bool
	// Cost is what it costs to put the pod there, if it fits; Why is why it does not, and Wanted
	// how much of Why.Resource was asked for, 0 if it is not about an amount.
	Cost   Cost
	Why    Why
	Wanted int64
}

// Ask plans the pod. The amounts are not compared.
func (v *View) Ask(pod *Pod) Answer {
	plan := v.State.Plan(pod.Pod)
	if r := plan.Rejection; r != nil {
		return Answer{Why: Why{Cause: plan.Trace.Cause, Reason: r.Reason, Resource: r.Resource}, Wanted: r.Wanted}
	}
	return Answer{Fits: true, Cost: v.costOf(pod, plan.Grant)}
}

// maxMovePlans bounds the search for moves on one node: at about 5 µs a plan, 2 ms. A node with 200
// pods needs a few plans.
const maxMovePlans = 400

// AskAfterMoves is Ask. A pod that does not fit now fits as well if the node makes room for it by
// moving running pods (R-MOV-7). That costs more than every place without moves, and no plan has
// the place.
func (v *View) AskAfterMoves(pod *Pod) Answer {
	a := v.Ask(pod)
	policy := v.State.Policy().Moves
	if a.Fits || policy.Pods == 0 {
		return a
	}
	terms := moves.TermsOf(policy)
	terms.Plans = maxMovePlans
	if moves.Find(v.State, pod.Pod, terms).Set == nil {
		return a
	}
	return Answer{Fits: true, AfterMoves: true, Cost: Cost{Stranded: math.MaxInt64}}
}

// Place plans the pod and makes the view of the node with it. A plan that rejects the pod, and one
// for a pod that the node knows, returns v. The error is one of node.State.Apply.
func (v *View) Place(pod Pod) (*View, *node.Plan, error) {
	plan := v.State.Plan(pod.Pod)
	next, err := v.State.Apply(plan)
	if err != nil || plan.Grant == nil || plan.Known {
		return v, plan, err
	}
	return v.Next(next, v.Used.Plus(pod.Asks)), plan, nil
}
