package fleet

import (
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/moves"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// View is a node at one moment, with the measurements of a ranking. It never changes: a placement
// makes another one. Any number of goroutines may use it.
type View struct {
	Node
	ranking *Ranking
	// free is what could become exclusive on each NUMA node now, parallel to the machine's
	// CPUNodes. stranded is its cost; see score.go.
	free     []room
	stranded int64
	total    int // number of free CPUs
	table    *table
	// fitting and rooms are for BestFit alone.
	fitting *fitting
	rooms   rooms
	policy  *policyText
}

// View measures a node, which must have a state.
func (r *Ranking) View(n Node) *View {
	v := &View{Node: n, ranking: r, table: r.table(n.State), policy: &policyText{}}
	if r.scoring == BestFit {
		v.fitting = r.fitting(&n)
	}
	v.measure()
	return v
}

// Next returns the node in another state, on the same machine and under the same policy.
func (v *View) Next(s *node.State, used Amounts) *View {
	next := &View{Node: v.Node, ranking: v.ranking, table: v.table, fitting: v.fitting, policy: v.policy}
	next.State, next.Used = s, used
	next.measure()
	return next
}

// With returns the node with other amounts.
func (v *View) With(allocatable, used Amounts) *View {
	next := *v // The free CPUs are the same.
	next.Allocatable, next.Used = allocatable, used
	if v.fitting != nil && !allocatable.Equal(v.Allocatable) { // What its NUMA nodes can have depends on it.
		next.fitting, next.rooms = v.ranking.fitting(&next.Node), rooms{}
		next.measureRooms()
	}
	next.strand()
	return &next
}

// measure sets the free CPUs and memory and their cost.
func (v *View) measure() {
	units := v.State.Machine().CPUNodes()
	available := v.State.AvailableCPUs()
	v.free = make([]room, len(units))
	for k, n := range units {
		v.free[k] = room{n.CPUs.IntersectionLen(available), unlimited}
		v.total += v.free[k].cpus
	}
	v.setMemory(v.free, nil)
	if v.fitting != nil {
		v.measureRooms()
	}
	v.strand()
}

// setMemory sets the free memory of the NUMA nodes, if it counts. g is a grant that the state does
// not have yet. It may be nil.
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

// strand sets the cost of the free CPUs.
func (v *View) strand() {
	o := v.outlook(v.Used)
	v.stranded = o.stranded(v.free)
}

// costsLike reports whether a node with the same state has the same costs.
func (v *View) costsLike(o *View) bool {
	return v.State == o.State && v.ranking == o.ranking && v.Used.Equal(o.Used) && v.Allocatable.Equal(o.Allocatable)
}

// Answer is the answer of a node's own planner to a pod.
type Answer struct {
	Fits bool
	// AfterMoves is true if the pod fits only after the node has moved running pods.
	AfterMoves bool
	// Cost is the cost of placing the pod on the node, if it fits. Only Ask computes it. If the
	// pod does not fit, Why is the reason, and Wanted is the requested amount of Why.Resource.
	// Wanted is 0 if the reason is not an amount.
	Cost   Cost
	Why    Why
	Wanted int64
}

// Ask plans the pod. It does not compare the amounts.
func (v *View) Ask(pod *Pod) Answer {
	pod = pod.On(&v.Node)
	plan := v.State.Plan(pod.Pod)
	if r := plan.Rejection; r != nil {
		return Answer{Why: Why{Cause: plan.Trace.Cause, Reason: r.Reason, Resource: r.Resource}, Wanted: r.Wanted}
	}
	return Answer{Fits: true, Cost: v.costOf(pod, plan.Grant)}
}

// Admits is Ask without the cost. It takes a quarter of the time, and a tenth if the pod does not
// fit.
func (v *View) Admits(pod *Pod) Answer {
	pod = pod.On(&v.Node)
	in, _ := v.ranking.scratch.Get().(*node.Scratch)
	if in == nil {
		in = &node.Scratch{}
	}
	verdict := v.State.Admits(&pod.Pod, in)
	v.ranking.scratch.Put(in)
	return Answer{Fits: verdict.Fits, Why: Why{Cause: verdict.Cause, Reason: verdict.Reason, Resource: verdict.Resource}, Wanted: verdict.Wanted}
}

// maxMovePlans bounds the plans of a search for moves on one node. At about 5 µs per plan, it takes
// at most 2 ms. A node with 200 pods needs only a few plans.
const maxMovePlans = 400

// AskAfterMoves is Admits, except that a pod also fits if the node can make room for it by moving
// running pods (R-MOV-7).
func (v *View) AskAfterMoves(pod *Pod) Answer {
	a := v.Admits(pod)
	policy := v.State.Policy().Moves
	if a.Fits || policy.Pods == 0 {
		return a
	}
	terms := moves.TermsOf(policy)
	terms.Plans = maxMovePlans
	if moves.Find(v.State, pod.On(&v.Node).Pod, terms).Set == nil {
		return a
	}
	return Answer{Fits: true, AfterMoves: true}
}

// Place plans the pod and returns the view of the node with it. It returns v if the plan rejects
// the pod or the node already knows it. The error is one of node.State.Apply.
func (v *View) Place(pod Pod) (*View, *node.Plan, error) {
	pod = *pod.On(&v.Node)
	plan := v.State.Plan(pod.Pod)
	next, err := v.State.Apply(plan)
	if err != nil || plan.Grant == nil || plan.Known {
		return v, plan, err
	}
	return v.Next(next, v.Used.Plus(pod.Asks)), plan, nil
}
