package explain

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Kind is the subject of a change.
type Kind string

// The kinds.
const (
	Amounts     Kind = "amounts"     // the amounts that the pod requests
	Annotations Kind = "annotations" // the annotations of the pod
	Pods        Kind = "pods"        // the pods on the node
	Elsewhere   Kind = "elsewhere"   // the node
	Settings    Kind = "settings"    // the configuration of the node
	Moves       Kind = "moves"       // the CPUs and NUMA nodes of running pods
)

// Proposal is a change that admits the pod. It was applied and planned.
type Proposal struct {
	Kind Kind `json:"kind"`
	// Text describes what to do. Outcome describes where the pod would then run.
	Text    string `json:"text"`
	Outcome string `json:"outcome"`
	// Changes are set for kind Amounts.
	Changes []Change `json:"changes,omitempty"`
	// Requests are set instead of Changes where a kubelet compares the sum of all requests with
	// what its Node has for pods.
	Requests []RequestChange `json:"requests,omitempty"`
	// Annotations are set for kind Annotations.
	Annotations []Annotation `json:"annotations,omitempty"`
	// Without has the pods, as namespace/name, whose absence admits the pod. It is set for kind
	// Pods.
	Without []Absent `json:"without,omitempty"`
	// Node is the name of the node that admits the pod. It is set for kind Elsewhere.
	Node string `json:"node,omitempty"`
	// Assumed describes the assumptions of the plan on that node. If empty, there are none.
	Assumed string `json:"assumed,omitempty"`
	// Settings are set for kind Settings.
	Settings []Setting `json:"settings,omitempty"`
	// Moves are set for kind Moves. They are in an order in which each destination is free.
	Moves []PodMove `json:"moves,omitempty"`
	moved []*node.Grant
}

// Change is a change of one amount of the pod. If Container is empty, it changes the pod-level
// request and limit.
type Change struct {
	Container string `json:"container,omitempty"`
	Resource  string `json:"resource"`
	From      int64  `json:"from"`
	To        int64  `json:"to"`
}

// RequestChange is a change of one request in a manifest, in quantities such as "3500m", and of the
// limit if it is the same. If Container is empty, it changes the pod-level one.
type RequestChange struct {
	Container string `json:"container,omitempty"`
	Resource  string `json:"resource"`
	From      string `json:"from"`
	To        string `json:"to"`
}

// Absent is a pod that would have to be removed.
type Absent struct {
	Pod      string `json:"pod"`
	UID      string `json:"uid"`
	Priority int32  `json:"priority"`
	// Then is whether the pod, as it is, fits on the node again after the rejected one is admitted.
	// It is nil if that is not known.
	Then *Return `json:"then,omitempty"`
}

// Return is the result of planning an absent pod again.
type Return struct {
	Fits bool `json:"fits"`
	// Outcome describes where the pod would then run. It is empty if it does not fit.
	Outcome string `json:"outcome,omitempty"`
}

// Setting is one field of a KubeletConfiguration.
type Setting struct {
	Field string `json:"field"`
	From  string `json:"from"`
	To    string `json:"to"`
	// Gate is the feature gate that the setting requires. If empty, it requires none.
	Gate string `json:"gate,omitempty"`
}

// OtherNode is another node that might take the pod: its state, and the pod as that node would see
// it, as far as this is known. Assumed describes what is not known and therefore assumed.
type OtherNode struct {
	Name    string
	State   *node.State
	Pod     request.Pod
	Assumed string
}

// Try describes what was tried, with how many plans, and the result.
type Try struct {
	What  string `json:"what"`
	Plans int    `json:"plans"`
	Found string `json:"found"`
	// Rule is the id of the rule behind the result. If empty, there is none.
	Rule string `json:"rule,omitempty"`
}

// Remedies has the changes that would have admitted a rejected pod.
type Remedies struct {
	Proposals []Proposal `json:"proposals"`
	Tried     []Try      `json:"tried"`
}

// Plans returns the total number of plans.
func (r Remedies) Plans() int {
	n := 0
	for _, t := range r.Tried {
		n += t.Plans
	}
	return n
}

// Bounds in numbers of plans. Remedies.Tried reports which searches they ended.
const (
	maxAmountPlans = 2000
	maxPodPlans    = 150
	// minPlans is the minimum number of plans, whatever the number of containers is.
	minPlans = 3
	// maxCost bounds the number of planned containers over all plans of one kind of change. A
	// container that is aligned on its own counts alignedCost times. At about 10 µs each, the
	// answer for a pod with thousands of containers arrives within a second.
	maxCost     = 60_000
	alignedCost = 5
	// maxSteps bounds the steps of hint.Merge over all plans of one kind of change.
	maxSteps = 200_000
)

// allowed returns how many plans of the pod may be made if at most plans are wanted.
func (x *search) allowed(plans int) int {
	cost := max(1, len(x.pod.Containers))
	if x.trace.Demand.Path == node.ByContainer {
		cost *= alignedCost
	}
	return max(minPlans, min(plans, maxCost/cost))
}

// Answer turns a plan that was made for the pod on the state into the answer of a kubelet, which
// decides differently in some cases. If the kubelet rejects the pod, the result has a rejection.
type Answer func(s *node.State, pod request.Pod, plan *node.Plan) *node.Plan

// Search looks for the smallest changes that admit a pod that s rejects. elsewhere lists other
// nodes; only those that take the unchanged pod are proposed. An admitted pod has no remedies. The
// search ends with the context. The error is then the context's, and the result is empty.
func Search(ctx context.Context, s *node.State, pod request.Pod, elsewhere ...OtherNode) (Remedies, error) {
	paddock := func(_ *node.State, _ request.Pod, plan *node.Plan) *node.Plan { return plan }
	return remedies(ctx, paddock, nil, []look{(*search).amounts, (*search).more, (*search).annotations, (*search).caches, (*search).moves, (*search).spare, placesOf(elsewhere), (*search).settings}, s, pod)
}

// SearchOfKubelet is Search for a node on which a kubelet decides, whose behavior the state has. A
// change is proposed only if that kubelet also admits the pod with it. A kubelet cannot move
// running pods, so moves are not searched. Amounts are not searched for a pod that only the kubelet
// rejects, because they are not the reason. left has how much more of a resource, in CPUs or bytes,
// the pod could request before the requests of all pods exceed what the Node has for pods. A
// resource that is not in it has no such limit.
func SearchOfKubelet(ctx context.Context, s *node.State, pod request.Pod, left map[string]int64, elsewhere ...OtherNode) (Remedies, error) {
	answer := func(s *node.State, asked request.Pod, plan *node.Plan) *node.Plan {
		if plan.Rejection == nil || s.PlanAs(node.Behavior{}, asked).Rejection != nil {
			return plan
		}
		only := *plan // The amounts are not the reason why only the kubelet rejects the pod.
		only.Trace.Cause = rejection.NoCause
		return &only
	}
	return remedies(ctx, answer, left, []look{(*search).amounts, (*search).more, (*search).spare, placesOf(elsewhere), (*search).settings}, s, pod)
}

// look looks for one kind of change. It returns its proposals and a summary.
type look func(*search) ([]Proposal, string)

func placesOf(elsewhere []OtherNode) look {
	return func(x *search) ([]Proposal, string) { return x.places(elsewhere) }
}

// remedies runs looks in the given order. The first two must look for amounts.
func remedies(ctx context.Context, as Answer, left map[string]int64, looks []look, s *node.State, pod request.Pod) (Remedies, error) {
	plan := as(s, pod, s.Plan(pod))
	out := Remedies{Proposals: []Proposal{}, Tried: []Try{}}
	if plan.Rejection == nil {
		return out, ctx.Err()
	}
	if plan.Trace.Cause == rejection.NoCause {
		looks = looks[2:]
	}
	for _, look := range looks {
		x := &search{ctx: ctx, as: as, state: s, pod: pod, left: left, trace: &plan.Trace, rejection: plan.Rejection}
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

// search is the state of the search for one kind of change.
type search struct {
	ctx   context.Context
	as    Answer
	state *node.State
	pod   request.Pod
	left  map[string]int64 // see SearchOfKubelet
	// trace and rejection belong to the plan of the unchanged pod.
	trace     *node.Trace
	rejection *rejection.Rejection
	// what describes what is searched, and rule is the id of the rule behind the result. plans is
	// the number of plans made, and steps is the number of steps that they took.
	what  string
	rule  string
	plans int
	steps int
	limit int
	// cut is true if something was not checked, so there may be more to find.
	cut bool
}

// spent reports whether a bound is reached or the context has ended.
func (x *search) spent() bool {
	return x.plans >= x.limit || x.steps >= maxSteps || x.ctx.Err() != nil
}

// plan plans the pod and counts the plan. It returns nil if the pod is rejected or if a bound is
// reached.
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

// places plans the pod on the other nodes.
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

// Apply applies the change of p to a pod and to the node that rejects it, and returns both. For
// kind Elsewhere nothing changes, because the node is another one.
func (p Proposal) Apply(s *node.State, pod request.Pod) (*node.State, request.Pod, error) {
	for _, to := range p.moved {
		var err error
		if s, err = s.Move(to); err != nil {
			return nil, pod, err
		}
	}
	pod = annotated(applied(pod, p.Changes), p.Annotations)
	for _, a := range p.Without {
		s = s.Release(a.UID)
	}
	if len(p.Settings) == 0 {
		return s, pod, nil
	}
	policy := s.Policy()
	for _, set := range p.Settings {
		for _, k := range knobs(s.Policy()) {
			if k.field == set.Field {
				k.set(&policy, set.To)
			}
		}
	}
	s, err := under(s, policy)
	return s, pod, err
}

// under returns the node after a restart with another policy. Pods keep their grants and their
// reservations.
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

// Outcome describes where the pod of an admitted plan runs.
func Outcome(s *node.State, p *node.Plan) string { return outcome(s, p) }

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
		parts = append(parts, "on "+cpus.Text())
	default:
		if !cpus.IsEmpty() {
			parts = append(parts, "CPUs on "+cpus.Text())
		}
		if !memory.IsEmpty() {
			parts = append(parts, "memory on "+memory.Text())
		}
	}
	if len(parts) == 0 {
		parts = append(parts, "on the node shared pool")
	}
	if !s.Policy().CPU.DividesCaches && asksForCaches(&p.Grant.Pod) {
		parts = append(parts, "without its part of the caches")
	}
	if s.Policy().Topology == node.TopologyNone ||
		slices.ContainsFunc(p.Trace.Alignments, func(a node.Alignment) bool { return !a.Choice.Preferred }) {
		parts = append(parts, "not aligned")
	}
	return strings.Join(parts, ", ")
}
