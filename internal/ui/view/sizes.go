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
		{Title: "LOWER BOUND", Align: terminal.Right},
		{Title: "SCORING"},
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
		name, nodes, bound := f.kind(), terminal.Strong.Of(grouped(int64(f.Nodes))), terminal.Cell{Text: grouped(int64(f.LowerBound))}
		if f.Question == "mix" {
			bound = terminal.Cell{}
			fmt.Fprintf(&below, "\n%s\n", f.mix())
		}
		row := []terminal.Cell{{Text: name}, nodes, bound}
		for _, text := range []string{f.Scoring, aligned(f.Pods.Aligned, f.Pods.Own), amount(f.CPUs.Placed), amount(f.CPUs.Allocatable), share(f.CPUs.FleetCPUs), tenths(f.CPUs.Stranded)} {
			row = append(row, terminal.Cell{Text: text})
		}
		if f.Pods.Rejected > 0 {
			row = []terminal.Cell{{Text: name}, terminal.Bad.Of(f.tooFew()), bound, {}, {}, {}, {}, {}, {}}
			for _, c := range f.Causes {
				fmt.Fprintf(&below, "\n%s: %s", style.Paint(terminal.Plain, name), c.text(style))
			}
		}
		if priced {
			price := terminal.Cell{}
			if f.Price != nil && f.Pods.Rejected == 0 {
				price.Text = decimal(rounded(*f.Price))
			}
			row = append(row, price)
		}
		t.Cells(row...)
	}
	order := ""
	if len(answers) > 0 {
		order = style.Paragraph("", "", terminal.Plain.Of(orderText(answers[0].Order)))
	}
	return t.Text(style) + below.String() + "\n" + order
}

// kind names what the answer to size is about: a kind of node, or a mix of kinds.
func (f *Fleet) kind() string {
	if f.Question == "mix" {
		return "mix"
	}
	return f.Kinds[0].Kind
}

// tooFew describes the number of nodes of a kind that does not fit all pods.
func (f *Fleet) tooFew() string {
	if f.Nodes == 0 {
		return "no number"
	}
	return "more than " + grouped(int64(f.Nodes))
}

// mix describes a mix in a sentence.
func (f *Fleet) mix() string {
	var parts []string
	for _, k := range f.Kinds {
		parts = append(parts, grouped(int64(k.Nodes))+" "+k.Kind)
	}
	return fmt.Sprintf("The mix is %s, for %s. By the sums of the requests no mix costs less than %s: the gap is %.1f %%. With one node fewer of any kind, the pods do not fit (%s tried).",
		strings.Join(parts, " and "), decimal(rounded(*f.Price)), decimal(rounded(f.Mix.LowerBound)), f.Mix.Gap*100, Count(f.Mix.Tried, "placement"))
}

// rounded returns an amount of money rounded to hundredths.
func rounded(x float64) float64 { return math.Round(x*100) / 100 }
