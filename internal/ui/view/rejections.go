package view

import (
	"fmt"
	"time"

	"github.com/paddock-project/paddock/internal/base/terminal"
)

// FleetRejections describes the rejections by the nodes of a cluster. `paddock fleet rejections`
// prints it.
type FleetRejections struct {
	RejectionRate
	// From and To are the earliest and the latest start of an agent's count, in RFC 3339. They are
	// empty if no agent publishes its start.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Later is set if only rejections after an earlier output count.
	Later bool `json:"later,omitempty"`
	// Kinds has every kind of node. Rejections has the rejections, beginning with the most
	// frequent.
	Kinds      []RejectingKind `json:"kinds"`
	Rejections []RejectedClass `json:"rejections"`
}

// RejectionRate compares rejections with all decisions about pods and resizes. Admitting a known
// pod again does not count as a decision.
type RejectionRate struct {
	Nodes    int   `json:"nodes"`
	Rejected int64 `json:"rejected"`
	// Decided counts admissions and rejections, and Rate is the rejected part, from 0 to 1. Both
	// are absent if the agents of some nodes, counted by Uncounted, have a version that publishes
	// only rejections. Rate is also absent if there were no decisions.
	Decided   *int64   `json:"decided,omitempty"`
	Rate      *float64 `json:"rate,omitempty"`
	Uncounted int      `json:"uncounted,omitempty"`
}

// RejectingKind describes the nodes of one kind.
type RejectingKind struct {
	Kind string `json:"kind"`
	RejectionRate
	Policy string `json:"policy"`
}

// RejectedClass counts the pods and resizes of one class that nodes of one kind rejected for one
// cause.
type RejectedClass struct {
	Kind     string `json:"kind"`
	Class    string `json:"class"`
	Cause    string `json:"cause"`
	Rejected int64  `json:"rejected"`
	Nodes    int    `json:"nodes"`
}

// RateOf returns the rate of a number of nodes with these rejections and decisions. uncounted is
// the number of nodes whose agents do not publish their decisions.
func RateOf(nodes int, rejected, decided int64, uncounted int) RejectionRate {
	r := RejectionRate{Nodes: nodes, Rejected: rejected, Uncounted: uncounted}
	if uncounted > 0 {
		return r
	}
	r.Decided = &decided
	if decided > 0 {
		rate := float64(rejected) / float64(decided)
		r.Rate = &rate
	}
	return r
}

// Percent formats the rate, or is empty if there is none.
func (r *RejectionRate) Percent() string {
	switch {
	case r.Rate == nil:
		return ""
	case *r.Rate > 0 && *r.Rate < 0.0005: // It is not nothing.
		return "< 0.1 %"
	}
	return fmt.Sprintf("%.1f %%", 100**r.Rate)
}

// Summary describes the rejections in a sentence or two.
func (f *FleetRejections) Summary() string {
	const minute = "2006-01-02 15:04"
	since := "since their agents started"
	from, wrong := time.Parse(time.RFC3339, f.From)
	to, err := time.Parse(time.RFC3339, f.To)
	switch {
	case f.Later:
		since = "since the earlier output"
	case wrong != nil || err != nil:
	case from.Equal(to):
		since += " at " + from.Format(minute) + " UTC"
	default:
		since += " between " + from.Format(minute) + " and " + to.Format(minute) + " UTC"
	}
	switch {
	case f.Nodes == 0:
		return "No node has a PaddockNode."
	case f.Uncounted > 0:
		text := Nodes(f.Nodes) + " rejected " + podsAndResizes(f.Rejected) + " " + since + ". There is no rate: "
		if f.Uncounted == f.Nodes {
			return text + "their agents are of a version that publishes only rejections."
		}
		return text + "the agents of " + Nodes(f.Uncounted) + " are of a version that publishes only rejections."
	case f.Rate == nil:
		return Nodes(f.Nodes) + " decided about no pod " + since + "."
	case f.Rejected == 0:
		return fmt.Sprintf("%s decided about %s %s, and rejected none.", Nodes(f.Nodes), podsAndResizes(*f.Decided), since)
	}
	return fmt.Sprintf("%s decided about %s %s, and rejected %s (%s).", Nodes(f.Nodes), podsAndResizes(*f.Decided), since, grouped(f.Rejected), f.Percent())
}

func podsAndResizes(n int64) string {
	if n == 1 {
		return "1 pod or resize"
	}
	return grouped(n) + " pods and resizes"
}

// Text formats the rejections for people.
func (f *FleetRejections) Text(style terminal.Style) string {
	out := style.Paragraph("", "  ", terminal.Strong.Of(f.Summary()))
	if len(f.Kinds) == 0 {
		return out
	}
	out += "\n" + f.kinds().Text(style)
	if len(f.Rejections) == 0 {
		return out
	}
	t := &terminal.Table{Columns: []terminal.Column{
		{Title: "REJECTED", Align: terminal.Right},
		{Title: "NODES", Align: terminal.Right},
		{Title: "CLASS"},
		{Title: "CAUSE"},
		{Title: "KIND"},
	}}
	for _, r := range f.Rejections {
		t.Row(grouped(r.Rejected), grouped(int64(r.Nodes)), r.Class, r.Cause, r.Kind)
	}
	return out + "\n" + t.Text(style)
}

func (f *FleetRejections) kinds() *terminal.Table {
	t := &terminal.Table{Columns: []terminal.Column{
		{Title: "KIND"},
		{Title: "NODES", Align: terminal.Right},
		{Title: "REJECTED", Align: terminal.Right},
		{Title: "OF", Align: terminal.Right},
		{Title: "RATE", Align: terminal.Right},
		{Title: "POLICY"},
	}}
	for i := range f.Kinds {
		k := &f.Kinds[i]
		of := ""
		if k.Decided != nil {
			of = grouped(*k.Decided)
		}
		t.Row(k.Kind, grouped(int64(k.Nodes)), grouped(k.Rejected), of, k.Percent(), k.Policy)
	}
	return t
}

// Rows returns the rejections with a header: a row for the total, for each kind, and for each
// class.
func (f *FleetRejections) Rows() [][]string {
	rate := func(r record, of *RejectionRate) record {
		r["nodes"], r["rejected"] = whole(of.Nodes), whole(of.Rejected)
		if of.Decided != nil {
			r["decided"] = whole(*of.Decided)
		}
		if of.Rate != nil {
			r["rate"] = decimal(*of.Rate)
		}
		return r
	}
	records := []record{rate(record{"row": "total"}, &f.RejectionRate)}
	for i := range f.Kinds {
		k := &f.Kinds[i]
		records = append(records, rate(record{"row": "kind", "kind": k.Kind, "policy": k.Policy}, &k.RejectionRate))
	}
	for _, r := range f.Rejections {
		records = append(records, record{"row": "class", "kind": r.Kind, "nodes": whole(r.Nodes), "rejected": whole(r.Rejected), "class": r.Class, "cause": r.Cause})
	}
	return table([]string{"row", "kind", "nodes", "rejected", "decided", "rate", "class", "cause", "policy"}, records)
}
