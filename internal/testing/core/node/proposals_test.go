package node_test

import (
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/explain"
)

// rejected returns the pod that the commands since block number done had rejected, or "".
func (h *history) rejected(done int) string {
	for _, b := range h.blocks[done:] {
		if b.Command.Name == "admit" && strings.HasPrefix(b.Answer[0], "rejected") {
			return b.Command.Args[0]
		}
	}
	return ""
}

// checkProposals proves what is proposed for a rejected pod: after each proposal is applied, the
// pod is admitted, the state has no contradictions, and neither a change of settings nor the
// absence of pods takes anything from the pods that stay. It returns the number of proposals.
func (h *history) checkProposals(name string) int {
	pod, err := h.n.Request(name)
	if err != nil {
		h.fatalf("%v", err)
	}
	before := h.state()
	found, err := explain.Search(h.t.Context(), before, pod)
	if err != nil {
		h.fatalf("%v", err)
	}
	if h.state() != before {
		h.fatalf("the search for proposals changed the state")
	}
	for _, p := range found.Proposals {
		s, asks, err := p.Apply(before, pod)
		if err != nil {
			h.fatalf("%s, and it cannot be done: %v", p.Text, err)
		}
		plan := s.Plan(asks)
		if plan.Rejection != nil {
			h.fatalf("%s, and it is rejected: %v", p.Text, plan.Rejection)
		}
		next, err := s.Apply(plan)
		if err == nil {
			err = next.Check()
		}
		if err != nil {
			h.fatalf("%s: %v", p.Text, err)
		}
		for _, g := range before.Grants() {
			now, there := next.Grant(g.Pod.UID)
			gone, moved := false, slices.ContainsFunc(p.Moves, func(m explain.PodMove) bool { return m.UID == g.Pod.UID })
			for _, a := range p.Without {
				gone = gone || a.UID == g.Pod.UID
			}
			if there == gone || there && now != g && !moved {
				h.fatalf("%s, and pod %s is not as it was", p.Text, g.Pod.UID)
			}
		}
	}
	return len(found.Proposals)
}
