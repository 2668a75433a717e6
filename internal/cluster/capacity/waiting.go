package capacity

import (
	"slices"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
)

// waiter is a pod that only a rule keeps from some node. It may fit after other pods are placed.
type waiter struct {
	class *fleet.Class
	pod   fleet.Pod
	at    int // position of its placement, -1 without placements
	// placed is the number of pods that were placed when no node took this pod. why has the
	// reasons.
	placed int64
	why    []fleet.Count
}

// fit places a pod, records its rejection, or lets it wait.
func (r *run) fit(w waiter) error {
	p, err := r.Fleet.FitOf(w.class, w.pod)
	switch {
	case err != nil:
		return err
	case p.Node == "" && r.patient && slices.ContainsFunc(p.Why, func(c fleet.Count) bool { return c.Rule != "" }):
		w.placed, w.why = r.Placed, p.Why
		r.waiting = append(r.waiting, w)
		return nil
	case p.Node == "":
		return r.rejected(w, p.Why)
	}
	if w.at >= 0 {
		r.Placements[w.at].Node, r.Placements[w.at].Grant = p.Node, p.Grant
	}
	r.Placed++
	n, _ := r.Fleet.Node(p.Node)
	pod := w.pod.On(&n)
	r.PlacedMilli += pod.Asks.Milli
	aligned := alignmentOf(n.State, p.Grant, pod)
	r.Alignment.add(aligned)
	k := r.kindOf[p.Node]
	k.Alignment.add(aligned)
	k.Pods++
	k.PlacedMilli += pod.Asks.Milli
	return nil
}

// rejected records the rejection of one pod.
func (r *run) rejected(w waiter, why []fleet.Count) error {
	r.Rejected++
	r.shapeOf(w.class, w.pod, why).pods++
	text, err := r.reject(w.class, w.pod, why, 1)
	if err == nil && w.at >= 0 {
		r.Placements[w.at].Reason = text
	}
	return err
}

// again tries the waiting pods again, in their order, while that places any. It then rejects the
// rest.
func (r *run) again() error {
	for before := int64(-1); before != r.Placed; {
		before = r.Placed
		waiting := r.waiting
		r.waiting = nil
		for _, w := range waiting {
			if w.placed == r.Placed {
				r.waiting = append(r.waiting, w)
			} else if err := r.fit(w); err != nil {
				return err
			}
		}
	}
	for _, w := range r.waiting {
		if err := r.rejected(w, w.why); err != nil {
			return err
		}
	}
	r.waiting = nil
	return nil
}
