package view

import (
	"slices"
	"strings"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/base/terminal"
)

// The values of Certainty.Answer.
const (
	// Exact means that the kubelet does what the answer describes.
	Exact = v1alpha1.CertaintyExact
	// Pending means that pods are bound to the node and the kubelet has not decided about them. The
	// answer is the same before these decisions, and after them in whatever order they come.
	Pending = v1alpha1.CertaintyPending
	// Unsure means that the kubelet, or the scheduler before it, may act differently.
	Unsure = v1alpha1.CertaintyUnsure
)

// Certainty describes how sure an answer about a kubelet is. Every document with such an answer has
// it in the same form, under the name "certainty". It is nil where Paddock decides, unless the
// answer is unsure.
type Certainty struct {
	// Answer is Exact, Pending or Unsure.
	Answer string `json:"answer"`
	// Doubts are the reasons why an answer is unsure.
	Doubts []Doubt `json:"doubts"`
	// Pods are the bound pods about which the kubelet has not decided, as "namespace/name".
	Pods []string `json:"pending"`
}

// Doubt is a reason why a kubelet, or the scheduler before it, may act differently from an answer.
type Doubt struct {
	Reason string `json:"reason"`
	// Give describes what to provide, or to do, to be sure.
	Give string `json:"give"`
}

// String returns the doubt in one line.
func (d Doubt) String() string {
	if d.Give == "" {
		return d.Reason
	}
	return d.Reason + "; to be sure, " + d.Give
}

// CertaintyOf returns the certainty of an answer with these doubts, while these pods wait for the
// kubelet's decision.
func CertaintyOf(doubts []Doubt, pending []string) *Certainty {
	c := &Certainty{Answer: Exact, Doubts: []Doubt{}, Pods: append([]string{}, pending...)}
	if len(pending) > 0 {
		c.Answer = Pending
	}
	for _, d := range doubts {
		if !slices.Contains(c.Doubts, d) {
			c.Answer, c.Doubts = Unsure, append(c.Doubts, d)
		}
	}
	return c
}

// IsUnsure reports whether there is an answer, and it is unsure.
func (c *Certainty) IsUnsure() bool { return c != nil && c.Answer == Unsure }

// unsureLines returns the doubts of an unsure answer, each as a paragraph.
func (c *Certainty) unsureLines(style terminal.Style) string {
	var out strings.Builder
	if c.IsUnsure() {
		for _, d := range c.Doubts {
			out.WriteString(style.Paragraph("", "  ", terminal.Warn.Of("unsure:"), terminal.Plain.Of(d.String())))
		}
	}
	return out.String()
}

// unsure returns how many answers are unsure.
func (p Plan) unsure() int {
	n := 0
	for i := range p.Pods {
		if p.Pods[i].Certainty.IsUnsure() {
			n++
		}
	}
	return n
}

// certainties returns the reasons why answers are unsure, each with all the pods to which it
// applies, followed by the pending answers.
func (p Plan) certainties() [][]terminal.Cell {
	var order []string
	pods := map[string][]string{}
	add := func(text, pod string) {
		if pods[text] == nil {
			order = append(order, text)
		}
		pods[text] = append(pods[text], pod)
	}
	for i := range p.Pods {
		for _, text := range p.Pods[i].Certainty.lines() {
			add(text, p.Pods[i].Pod)
		}
	}
	var lines [][]terminal.Cell
	for _, text := range order {
		word, rest, _ := strings.Cut(text, " ")
		lines = append(lines, []terminal.Cell{terminal.Warn.Of(word), terminal.Strong.Of(names(pods[text]) + ":"), terminal.Plain.Of(rest)})
	}
	return lines
}

// lines returns a line for each doubt or, if there is none, for the pods that wait. Each begins
// with the answer.
func (c *Certainty) lines() []string {
	if c == nil || c.Answer == Exact {
		return nil
	}
	if c.Answer == Pending {
		return []string{Pending + " the answer is the same before and after the kubelet decides about " + names(c.Pods) + ", bound to the node, in every order"}
	}
	var all []string
	for _, d := range c.Doubts {
		all = append(all, Unsure+" "+d.String())
	}
	return all
}

// certainty prints, before an answer, that the answer is unsure or pending, and the reason.
func (w *explanation) certainty(pod string, c *Certainty) {
	if c == nil || c.Answer == Exact {
		return
	}
	w.paragraph("", "  ", terminal.Warn.Of(c.Answer), terminal.Strong.Of(pod))
	for _, text := range c.lines() {
		w.sentence(terminal.Plain.Of(text[len(c.Answer)+1:]))
	}
	if c.Answer == Unsure {
		w.sentence(terminal.Faint.Of("as far as the files show:"))
	}
}
