package node_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/paddock-project/paddock/internal/codec/statefile"
	"github.com/paddock-project/paddock/internal/core/grantform"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/explain"
)

// restarted returns the state that a start makes from what is stored: the state file, the machine,
// the policy and the devices. Every second start restores all grants by all rules. The others adopt
// them, as the agent does for running pods.
func (h *history) restarted() *node.State {
	now := h.state()
	data, err := statefile.Encode(now)
	if err != nil {
		h.fatalf("the state is not written: %v", err)
	}
	file, err := statefile.Decode("state.json", data)
	if err != nil {
		h.fatalf("the state is not read back: %v", err)
	}
	if h.starts++; h.starts%2 == 0 {
		restored, err := node.Restore(now.Machine(), now.Policy(), file.Grants)
		if err == nil {
			restored, err = restored.WithDevices(now.Devices().Inventory())
		}
		if err != nil {
			h.fatalf("the grants make no state: %v", err)
		}
		return restored.Resume(file.Generation)
	}
	adopted, findings, err := node.Adopt(now.Machine(), now.Policy(), now.Devices().Inventory(), file.Grants)
	if err != nil || len(findings) > 0 {
		h.fatalf("nothing changed, and Adopt finds %v, %v", findings, err)
	}
	return adopted.Resume(file.Generation)
}

// checkRestart checks that a start changes nothing. Every pod that was described has the same
// answer, with the same account and the same trace, and all numbers in gauges and reports are the
// same.
func (h *history) checkRestart() {
	now, again := h.state(), h.restarted()
	h.sameState(now, again)
	for i := range h.pods {
		pod, err := h.n.Request(fmt.Sprintf("p%d", i))
		if err != nil {
			continue // The API server rejects the pod.
		}
		plan := now.Plan(pod)
		h.checkTrace(now, plan)
		h.sameAnswer(plan, again.Plan(pod))
		if _, known := now.Grant(pod.UID); known {
			pod.UID, pod.Name = "another", "another"
			plan = now.Plan(pod)
			h.checkTrace(now, plan)
			h.sameAnswer(plan, again.Plan(pod))
		}
	}
}

// checkReport compares the report on the node, which plans many pods.
func (h *history) checkReport() {
	report := func(s *node.State) string {
		r, err := explain.Usage(h.t.Context(), s)
		text, wrong := json.Marshal(r)
		return fmt.Sprint(string(text), err, wrong)
	}
	want := report(h.state())
	if got := report(h.restarted()); got != want {
		h.fatalf("after a restart the report is\n%s\nand it was\n%s", got, want)
	}
}

func (h *history) sameState(a, b *node.State) {
	h.sameBooks(a, b)
	if a.Generation() > b.Generation() {
		h.fatalf("after a restart the generation is %d, and it was %d", b.Generation(), a.Generation())
	}
	if was, is := a.Memory().Nodes(), b.Memory().Nodes(); !reflect.DeepEqual(was, is) {
		h.fatalf("after a restart the memory of the NUMA nodes is %+v, and it was %+v", is, was)
	}
	if !slices.EqualFunc(a.Grants(), b.Grants(), func(x, y *node.Grant) bool { return h.grantText(x) == h.grantText(y) }) {
		h.fatalf("after a restart the grants are others")
	}
}

// sameAnswer compares two plans, apart from the state that they were made for.
func (h *history) sameAnswer(a, b *node.Plan) {
	was, is := h.planText(a), h.planText(b)
	if was != is {
		h.fatalf("before a restart the answer is\n%s\nand after it\n%s", was, is)
	}
	if !slices.EqualFunc(a.Trace.Alignments, b.Trace.Alignments, func(x, y node.Alignment) bool { return reflect.DeepEqual(x, y) }) {
		h.fatalf("before a restart the alignments are %+v, and after it %+v", a.Trace.Alignments, b.Trace.Alignments)
	}
}

func (h *history) planText(p *node.Plan) string {
	text := fmt.Sprintf("%v, shared %s then %s, divisions %+v, notes %q", p.Known, p.Delta.SharedBefore, p.Delta.SharedAfter,
		p.Trace.Divisions, p.Trace.Notes)
	if p.Rejection != nil {
		account, err := json.Marshal(p.Rejection)
		if err != nil {
			h.fatalf("%v", err)
		}
		return fmt.Sprintf("%s %s, taken %v", text, account, p.Trace.Taken)
	}
	g := *p.Grant
	if !p.Known {
		g.Sequence = 0 // It depends on the generation, which a start may increase.
	}
	return text + " " + h.grantText(&g)
}

// grantText returns everything of a grant that a state file contains.
func (h *history) grantText(g *node.Grant) string {
	text, err := grantform.Append(nil, g)
	if err != nil {
		h.fatalf("%v", err)
	}
	return string(text)
}
