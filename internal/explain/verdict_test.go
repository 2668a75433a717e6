package explain_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
	"github.com/paddock-project/paddock/internal/testing/scenario"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// TestTheVerdictIsThePlans checks that the explanation of one pod has one verdict, which is the
// plan's.
func TestTheVerdictIsThePlans(t *testing.T) {
	setChecks(t, "600")
	admitted, rejected := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		d := drawNode(t)
		s, pod, ok := d.state()
		if !ok {
			return
		}
		plan := s.Plan(pod)
		if fault := verdictFault(t.Context(), s, pod, plan); fault != "" {
			d.fatalf("%s", fault)
		}
		if plan.Rejection == nil {
			admitted++
		} else {
			rejected++
		}
	})
	t.Logf("%d admitted, %d rejected", admitted, rejected)
	if admitted < 20 || rejected < 20 {
		t.Errorf("too few cases: %d admitted, %d rejected", admitted, rejected)
	}
}

// TestTheVerdictOnMemoryThatFitsNowhereTogether covers Q-26: 2Gi are free on NUMA node 0 and 512Mi
// on NUMA node 1. Both serve memory as single NUMA nodes, and the pod's containers request exactly
// these amounts.
func TestTheVerdictOnMemoryThatFitsNowhereTogether(t *testing.T) {
	for topology, admits := range map[string]bool{"single-numa-node": false, "restricted": false, "best-effort": true, "none": true} {
		n := scenario.New(nil)
		for _, c := range []scenario.Command{
			{Name: "machine", Args: []string{"sockets=2", "cores=4", "memory=4Gi"}},
			{Name: "config", Args: []string{"topology=" + topology, "scope=pod", "cpu=none", "memory=Static", "reserved-memory=0:1Gi,1:1Gi"}},
			{Name: "pod", Args: []string{"low"}, Input: []string{"app c cpu=500m memory=1Gi"}},
			{Name: "admit", Args: []string{"low"}},
			{Name: "pod", Args: []string{"high"}, Input: []string{"app c cpu=500m memory=2560Mi"}},
			{Name: "admit", Args: []string{"high"}},
			{Name: "pod", Args: []string{"spread"}, Input: []string{"app c cpu=500m memory=2Gi", "app d cpu=500m memory=512Mi"}},
		} {
			if answer := n.Run(c); strings.Contains(answer, "error: ") {
				t.Fatal(answer)
			}
		}
		pod, err := n.Request("spread")
		if err != nil {
			t.Fatal(err)
		}
		plan := n.State().Plan(pod)
		if (plan.Rejection == nil) != admits {
			t.Errorf("%s: the refusal is %v, want admitted: %v", topology, plan.Rejection, admits)
		}
		if fault := verdictFault(t.Context(), n.State(), pod, plan); fault != "" {
			t.Errorf("%s: %s", topology, fault)
		}
	}
}

// verdictFault describes how the explanation of a plan contradicts it, or returns the empty string.
// If a pod is admitted, every alignment admits it, and nothing in its explanation is a reason to
// reject it. The printed text contains the verdict once.
func verdictFault(ctx context.Context, s *node.State, pod request.Pod, plan *node.Plan) string {
	remedies, err := explain.Search(ctx, s, pod)
	if err != nil {
		return err.Error()
	}
	e := view.ExplanationOf(s, plan, &remedies)
	admits := plan.Rejection == nil
	if e.Answer.Admitted != admits || (e.Answer.Rejection == nil) != admits || (plan.Grant != nil) != admits {
		return fmt.Sprintf("the plan's refusal is %v, and the explanation says admitted: %v, refusal: %+v", plan.Rejection, e.Answer.Admitted, e.Answer.Rejection)
	}
	if admits && len(remedies.Proposals)+len(remedies.Tried) > 0 {
		return fmt.Sprintf("an admitted pod has remedies: %+v", remedies)
	}
	for i, a := range e.Why.Alignments {
		if a.Admitted && !plan.Trace.Alignments[i].Choice.Admit {
			return "the policy rejects the pod, and the explanation says that it is admitted: " + a.Why
		}
		if fault := rejection(a); admits && fault != "" {
			return "the pod is admitted, and its alignment says that it is not: " + fault
		}
	}
	text := e.Text(terminal.Style{}, true)
	summary, unsaid := "admitted "+pod.ID(), "rejected "+pod.ID()
	if !admits {
		summary, unsaid = unsaid, summary
	}
	if strings.Count(text, summary) != 1 || strings.Contains(text, unsaid) {
		return fmt.Sprintf("%q is not there once, or %q is:\n%s", summary, unsaid, text)
	}
	return ""
}

// rejection returns the part of an alignment that rejects the pod, or the empty string.
func rejection(a explain.Alignment) string {
	if !a.Admitted {
		return a.Why
	}
	texts := []string{a.Why}
	for _, f := range a.Fits {
		texts = append(texts, f.Sets)
	}
	for _, text := range texts {
		for _, word := range []string{"reject", "refuse", "takes nothing less"} {
			if strings.Contains(text, word) {
				return text
			}
		}
	}
	return ""
}
