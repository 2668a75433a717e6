package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/node/observe"
)

// Trust compares the predictions about a kubelet with its decisions. `paddock trust` prints it.
type Trust struct {
	// Kubelet is the kubelet that decides, such as "kubelet-1.36.4". Policy describes how it
	// decides.
	Kubelet string `json:"kubelet"`
	Policy  string `json:"policy"`
	// Since is the time at which the agent began to compare.
	Since time.Time `json:"since"`
	// Certainty describes how sure the state is that the agent shows.
	Certainty *Certainty `json:"certainty"`
	// Admissions and Rejections count the decisions of the kubelet about pods that get CPUs, memory
	// or devices of their own.
	Admissions TrustCount `json:"admissions"`
	Rejections TrustCount `json:"rejections"`
	// Unpredicted has the reasons why decisions were not predicted.
	Unpredicted []Unpredicted `json:"unpredicted"`
	// Differences are the last decisions that differ from their predictions, the oldest first.
	Differences []Difference `json:"differences"`
}

// TrustCount counts decisions.
type TrustCount struct {
	All         int `json:"all"`
	AsPredicted int `json:"asPredicted"`
	// Reordered counts decisions that match the prediction for another order of the pods. The
	// kubelet's files do not show the order.
	Reordered int `json:"reordered"`
	Differ    int `json:"differ"`
	// Unsure counts decisions for which there was no prediction.
	Unsure int `json:"unsure"`
}

// Unpredicted is a reason why decisions were not predicted, with their number.
type Unpredicted struct {
	Reason string `json:"reason"`
	Count  int    `json:"count"`
}

// Difference is a decision that differs from its prediction.
type Difference struct {
	At        time.Time `json:"at"`
	Pod       string    `json:"pod"`
	UID       string    `json:"uid"`
	Predicted string    `json:"predicted"`
	Actual    string    `json:"actual"`
}

// TrustOf returns the content of a ledger.
func TrustOf(l *observe.Ledger) Trust {
	t := Trust{Admissions: trustCount(l.Admissions()), Rejections: trustCount(l.Rejections()), Unpredicted: []Unpredicted{}, Differences: []Difference{}}
	reasons := l.Unpredicted()
	for _, reason := range slices.SortedFunc(maps.Keys(reasons), func(a, b string) int { return cmp.Or(cmp.Compare(reasons[b], reasons[a]), cmp.Compare(a, b)) }) {
		t.Unpredicted = append(t.Unpredicted, Unpredicted{reason, reasons[reason]})
	}
	for _, c := range l.Differences() {
		t.Differences = append(t.Differences, Difference{c.At, c.Pod, c.UID, c.Predicted, c.Actual})
	}
	return t
}

func trustCount(c observe.Count) TrustCount {
	n := TrustCount{AsPredicted: c[observe.AsPredicted], Reordered: c[observe.Reordered], Differ: c[observe.Differs], Unsure: c[observe.Unsure]}
	n.All = n.AsPredicted + n.Reordered + n.Differ + n.Unsure
	return n
}

// Differs reports whether a decision differs from its prediction.
func (t *Trust) Differs() bool { return t.Admissions.Differ+t.Rejections.Differ > 0 }

// Text formats the comparison for people.
func (t *Trust) Text(style terminal.Style) string {
	var out strings.Builder
	line := func(cells ...terminal.Cell) { out.WriteString(style.Paragraph("", "  ", cells...)) }
	line(terminal.Strong.Of(t.Kubelet), terminal.Faint.Of(t.Policy))
	if c := t.Certainty; c != nil && c.Answer != Exact {
		for _, text := range c.lines() {
			word, rest, _ := strings.Cut(text, " ")
			line(terminal.Warn.Of(word), terminal.Plain.Of(rest))
		}
	}
	line(terminal.Plain.Of(fmt.Sprintf("since %s: %s; %s", Clock(t.Since), t.Admissions.text("admission"), t.Rejections.text("rejection"))))
	if n := t.Admissions.Reordered + t.Rejections.Reordered; n > 0 {
		line(terminal.Faint.Of(fmt.Sprintf("%d of these in another order than that of the pods' creation, which no file shows", n)))
	}
	for _, u := range t.Unpredicted {
		line(terminal.Warn.Of(fmt.Sprintf("%d not predicted:", u.Count)), terminal.Plain.Of(u.Reason))
	}
	if len(t.Differences) == 0 {
		return out.String()
	}
	out.WriteByte('\n')
	table := &terminal.Table{Columns: terminal.Columns("TIME", "POD", "PREDICTED", "THE KUBELET")}
	for _, d := range t.Differences {
		table.Cells(terminal.Faint.Of(Clock(d.At)), terminal.Strong.Of(d.Pod), terminal.Plain.Of(d.Predicted), terminal.Bad.Of(d.Actual))
	}
	out.WriteString(table.Text(style))
	return out.String()
}

func (c TrustCount) text(what string) string {
	text := Count(c.All-c.Unsure, what)
	if c.All == c.Unsure {
		return "no " + what + " yet"
	}
	return fmt.Sprintf("%s, %d as predicted", text, c.AsPredicted+c.Reordered)
}
