package node_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// TestVerdicts compares Admits with Plan after random histories, with room that is reserved for
// other pods, for those pods and for pods without a UID. TestHistories and its siblings compare
// them at every step.
func TestVerdicts(t *testing.T) {
	setChecksTo(t, histories)
	fit, rejected := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		h := rapid.SampledFrom([]func(*rapid.T) *history{start, startTight, startIsolated}).Draw(t, "start")(t)
		for range h.intn(0, 6, "steps") {
			if name := h.describePod(); name != "" {
				h.checkVerdictAbout(name)
				h.do("admit " + name)
			}
		}
		with, list := h.state(), []node.Reservation{}
		for range h.intn(0, 3, "reserved") {
			pod, is := h.another(with)
			if plan := with.Plan(pod); is && plan.Grant != nil {
				with = h.apply(with, plan)
				why := rapid.SampledFrom([]node.Purpose{node.RoomForPod, node.MovedTo, node.OnItsWay}).Draw(t, "why")
				list = append(list, node.Reservation{Grant: plan.Grant, Why: why})
			}
		}
		beside := h.state().WithReservations(list)
		for _, r := range list {
			h.checkVerdict(beside, r.Grant.Pod)
		}
		if pod, is := h.another(with); is {
			if h.checkVerdict(beside, pod).Fits {
				fit++
			} else {
				rejected++
			}
		}
	})
	if fit == 0 || rejected == 0 {
		t.Errorf("%d pods fit and %d were rejected: want both", fit, rejected)
	}
}

func (h *history) checkVerdictAbout(name string) {
	asked, err := h.n.Request(name)
	if err != nil {
		h.fatalf("%v", err)
	}
	h.checkVerdict(h.state(), asked)
}

// checkVerdict checks that Admits has the verdict of Plan, for the pod and for one with its request
// and without its names, as a scheduler asks. It returns the verdict about the pod.
func (h *history) checkVerdict(s *node.State, asked request.Pod) (verdict node.Verdict) {
	for _, pod := range []request.Pod{{Ask: asked.Ask}, asked} {
		plan := s.Plan(pod)
		if verdict = s.Admits(&pod, &h.scratch); verdict != plan.Verdict() {
			h.fatalf("the verdict about pod %q is %+v, and the plan has %+v: %v", pod.UID, verdict, plan.Verdict(), plan.Rejection)
		}
	}
	return verdict
}
