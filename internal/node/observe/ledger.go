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
	// Reordered means that the decision is as predicted, if the kubelet decided in another order
	// than that in which the pods were created.
	Reordered Result = "reordered"
	// Differs means that the prediction is another one in every order.
	Differs Result = "differs"
	// Unsure means that there was no prediction.
	Unsure Result = "unsure"
)

// Results returns all results, as text.
func Results() []string {
	return []string{string(AsPredicted), string(Reordered), string(Differs), string(Unsure)}
}

const (
	// keptSights is the number of previous sights that are kept. The status of a rejected pod
	// arrives later than the files that show the admission of the next pod.
	keptSights = 8
	// mostOrdered is the largest number of pods between two looks that are tried in every order.
	// Three pods have six orders.
	mostOrdered = 3
	// KeptDifferences is the number of differences that a Ledger keeps.
	KeptDifferences = 100
	// keptReasons is the number of reasons that are counted separately. The others are counted
	// together.
	keptReasons = 100
	// recent is the number of comparisons that Doubt looks at. With mostDiffering differences among
	// them, the predictions are in doubt.
	recent, mostDiffering = 20, 3
)

// Comparison is a decision of the kubelet together with its prediction.
type Comparison struct {
	At       time.Time
	UID, Pod string
	Result   Result
	Admitted bool
	// Predicted and Actual describe the prediction and the decision if they differ. Why is the
	// reason of Unsure.
	Predicted, Actual, Why string
	// Base and Plan are the prediction: the plan for the pod on the state from before. They are nil
	// if nothing was predicted.
	Base *node.State
	Plan *node.Plan
	// Short is the resource of which the Node was predicted to have too little for the pod, or "".
	Short request.Resource
	// Message is the kubelet's message about a rejected pod.
	Message string
	// Evidence is the result of Ledger.Evidence for a decision that differs.
	Evidence []byte
}

// Count counts comparisons of admissions or of rejections by result.
type Count map[Result]int

// Ledger compares. Its zero value is ready for use. It is not safe for concurrent use.
type Ledger struct {
	// Evidence returns what to keep of a decision that differs from its prediction, to find the
	// cause later. It may be nil.
	Evidence func(*Comparison) []byte

	// sights are the last ones, the newest last.
	sights []*Sight
	// until has the time of the next sight, for each sight but the newest.
	until       []time.Time
	lately      []Result
	admissions  Count
	rejections  Count
	reasons     map[string]int
	differences []Comparison
}

// Begin makes a sight the previous state of the next decisions. Earlier decisions are not compared,
// for example because the kubelet was restarted or its files could not be read.
func (l *Ledger) Begin(s Sight) { l.sights, l.until = []*Sight{&s}, nil }

// Skip is like Begin, and counts the decisions since the last look as Unsure, with the reason why.
func (l *Ledger) Skip(at time.Time, now Sight, decided []Decision, why string) {
	for _, c := range unsure(decided, why) {
		if _, listed := now.State.Grant(c.UID); listed || !c.Admitted {
			c.At = at
			l.count(&c)
		}
	}
	l.Begin(now)
}

// Look compares the decisions since the last look with their predictions. The decisions must be in
// the order in which the pods were created. now is the present state of the node. The comparisons
// are in the order of the decisions. Pods that no manager decides about are left out.
func (l *Ledger) Look(at time.Time, now Sight, decided []Decision) []Comparison {
	var all []Comparison
	if len(l.sights) > 0 {
		all = l.compare(&now, decided)
	} else {
		all = unsure(decided, "no state from before this decision was seen")
	}
	for i := range all {
		all[i].At = at
		l.count(&all[i])
	}
	if len(l.sights) > 0 {
		l.until = append(l.until, at)
	}
	l.sights = append(l.sights, &now)
	l.sights = l.sights[max(0, len(l.sights)-keptSights):]
	l.until = l.until[max(0, len(l.until)-keptSights+1):]
	return all
}

// Fits reports whether Look would find no difference.
func (l *Ledger) Fits(now Sight, decided []Decision) bool {
	return len(l.sights) == 0 || !slices.ContainsFunc(l.compare(&now, decided), func(c Comparison) bool { return c.Result == Differs })
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
		return // It shows nothing about the predictions.
	case Differs:
		kept := *c
		kept.Base, kept.Plan = nil, nil // They refer to whole states.
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

// Admissions returns the number of compared admissions by result.
func (l *Ledger) Admissions() Count { return maps.Clone(l.admissions) }

// Rejections returns the number of compared rejections by result.
func (l *Ledger) Rejections() Count { return maps.Clone(l.rejections) }

// Unpredicted returns the number of Unsure comparisons by reason.
func (l *Ledger) Unpredicted() map[string]int { return maps.Clone(l.reasons) }

// Differences returns the last decisions that differ from their prediction, the oldest first.
func (l *Ledger) Differences() []Comparison { return slices.Clone(l.differences) }

// Doubt returns the reason why predictions about this kubelet are in doubt, or "". They are in
// doubt if several of the last ones were wrong.
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

// compare looks for an order in which all decisions are as predicted, and compares one by one if
// there is none.
func (l *Ledger) compare(now *Sight, decided []Decision) []Comparison {
	before := l.sights[len(l.sights)-1]
	without, gone, ended := before.without(now)
	for o, order := range ordersOf(decided) {
		for _, base := range []position{without, before.at()} {
			for _, run := range []bool{false, true} {
				if predicted, is := try(base, now, order, run); is {
					return labelled(predicted, decided, o == 0)
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
	case gone > 0:
		return unsure(decided, "other pods ended at the same time")
	}
	return l.apart(without, now, decided, ended)
}

// unsure returns a comparison with the result Unsure for each decision.
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

// apart compares the decisions one by one, because no order explains all of them. A rejection can
// belong to an earlier state. A pod without a prediction can have been decided before any other.
// ended is the number of pods of the last sight that have ended.
func (l *Ledger) apart(at position, now *Sight, decided []Decision, ended int) []Comparison {
	var all []Comparison
	after, beside := "", ""
	for i := range decided {
		if len(decided[i].Doubts) > 0 {
			beside = decided[i].Pod.ID()
		}
	}
	for i := range decided {
		d := &decided[i]
		switch {
		case len(d.Doubts) > 0:
			all = append(all, d.unsure(strings.Join(d.Doubts, "; ")))
			after = d.Pod.ID()
			continue
		case after != "":
			all = append(all, d.unsure("it was decided after "+after+", whose decision was not predicted"))
			continue
		}
		p := at.predict(d)
		c := d.comparison(&p, AsPredicted)
		if !d.matches(&p, now) {
			if earlier := l.earlier(d, now); earlier != nil {
				all = append(all, d.comparison(earlier, Reordered))
				continue
			}
			if why := d.unpredictable(&p, ended); why != "" {
				c = d.unsure(why)
			} else if beside != "" {
				c = d.unsure("it was decided at the same time as " + beside + ", whose decision was not predicted")
			} else {
				c.Result, c.Predicted, c.Actual = Differs, described(p.reason(), p.grant()), d.actual(now)
			}
		}
		if c.Result != AsPredicted || d.matters(&p) {
			all = append(all, c)
		}
		next, err := p.then(d)
		if err != nil || c.Result != AsPredicted && d.Reason == "" {
			after = d.Pod.ID()
			continue
		}
		at = next
	}
	return all
}

// earlier returns the prediction of a rejection on the newest earlier sight that gives this
// rejection, or nil. The last sight is not tried.
func (l *Ledger) earlier(d *Decision, now *Sight) *prediction {
	for i := len(l.sights) - 2; i >= 0 && d.Reason != ""; i-- {
		if l.until[i].Unix() < d.Pod.Created { // The pod did not exist yet.
			return nil
		}
		if p := l.sights[i].at().predict(d); d.matches(&p, now) {
			return &p
		}
	}
	return nil
}
