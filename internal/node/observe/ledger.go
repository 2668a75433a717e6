package observe

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Result is the outcome of one comparison.
type Result string

// The results.
const (
	AsPredicted Result = "as-predicted"
	// Reordered means that the decision is the predicted one in another order than that in which
	// the pods were created.
	Reordered Result = "reordered"
	// Differs means that no order gives the decision.
	Differs Result = "differs"
	// Unsure means that there was no prediction.
	Unsure Result = "unsure"
)

// Results returns all results, as text.
func Results() []string {
	return []string{string(AsPredicted), string(Reordered), string(Differs), string(Unsure)}
}

const (
	// keptStates is how many states from before are kept. The rejection of a pod shows in its
	// status later than the admission of the next one shows in the files.
	keptStates = 8
	// mostOrdered is how many pods that were decided between two looks are tried in every order:
	// three have six orders.
	mostOrdered = 3
	// KeptDifferences is how many differences a Ledger keeps.
	KeptDifferences = 100
	// keptReasons is how many different reasons are counted. The others are counted together.
	keptReasons = 100
	// recent is how many of the last comparisons decide about Doubt, and mostDiffering is how many
	// of them may differ.
	recent, mostDiffering = 20, 3
)

// Decision is a decision of the kubelet about a pod.
type Decision struct {
	Pod request.Pod
	// Reason is the reason of the rejection in the status of the pod. It is empty for a pod that
	// was admitted.
	Reason string
	// Doubts are why nothing is predicted about this pod.
	Doubts []string
}

// Comparison is a decision beside its prediction.
type Comparison struct {
	At       time.Time
	UID, Pod string
	Result   Result
	Admitted bool
	// Predicted and Actual describe the two decisions if they differ. Why is the reason why nothing
	// was predicted.
	Predicted, Actual, Why string
	// Base and Plan are the prediction: the plan for the pod on the state from before. They are nil
	// if nothing was predicted.
	Base *node.State
	Plan *node.Plan
	// Evidence is what Ledger.Evidence returned for a decision that differs.
	Evidence []byte
}

// Count counts comparisons of admissions or of rejections by result.
type Count map[Result]int

// Ledger compares. Its zero value is ready for use. It is not safe for concurrent use.
type Ledger struct {
	// Evidence returns what is kept of a decision that differs from its prediction, for somebody
	// who looks for the cause. It may be nil.
	Evidence func(*Comparison) []byte

	// states are the last states that were seen, the newest last.
	states []*node.State
	// until has, for each state, when the next one was seen.
	until       []time.Time
	lately      []Result
	admissions  Count
	rejections  Count
	reasons     map[string]int
	differences []Comparison
}

// Begin makes a state the one from before the next decisions. What was decided earlier is not
// compared, for example because the kubelet was started again or the files could not be read.
func (l *Ledger) Begin(s *node.State) { l.states, l.until = []*node.State{s}, nil }

// Skip makes now the state from before the next decisions, as Begin does. Decisions since the last
// look are Unsure, for the reason why.
func (l *Ledger) Skip(at time.Time, now *node.State, decided []Decision, why string) {
	for _, c := range unsure(decided, why) {
		if _, listed := now.Grant(c.UID); listed || !c.Admitted {
			c.At = at
			l.count(&c)
		}
	}
	l.Begin(now)
}

// Look compares what the kubelet has decided since the last look, in the order in which the pods
// were created, with the predictions. now is the state that its files show. The comparisons are in
// the order of the pods. Pods that no manager decides about are left out.
func (l *Ledger) Look(at time.Time, now *node.State, decided []Decision) []Comparison {
	var all []Comparison
	if len(l.states) > 0 {
		all = l.compare(now, decided)
	} else {
		all = unsure(decided, "no state from before this decision was seen")
	}
	for i := range all {
		all[i].At = at
		l.count(&all[i])
	}
	if len(l.states) > 0 {
		l.until = append(l.until, at)
	}
	l.states = append(l.states, now)
	l.states = l.states[max(0, len(l.states)-keptStates):]
	l.until = l.until[max(0, len(l.until)-keptStates+1):]
	return all
}

// Fits reports whether Look would find no difference.
func (l *Ledger) Fits(now *node.State, decided []Decision) bool {
	return len(l.states) == 0 || !slices.ContainsFunc(l.compare(now, decided), func(c Comparison) bool { return c.Result == Differs })
}

func (l *Ledger) count(c *Comparison) {
	counts := &l.admissions
	if !c.Admitted {
		counts = &l.rejections
	}
	if *counts == nil {
		*counts = Count{}
	}
	(*counts)[c.Result]++
	switch c.Result {
	case Unsure:
		if l.reasons == nil {
			l.reasons = map[string]int{}
		}
		if why := c.Why; l.reasons[why] > 0 || len(l.reasons) < keptReasons {
			l.reasons[why]++
		} else {
			l.reasons["other reasons"]++
		}
		return // It proves nothing about the predictions.
	case Differs:
		kept := *c
		kept.Base, kept.Plan = nil, nil // They would keep whole states.
		if l.Evidence != nil {
			kept.Evidence = l.Evidence(c)
		}
		l.differences = append(l.differences, kept)
		l.differences = l.differences[max(0, len(l.differences)-KeptDifferences):]
	case AsPredicted, Reordered:
	}
	l.lately = append(l.lately, c.Result)
	l.lately = l.lately[max(0, len(l.lately)-recent):]
}

// Admissions and Rejections return the comparisons so far, by what the kubelet decided.
func (l *Ledger) Admissions() Count { return maps.Clone(l.admissions) }

// Rejections returns the comparisons of rejections.
func (l *Ledger) Rejections() Count { return maps.Clone(l.rejections) }

// Unpredicted returns how often nothing was predicted, by reason.
func (l *Ledger) Unpredicted() map[string]int { return maps.Clone(l.reasons) }

// Differences returns the last decisions that differ from their prediction, the oldest first.
func (l *Ledger) Differences() []Comparison { return slices.Clone(l.differences) }

// Doubt returns why predictions about this kubelet cannot be relied on, or "" if they can: several
// of the last ones were wrong.
func (l *Ledger) Doubt() string {
	wrong := 0
	for _, r := range l.lately {
		if r == Differs {
			wrong++
		}
	}
	if wrong < mostDiffering {
		return ""
	}
	return fmt.Sprintf("predictions differ: of the last %d decisions of this kubelet, %d were not as predicted", len(l.lately), wrong)
}

// compare finds an order in which all decisions are as predicted.
func (l *Ledger) compare(now *node.State, decided []Decision) []Comparison {
	before := l.states[len(l.states)-1]
	ended := gone(before, now)
	without := before
	for _, uid := range ended {
		without = without.Release(uid)
	}
	without = without.Swept()
	for o, order := range ordersOf(decided) {
		for _, base := range []*node.State{without, before} {
			for _, run := range []bool{false, true} {
				if plans, is := try(base, now, order, run); is {
					return labelled(plans, decided, o == 0)
				}
			}
		}
	}
	if all, found := greedy(without, now, decided); found {
		return all
	}
	switch {
	case len(decided) > mostOrdered:
		return unsure(decided, "more pods were decided at the same time than can be tried in every order")
	case len(ended) > 0:
		return unsure(decided, "other pods ended at the same time")
	}
	return l.apart(without, now, decided)
}

// unsure returns comparisons of decisions that are not predicted.
func unsure(decided []Decision, why string) []Comparison {
	var all []Comparison
	for _, d := range decided {
		if len(d.Doubts) > 0 {
			all = append(all, d.unsure(strings.Join(d.Doubts, "; ")))
			continue
		}
		all = append(all, d.unsure(why))
	}
	return all
}

// greedy finds an order of many decisions: each time the first one that is as planned. found is
// false if it gets stuck, which does not mean that there is no order.
func greedy(base, now *node.State, decided []Decision) (all []Comparison, found bool) {
	if len(decided) <= mostOrdered {
		return nil, false
	}
	plans, s, left := map[string]planned{}, base, slices.Clone(decided)
	inOrder := true
	for len(left) > 0 {
		at := slices.IndexFunc(left, func(d Decision) bool { return len(d.Doubts) == 0 && d.matches(s.Plan(d.Pod), now) })
		if at < 0 {
			return nil, false
		}
		d := left[at]
		plan := s.Plan(d.Pod)
		plans[d.Pod.UID] = planned{s, plan}
		if d.Reason == "" {
			next, err := s.Apply(plan)
			if err != nil {
				return nil, false
			}
			s = next
		}
		inOrder = inOrder && at == 0
		left = slices.Delete(left, at, at+1)
	}
	return labelled(plans, decided, inOrder), true
}

// gone returns the UIDs of the pods of the first state that are not in the second.
func gone(before, now *node.State) []string {
	var uids []string
	for g := range before.AllGrants() {
		if _, there := now.Grant(g.Pod.UID); !there {
			uids = append(uids, g.Pod.UID)
		}
	}
	return uids
}

// apart compares the decisions one by one, because no order explains all of them. A rejection can
// be one on an earlier state.
func (l *Ledger) apart(base, now *node.State, decided []Decision) []Comparison {
	var all []Comparison
	s, after := base, ""
	for _, d := range decided {
		switch {
		case len(d.Doubts) > 0:
			all = append(all, d.unsure(strings.Join(d.Doubts, "; ")))
			after = d.Pod.ID()
			continue
		case after != "":
			all = append(all, d.unsure("it was decided after "+after+", whose decision was not predicted"))
			continue
		}
		plan := s.Plan(d.Pod)
		c := d.comparison(s, plan, AsPredicted)
		switch {
		case d.matches(plan, now):
		default:
			if earlier := l.earlier(&d, now); earlier != nil {
				all = append(all, d.comparison(earlier, earlier.Plan(d.Pod), Reordered))
				continue
			}
			c.Result, c.Predicted, c.Actual = Differs, described(plan.Rejection != nil, reasonOf(plan), plan.Grant), d.actual(now)
		}
		if plan.Grant == nil || plan.Grant.OwnsAnything() || c.Result == Differs {
			all = append(all, c)
		}
		next, err := s.Apply(plan)
		if err != nil || c.Result == Differs && d.Reason == "" {
			after = d.Pod.ID()
			continue
		}
		if d.Reason == "" {
			s = next
		}
	}
	return all
}

// earlier returns the newest of the states before the last one on which a rejection is the
// prediction, or nil.
func (l *Ledger) earlier(d *Decision, now *node.State) *node.State {
	for i := len(l.states) - 2; i >= 0 && d.Reason != ""; i-- {
		if l.until[i].Unix() < d.Pod.Created { // The pod did not exist yet.
			return nil
		}
		if d.matches(l.states[i].Plan(d.Pod), now) {
			return l.states[i]
		}
	}
	return nil
}

type planned struct {
	base *node.State
	plan *node.Plan
}

// try plans decisions in an order, and returns the plans by UID. It reports false if a decision is
// not as planned. If run is set, the containers of each pod run before the next pod is decided, so
// that the memory of its init containers is free by then.
func try(base, now *node.State, order []Decision, run bool) (map[string]planned, bool) {
	plans, s := map[string]planned{}, base
	for _, d := range order {
		plan := s.Plan(d.Pod)
		if len(d.Doubts) > 0 || !d.matches(plan, now) {
			return nil, false
		}
		plans[d.Pod.UID] = planned{s, plan}
		if d.Reason != "" {
			continue
		}
		next, err := s.Apply(plan)
		if err != nil {
			return nil, false
		}
		if s = next; run {
			s = s.ContainerCreated(d.Pod.UID, d.Pod.Containers[len(d.Pod.Containers)-1].Name)
		}
	}
	return plans, true
}

// labelled returns the comparisons of decisions that are all as planned.
func labelled(plans map[string]planned, decided []Decision, inOrder bool) []Comparison {
	result := AsPredicted
	if !inOrder {
		result = Reordered
	}
	var all []Comparison
	for _, d := range decided {
		p := plans[d.Pod.UID]
		if p.plan.Grant == nil || p.plan.Grant.OwnsAnything() {
			all = append(all, d.comparison(p.base, p.plan, result))
		}
	}
	return all
}

func (d *Decision) comparison(base *node.State, plan *node.Plan, r Result) Comparison {
	return Comparison{UID: d.Pod.UID, Pod: d.Pod.ID(), Result: r, Admitted: d.Reason == "", Base: base, Plan: plan}
}

func (d *Decision) unsure(why string) Comparison {
	return Comparison{UID: d.Pod.UID, Pod: d.Pod.ID(), Result: Unsure, Admitted: d.Reason == "", Why: why}
}

// matches reports whether a plan is the kubelet's decision.
func (d *Decision) matches(plan *node.Plan, now *node.State) bool {
	if d.Reason != "" || plan.Rejection != nil {
		return plan.Rejection != nil && reasonOf(plan) == d.Reason
	}
	has, listed := now.Grant(d.Pod.UID)
	switch {
	case !listed || !has.OwnsAnything():
		return leavesNothing(plan.Grant)
	case !plan.Grant.OwnsAnything():
		return false
	}
	return samePlace(plan.Grant, has)
}

// leavesNothing reports whether a pod has nothing once its init containers have ended.
func leavesNothing(g *node.Grant) bool {
	if !g.Pool.IsEmpty() || len(g.PoolMemory) > 0 {
		return false
	}
	for i := range g.Containers {
		c := &g.Containers[i]
		if !c.CPUs.IsEmpty() || len(c.Devices) > 0 || len(c.Memory) > 0 && g.Pod.Containers[i].Type != request.Init {
			return false
		}
	}
	return true
}

func reasonOf(p *node.Plan) string {
	if p.Rejection == nil {
		return ""
	}
	return string(p.Rejection.Reason)
}

// samePlace reports whether a pod has the predicted CPUs and memory. Memory of init containers that
// end is used again by later containers, so that the files may not show it.
func samePlace(want, has *node.Grant) bool {
	if len(want.Containers) != len(has.Containers) || !want.Pool.Equal(has.Pool) || !slices.Equal(want.PoolMemory, has.PoolMemory) {
		return false
	}
	for i := range want.Containers {
		w, h := &want.Containers[i], &has.Containers[i]
		if !w.CPUs.Equal(h.CPUs) || want.Pod.Containers[i].Type != request.Init && !slices.Equal(w.Memory, h.Memory) {
			return false
		}
	}
	return true
}

// actual describes what the kubelet did.
func (d *Decision) actual(now *node.State) string {
	has, _ := now.Grant(d.Pod.UID)
	return described(d.Reason != "", d.Reason, has)
}

func described(rejected bool, reason string, g *node.Grant) string {
	switch {
	case rejected:
		return "rejected (" + reason + ")"
	case g == nil || !g.OwnsAnything():
		return "admitted, without CPUs and memory of its own"
	}
	var parts []string
	if !g.Pool.IsEmpty() {
		parts = append(parts, "pool "+g.Pool.String())
	}
	for i := range g.Containers {
		c := &g.Containers[i]
		text := g.Pod.Containers[i].Name
		if !c.CPUs.IsEmpty() {
			text += " CPUs " + c.CPUs.String()
		}
		for _, b := range c.Memory {
			text += fmt.Sprintf(" %s of %s on %s", request.RoundedBytes(b.Size), b.Type, b.Nodes.Text())
		}
		if text != g.Pod.Containers[i].Name {
			parts = append(parts, text)
		}
	}
	return "admitted: " + strings.Join(parts, "; ")
}

// ordersOf returns all orders of a few decisions, the given one first, or only the given one.
func ordersOf(decided []Decision) [][]Decision {
	if len(decided) > mostOrdered {
		return [][]Decision{decided}
	}
	if len(decided) == 0 {
		return [][]Decision{nil}
	}
	var all [][]Decision
	for i := range decided {
		rest := slices.Concat(decided[:i], decided[i+1:])
		for _, order := range ordersOf(rest) {
			all = append(all, append([]Decision{decided[i]}, order...))
		}
	}
	return all
}
