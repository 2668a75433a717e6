package web

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/explain"
	"github.com/paddock-project/paddock/internal/ui/nodemap"
)

// servePreview draws the node as it would be after one of the proposals for a rejected pod. With
// ?proposal=now it draws the pod where the present node would admit it.
func (w *Web) servePreview(rw http.ResponseWriter, r *http.Request) {
	m, n, ok := w.askedRejection(rw, r)
	if !ok {
		return
	}
	as, ok := looked(rw, r)
	if !ok {
		return
	}
	now := w.current(m)
	remedies, proposal := explain.Remedies{}, r.URL.Query().Get("proposal")
	if proposal != "now" {
		var err error
		if remedies, err = w.remedies(r.Context(), now, n); !well(rw, r, err) {
			return
		}
	}
	svg, ok := w.compute(rw, r, w.answers, func() ([]byte, error) {
		after, err := proposed(m, now, n, remedies.Proposals, proposal)
		if err != nil {
			return nil, &problem{http.StatusNotFound, err.Error()}
		}
		return w.draw(after, as)
	})
	if ok {
		send(rw, picture, svg)
	}
}

// proposed returns the node with the pod after the proposal with that number. Pods that stay keep
// their colours.
func proposed(m moment, now *node.State, n notAdmitted, proposals []explain.Proposal, proposal string) (moment, error) {
	s, pod, changed := now, n.pod, ""
	if proposal != "now" {
		i, err := strconv.Atoi(proposal)
		if err != nil || i < 0 || i >= len(proposals) {
			return moment{}, fmt.Errorf("proposal %q: there are %d, from 0 on", proposal, len(proposals))
		}
		if s, pod, err = proposals[i].Apply(now, n.pod); err != nil {
			return moment{}, fmt.Errorf("proposal %d: %w", i, err)
		}
		if proposals[i].Kind == explain.Settings {
			changed = proposals[i].Text
		}
	}
	plan := s.Plan(pod)
	if plan.Rejection != nil {
		return moment{}, fmt.Errorf("pod %s would be rejected now: %w", pod.ID(), plan.Rejection)
	}
	next, err := s.Apply(plan)
	if err != nil {
		return moment{}, err
	}
	return moment{state: next, slots: nodemap.NextSlots(m.state, m.slots, next), at: m.at, changed: changed}, nil
}
