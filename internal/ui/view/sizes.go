package view

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/base/terminal"
)

// SizesText formats the numbers of nodes for people.
func SizesText(answers []Fleet, style terminal.Style) string {
	t := &terminal.Table{Columns: []terminal.Column{
		{Title: "KIND"},
		{Title: "NODES", Align: terminal.Right},
		{Title: "LEFT OUT", Align: terminal.Right},
		{Title: "LOWER BOUND", Align: terminal.Right},
		{Title: "SCORING"},
		{Title: "ORDER"},
		{Title: "ALIGNED", Align: terminal.Right},
		{Title: "CPUS PLACED", Align: terminal.Right},
		{Title: "OF", Align: terminal.Right},
		{Title: "", Align: terminal.Right},
		{Title: "STRANDED", Align: terminal.Right},
	}}
	priced := slices.ContainsFunc(answers, func(f Fleet) bool { return f.Price != nil })
	if priced {
		t.Columns = append(t.Columns, terminal.Column{Title: "PRICE", Align: terminal.Right})
	}
	var below strings.Builder
	for _, f := range answers {
		row := f.sizeRow()
		below.WriteString(f.belowSize(style))
		if priced {
			price := terminal.Cell{}
			if f.Price != nil {
				price.Text = Money(*f.Price)
			}
			row = append(row, price)
		}
		t.Cells(row...)
	}
	order := ""
	if open := interruptedText(answers); open != "" {
		order = style.Paragraph("", "", terminal.Warn.Of(open))
	}
	order += style.Paragraph("", "", terminal.Plain.Of(ordersText(answers)))
	return t.Text(style) + below.String() + "\n" + order
}

// interruptedText describes what the answers leave open if the search was interrupted.
func interruptedText(answers []Fleet) string {
	if len(answers) == 0 || answers[0].Interrupted == "" {
		return ""
	}
	return "Interrupted: " + answers[0].Interrupted + "."
}

// ordersText describes the orders of the pods, and which answers a longer search may improve.
func ordersText(answers []Fleet) string {
	if len(answers) == 0 {
		return ""
	}
	text := orderText(answers[0].Order)
	if slices.ContainsFunc(answers, func(f Fleet) bool { return f.Order != "" && f.Order != answers[0].Order }) {
		text = "Each number is for the scoring and the order of its row."
	}
	if answers[0].Interrupted == "" && slices.ContainsFunc(answers, func(f Fleet) bool { return f.AtMost }) {
		text += " The time for the search was over: with a longer --time, fewer nodes may be enough."
	}
	return text
}

// Name returns the subject of an answer to size: a kind of node, or a mix of kinds.
func (f *Fleet) Name() string {
	if f.Question == "mix" {
		return "mix"
	}
	return f.Kinds[0].Kind
}

// sizeRow returns the row of an answer, without the price.
func (f *Fleet) sizeRow() []terminal.Cell {
	bound := terminal.Cell{Text: some(int64(f.LowerBound))}
	if f.Optimal {
		bound = terminal.Good.Of("optimal")
	}
	row := []terminal.Cell{{Text: f.Name()}, terminal.Strong.Of(f.Number()), terminal.Bad.Of(some(f.LeftOut)), bound}
	if f.Nodes == 0 || f.TooFew {
		row[1].Tone = terminal.Bad
		return append(row, make([]terminal.Cell, 7)...)
	}
	for _, text := range []string{f.Scoring, f.Order, alignedPods(f.Pods.Aligned, f.Pods.AlignmentUnknown, f.Pods.Own), amount(f.CPUs.Placed), amount(f.CPUs.Allocatable), share(f.CPUs.FleetCPUs), tenths(f.CPUs.Stranded)} {
		row = append(row, terminal.Cell{Text: text})
	}
	return row
}

// Number describes the number of nodes in the answer to size.
func (f *Fleet) Number() string {
	switch {
	case f.Nodes == 0:
		return "no number"
	case f.TooFew:
		return "more than " + grouped(int64(f.Nodes))
	case f.AtMost:
		return "at most " + grouped(int64(f.Nodes))
	}
	return grouped(int64(f.Nodes))
}

// belowSize explains an answer below the table.
func (f *Fleet) belowSize(style terminal.Style) string {
	var out strings.Builder
	if f.Question == "mix" {
		fmt.Fprintf(&out, "\n%s\n", f.mix())
		return out.String() // The answers about single kinds have the causes.
	}
	if f.LeftOut > 0 {
		out.WriteString("\n" + style.Paragraph("", "  ", terminal.Plain.Of(f.leftOut())))
	}
	if f.Scarcity != nil {
		fmt.Fprintf(&out, "\n%s: %s", style.Paint(terminal.Plain, f.Name()), f.Scarcity.text(style))
	}
	for _, c := range f.Causes {
		fmt.Fprintf(&out, "\n%s: %s", style.Paint(terminal.Plain, f.Name()), c.text(style))
	}
	return out.String()
}

// leftOut describes the pods for which the number of nodes is valid.
func (f *Fleet) leftOut() string {
	never := fmt.Sprintf("no node of this kind takes %s, however empty", these(f.LeftOut))
	switch {
	case f.Nodes == 0:
		return fmt.Sprintf("%s: no node of this kind takes any of the pods, however empty.", f.Name())
	case f.TooFew:
		return fmt.Sprintf("%s: %s are too few for all pods but %s of %s: %s.", f.Name(), Nodes(f.Nodes), grouped(f.LeftOut), grouped(f.Pods.Asked), never)
	}
	return fmt.Sprintf("%s: %s for all pods but %s of %s: %s.", f.Name(), Nodes(f.Nodes), grouped(f.LeftOut), grouped(f.Pods.Asked), never)
}

func these(n int64) string {
	if n == 1 {
		return "this one"
	}
	return "these"
}

// mix describes a mix in a sentence.
func (f *Fleet) mix() string {
	var parts []string
	for _, k := range f.Kinds {
		parts = append(parts, grouped(int64(k.Nodes))+" "+k.Kind)
	}
	fewer := "With one node fewer of any kind, the pods do not fit"
	if f.AtMost {
		fewer = "The search ended early, and a cheaper one may do"
	}
	text := fmt.Sprintf("The mix is %s, for %s. No mix costs less than %s: the gap is %.1f %%. %s (%s tried).",
		strings.Join(parts, " and "), Money(*f.Price), Money(f.Mix.LowerBound), f.Mix.Gap*100, fewer, Count(f.Mix.Tried, "placement"))
	if f.LeftOut > 0 {
		text += fmt.Sprintf(" It is for all pods but %s of %s: no node of any kind takes %s, however empty.", grouped(f.LeftOut), grouped(f.Pods.Asked), these(f.LeftOut))
	}
	return text
}

// Share returns the part of the allocatable CPUs that the placed pods request, such as "61.4 %".
func (f *Fleet) Share() string { return share(f.CPUs.FleetCPUs) }

func share(c FleetCPUs) string {
	if c.Allocatable <= 0 {
		return "0 %"
	}
	return fmt.Sprintf("%.1f %%", c.Placed/c.Allocatable*100)
}

// SizesSummary describes the pods for which the numbers of nodes are valid.
func SizesSummary(answers []Fleet) string {
	if len(answers) == 0 {
		return ""
	}
	text := fmt.Sprintf("How many nodes take %s, while one node fewer does not. %s", podCount(answers[0].Pods.Asked), ordersText(answers))
	if interrupted := interruptedText(answers); interrupted != "" {
		return interrupted + " " + text
	}
	return text
}

// Money formats an amount of money, rounded to hundredths.
func Money(x float64) string { return decimal(rounded(x)) }

// rounded returns an amount of money rounded to hundredths.
func rounded(x float64) float64 { return math.Round(x*100) / 100 }
