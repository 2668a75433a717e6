package web

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/paddock-project/paddock/internal/nodemap"
)

// servePreview draws the node as it would be after one of the proposals for a rejected pod, or with
// ?proposal=now, with the pod where it would be admitted by now.
func (w *Web) servePreview(rw http.ResponseWriter, r *http.Request) {
	m, n, ok := w.askedRejection(rw, r)
	if !ok {
		return
	}
	as, ok := looked(rw, r)
	if !ok {
		return
	}
	after, err := w.after(r.Context(), m, n, r.URL.Query().Get("proposal"))
	if err != nil {
		fail(rw, http.StatusNotFound, err.Error())
		return
	}
	svg, err := w.draw(after, as)
	if err != nil {
		fail(rw, http.StatusInternalServerError, err.Error())
		return
	}
	drawn(rw, svg)
}

// after is the node with the pod, after the proposal of that number. Pods that stay keep their
// colours.
func (w *Web) after(ctx context.Context, m moment, n rejection, proposal string) (moment, error) {
	now := w.current(m)
	s, pod := now, n.pod
	if proposal != "now" {
		remedies, err := w.remedies(ctx, now, n)
		if err != nil {
			return moment{}, err
		}
		i, err := strconv.Atoi(proposal)
		if err != nil || i < 0 || i >= len(remedies.Proposals) {
			return moment{}, fmt.Errorf("proposal %q: there are %d, from 0 on", proposal, len(remedies.Proposals))
		}
		if s, pod, err = remedies.Proposals[i].Apply(now, n.pod); err != nil {
			return moment{}, fmt.Errorf("proposal %d: %w", i, err)
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
	return moment{state: next, slots: nodemap.NextSlots(m.state, m.slots, next), at: m.at}, nil
}
