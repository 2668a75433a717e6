package program

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
	"github.com/paddock-project/paddock/internal/kubelet/quirk"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// wherever decides about a pod with each placement of the devices with unknown NUMA nodes. If the
// pod is rejected for the same reason in all cases, or always gets the same CPUs and memory, the
// placement of the devices is no doubt about the decision. Otherwise the doubt names two placements
// that differ.
func (d *decider) wherever(made *decision, asked request.Pod) error {
	if d.stock == nil || !made.isUnsure() || made.plan.Known {
		return nil
	}
	placements, about, err := d.stock.shown.Placements(made.before, &made.plan.Pod)
	if d.placements += len(placements); err != nil || len(placements) == 0 || d.placements > maxTried {
		return err
	}
	plans := make([]*node.Plan, len(placements))
	other := -1 // the first placement with another verdict than the first one
	same := true
	for i, p := range placements {
		plan, quirks, _ := d.kubelet.Admit(p.State, asked)
		plans[i] = quirk.Answer(plan, quirks)
		if !sameVerdict(plans[i], plans[0]) && other < 0 {
			other = i
		}
		same = same && samePlace(plans[i], made.plan)
	}
	places := func(x view.Doubt) bool { return slices.Contains(about, x) }
	switch rejected := plans[0].Rejection != nil; {
	case other >= 0:
		for i := range made.doubts {
			if places(made.doubts[i]) {
				made.doubts[i].Reason += fmt.Sprintf(": %s, this pod is %s; %s, it is %s", placements[0].Text, verdict(plans[0]), placements[other].Text, verdict(plans[other]))
			}
		}
		return nil
	case !rejected && !same:
		for i := range made.doubts {
			if places(made.doubts[i]) {
				made.doubts[i].Reason += "; this pod is admitted wherever each of them is, and what it gets depends on that"
			}
		}
		return nil
	}
	made.doubts = slices.DeleteFunc(made.doubts, places)
	for _, p := range placements {
		made.placed = append(made.placed, p.State)
	}
	reasons := make([]string, len(about))
	for i, x := range about {
		reasons[i] = x.Reason
	}
	note := strings.Join(reasons, "; ") + "; the answer is the same wherever each of them is"
	if !sameVerdict(plans[0], made.plan) {
		made.before, made.plan = placements[0].State, plans[0]
		note += ", and is shown " + placements[0].Text
	}
	made.plan.Trace.Notes = append(slices.Clone(made.plan.Trace.Notes), note)
	return nil
}

// samePlace reports whether two plans admit a pod with the same CPUs and memory.
func samePlace(a, b *node.Plan) bool {
	if a.Grant == nil || b.Grant == nil || !a.Grant.CPUs().Equal(b.Grant.CPUs()) {
		return false
	}
	return slices.EqualFunc(a.Grant.Containers, b.Grant.Containers, func(x, y node.ContainerGrant) bool {
		return x.CPUs.Equal(y.CPUs) && x.MemoryNodes == y.MemoryNodes
	})
}

// everywhere adds to each proposal the number of placements with which it admits the pod. It drops
// proposals that never admit it.
func (d *decider) everywhere(remedies *explain.Remedies, asked request.Pod, placed []*node.State) error {
	if len(placed) == 0 {
		return nil
	}
	plans := 0
	kept := []explain.Proposal{}
	for _, p := range remedies.Proposals {
		if p.Kind == explain.Elsewhere {
			kept = append(kept, p)
			continue
		}
		admits := 0
		for _, s := range placed {
			changed, pod, err := p.Apply(s, asked)
			if err != nil {
				return err
			}
			plans++
			plan, quirks, _ := quirk.New(d.as.version).Admit(changed, pod)
			if quirk.Answer(plan, quirks).Rejection == nil {
				admits++
			}
		}
		if admits > 0 {
			p.Outcome += fmt.Sprintf(", with %d of %d possible places of the devices", admits, len(placed))
			kept = append(kept, p)
		}
	}
	remedies.Proposals = kept
	remedies.Tried = append(remedies.Tried, explain.Try{
		What: "the places of the devices", Plans: plans, Found: fmt.Sprintf("%d are possible, and each change was planned with all of them", len(placed)),
	})
	return nil
}
