package explain

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Kind is what a proposal changes.
type Kind string

// The kinds.
const (
	Amounts   Kind = "amounts"   // what the pod asks for
	Pods      Kind = "pods"      // which pods are there
	Elsewhere Kind = "elsewhere" // the node
	Settings  Kind = "settings"  // the node's configuration
	Moves     Kind = "moves"     // where running pods are
)

// Proposal is a change that admits the pod. It was applied and planned.
type Proposal struct {
	Kind Kind `json:"kind"`
	// Text is what to do, Outcome where the pod would then run.
	Text    string `json:"text"`
	Outcome string `json:"outcome"`
	// Changes are of kind Amounts.
	Changes []Change `json:"changes,omitempty"`
	// Without are the pods, namespace/name, whose absence admits it, of kind Pods.
	Without []Absent `json:"without,omitempty"`
	// Node is the name of the place that admits it, of kind Elsewhere.
	Node string `json:"node,omitempty"`
	// Assumed is what the plan on that place takes for granted; empty: nothing.
	Assumed string `json:"assumed,omitempty"`
	// Settings are of kind Settings.
	Settings []Setting `json:"settings,omitempty"`
	// Moves are of kind Moves, in the order in which each place is free.
	Moves []PodMove `json:"moves,omitempty"`
	moved []*node.Grant
}

// Change is one amount of the pod. Without a container it is the pod-level request and limit.
type Change struct {
	Container string `json:"container,omitempty"`
	Resource  string `json:"resource"`
	From      int64  `json:"from"`
	To        int64  `json:"to"`
}

// Absent is a pod that would have to go.
type Absent struct {
	Pod      string `json:"pod"`
	UID      string `json:"uid"`
	Priority int32  `json:"priority"`
}

// Setting is one field of a KubeletConfiguration.
type Setting struct {
	Field string `json:"field"`
	From  string `json:"from"`
	To    string `json:"to"`
	// Gate is the feature gate that it needs, if it does.
	Gate string `json:"gate,omitempty"`
}

// OtherNode is another node that may be asked: what is there, and the pod as that node sees it, as
// far as it is known. Assumed is what is not known, and taken for granted.
type OtherNode struct {
	Name    string
	State   *node.State
	Pod     request.Pod
	Assumed string
}

// Try is what was looked at, with how many plans, and what came of it.
type Try struct {
	What  string `json:"what"`
	Plans int    `json:"plans"`
	Found string `json:"found"`
	// Rule is the rule behind it; empty: none.
	Rule string `json:"rule,omitempty"`
}

// Remedies is what would have admitted a rejected pod.
type Remedies struct {
	Proposals []Proposal `json:"proposals"`
	Tried     []Try      `json:"tried"`
}

// Plans is how many plans were made in all.
func (r Remedies) Plans() int {
	n := 0
	for _, t := range r.Tried {
		n += t.Plans
	}
	return n
}

// Bounds, in plans. Remedies.Tried reports what they ended.
const (
	maxAmountPlans = 2000
	maxPodPlans    = 150
	// minPlans are made of a pod with however many containers.
	minPlans = 3
	// maxCost bounds, over all plans of one kind of change, the containers that are planned, one
	// that is aligned by itself counting alignedCost times, so that the answer about a pod with
	// thousands of containers comes within a second: about 10 µs each.
	maxCost     = 60_000
	alignedCost = 5
	// maxSteps bounds, over all plans of one kind of change, the steps of hint.Merge.
	maxSteps = 200_000
)

// allowed is how many plans of the pod may be made where at most that many are wanted.
func (x *search) allowed(plans int) int {
	cost := max(1, len(x.pod.Containers))
	if x.trace.Demand.Path == node.ByContainer {
		cost *= alignedCost
	}
	return max(minPlans, min(plans, maxCost/cost))
}

// Answer is a plan as a kubelet answers it, which decides otherwise in some cases: with a rejection
// where it rejects the pod. The plan was made for the pod on the state.
type Answer func(s *node.State, pod request.Pod, plan *node.Plan) *node.Plan

// Search looks for the smallest changes that admit a pod which s rejects. Elsewhere are other
// nodes; only those that take the pod as it is are proposed. A pod that is admitted has no
// remedies. The search ends with the context; the error is then the context's, and nothing is
// returned.
func Search(ctx context.Context, s *node.State, pod request.Pod, elsewhere ...OtherNode) (Remedies, error) {
	paddock := func(_ *node.State, _ request.Pod, plan *node.Plan) *node.Plan { return plan }
	return remedies(ctx, paddock, []look{(*search).amounts, (*search).moves, (*search).spare, placesOf(elsewhere), (*search).settings}, s, pod)
}

// SearchAs is Search for a node where a kubelet decides: a change is proposed only if that kubelet
// admits the pod with it as well. It cannot move running pods, so moves are not searched. Amounts
// are not searched for a pod that only the kubelet rejects, because they are not why.
func SearchAs(ctx context.Context, as Answer, s *node.State, pod request.Pod, elsewhere ...OtherNode) (Remedies, error) {
	return remedies(ctx, as, []look{(*search).amounts, (*search).spare, placesOf(elsewhere), (*search).settings}, s, pod)
}

// look looks for one kind of change. It returns what it found, and a summary.
type look func(*search) ([]Proposal, string)

func placesOf(elsewhere []OtherNode) look {
	return func(x *search) ([]Proposal, string) { return x.places(elsewhere) }
}

// remedies looks in the order given, first for amounts.
func remedies(ctx context.Context, as Answer, looks []look, s *node.State, pod request.Pod) (Remedies, error) {
	plan := as(s, pod, s.Plan(pod))
	out := Remedies{Proposals: []Proposal{}, Tried: []Try{}}
	if plan.Rejection == nil {
		return out, ctx.Err()
	}
	if plan.Trace.Cause == node.NoCause {
		looks = looks[1:]
	}
	for _, look := range looks {
		x := &search{ctx: ctx, as: as, state: s, pod: pod, trace: &plan.Trace, rejection: plan.Rejection}
		found, summary := look(x)
		if err := ctx.Err(); err != nil {
			return Remedies{}, err
		}
		out.Proposals = append(out.Proposals, found...)
		if x.what != "" {
			out.Tried = append(out.Tried, Try{x.what, x.plans, summary, x.rule})
		}
	}
	return out, nil
}

// search is the search for one kind of change.
type search struct {
	ctx   context.Context
	as    Answer
	state *node.State
	pod   request.Pod
	// trace and rejection are those of the pod as it is.
	trace     *node.Trace
	rejection *node.Rejection
	// what is looked for, the rule behind what came of it, plans made, steps taken by them.
	what  string
	rule  string
	plans int
	steps int
	limit int
	// cut is true if something was not looked at: what was not found may be there.
	cut bool
}

// spent reports whether the bound is reached, or the client has gone.
func (x *search) spent() bool {
	return x.plans >= x.limit || x.steps >= maxSteps || x.ctx.Err() != nil
}

// plan plans and counts. Beyond the bound the answer is nil, for no.
func (x *search) plan(s *node.State, pod request.Pod) *node.Plan {
	if x.spent() {
		x.cut = true
		return nil
	}
	x.plans++
	p := x.as(s, pod, s.Plan(pod))
	for _, a := range p.Trace.Alignments {
		x.steps += a.Choice.Steps
	}
	if p.Rejection != nil {
		return nil
	}
	return p
}

// places asks other nodes.
func (x *search) places(places []OtherNode) ([]Proposal, string) {
	if len(places) == 0 {
		return nil, ""
	}
	x.what, x.limit = "the other "+countText(len(places), "node"), len(places)
	var found []Proposal
	for _, at := range places {
		if p := x.plan(at.State, at.Pod); p != nil {
			found = append(found, Proposal{Kind: Elsewhere, Node: at.Name, Text: "run it on " + at.Name + ", as it is", Outcome: outcome(at.State, p), Assumed: at.Assumed})
		}
	}
	if len(found) == 0 && x.cut {
		return nil, "none found; " + notFurther
	}
	if len(found) == 0 {
		return nil, "none admits it"
	}
	return found, fmt.Sprintf("%d would admit it", len(found))
}

// Apply makes the change of p to a pod and the node that rejects it, and returns both. Of kind
// Elsewhere nothing changes: the node is another.
func (p Proposal) Apply(s *node.State, pod request.Pod) (*node.State, request.Pod, error) {
	for _, to := range p.moved {
		var err error
		if s, err = s.Move(to); err != nil {
			return nil, pod, err
		}
	}
	pod = applied(pod, p.Changes)
	for _, a := range p.Without {
		s = s.Release(a.UID)
	}
	if len(p.Settings) == 0 {
		return s, pod, nil
	}
	policy := s.Policy()
	for _, set := range p.Settings {
		for _, k := range knobs() {
			if k.field == set.Field {
				k.set(&policy, set.To)
			}
		}
	}
	s, err := under(s, policy)
	return s, pod, err
}

// under is the node after a restart with another policy: pods keep their grants, and what is
// reserved for them.
func under(s *node.State, policy node.Policy) (*node.State, error) {
	if !s.Offline().IsEmpty() {
		n, _, err := node.Adopt(s.Machine(), policy, s.Devices().Inventory(), s.Grants())
		if err != nil {
			return nil, err
		}
		return n.WithReservations(s.Reservations()), nil
	}
	n, err := node.Restore(s.Machine(), policy, s.Grants())
	if err != nil {
		return nil, err
	}
	if n, err = n.WithDevices(s.Devices().Inventory()); err != nil {
		return nil, err
	}
	return n.WithReservations(s.Reservations()), nil
}

// outcome describes where an admitted pod runs.
func outcome(s *node.State, p *node.Plan) string {
	m := s.Machine()
	var memory mask.Mask
	for _, c := range p.Grant.Containers {
		memory |= c.MemoryNodes
	}
	cpus := m.NodesOf(p.Grant.CPUs())
	var parts []string
	switch {
	case cpus == memory && !cpus.IsEmpty():
		parts = append(parts, "on "+nodesText(cpus))
	default:
		if !cpus.IsEmpty() {
			parts = append(parts, "CPUs on "+nodesText(cpus))
		}
		if !memory.IsEmpty() {
			parts = append(parts, "memory on "+nodesText(memory))
		}
	}
	if len(parts) == 0 {
		parts = append(parts, "on the node shared pool")
	}
	if s.Policy().Topology == node.TopologyNone ||
		slices.ContainsFunc(p.Trace.Alignments, func(a node.Alignment) bool { return !a.Choice.Preferred }) {
		parts = append(parts, "not aligned")
	}
	return strings.Join(parts, ", ")
}
