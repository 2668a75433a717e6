package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/explain"
)

// maxAligned is how many resources are listed with their NUMA nodes, unless the caller requests all
// of them.
const maxAligned = 6

// aligned prints whether each resource of the pod is aligned. It prints one sentence if all are,
// and otherwise a table that begins with the resources that are not.
func (w *explanation) aligned(all []explain.Aligned) {
	if len(all) == 0 {
		return
	}
	all = worstFirst(all)
	answer := all[0].Answer
	shown := all
	if !w.verbose {
		shown = all[:min(len(all), maxAligned)]
	}
	more := len(all) - len(shown)
	several := ofSeveral(all)
	if answer == explain.AlignedYes {
		var parts []string
		for _, a := range shown {
			parts = append(parts, ofContainer(a, several)+" "+a.Where)
		}
		text := strings.Join(parts, "; ")
		if more > 0 {
			text += fmt.Sprintf("; and %d more (-v)", more)
		}
		w.sentence(terminal.Plain.Of("aligned:"), alignedTone(answer).Of(answer+","), terminal.Plain.Of(text))
		return
	}
	w.sentence(terminal.Plain.Of("aligned:"), alignedTone(answer).Of(answer))
	w.alignedTable(shown)
	if more > 0 {
		w.sentence(terminal.Faint.Of(fmt.Sprintf("and %d more (-v)", more)))
	}
}

// worstFirst orders answers: no, unknown, yes.
func worstFirst(all []explain.Aligned) []explain.Aligned {
	order := []string{explain.AlignedNo, explain.AlignedUnknown, explain.AlignedYes}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b explain.Aligned) int {
		return cmp.Compare(slices.Index(order, a.Answer), slices.Index(order, b.Answer))
	})
	return all
}

// alignments returns which pods are aligned, for which pods this is unknown, and a line for each
// pod that is not aligned, with the resources that are not. Notes have the reasons why an answer is
// unknown.
func (p Plan) alignments(wide bool) (lines [][]terminal.Cell) {
	pods := map[string][]string{}
	for i := range p.Pods {
		pod := &p.Pods[i]
		if len(pod.Aligned) == 0 {
			continue
		}
		all := worstFirst(pod.Aligned)
		pods[all[0].Answer] = append(pods[all[0].Answer], pod.Pod)
		if all[0].Answer != explain.AlignedNo {
			continue
		}
		several := ofSeveral(all)
		var parts []string
		for _, a := range all {
			if a.Answer == explain.AlignedNo {
				parts = append(parts, ofContainer(a, several)+" "+a.Where)
			}
		}
		if more := len(parts) - maxNearest; more > 0 && !wide {
			parts = append(parts[:maxNearest], fmt.Sprintf("and %d more (-o wide)", more))
		}
		lines = append(lines, []terminal.Cell{terminal.Warn.Of("not aligned"), terminal.Strong.Of(pod.Pod + ":"), terminal.Plain.Of(strings.Join(parts, "; "))})
	}
	var grouped [][]terminal.Cell
	for _, group := range []struct {
		answer string
		title  terminal.Cell
	}{{explain.AlignedYes, terminal.Good.Of("aligned")}, {explain.AlignedUnknown, terminal.Warn.Of("alignment unknown")}} {
		if list := pods[group.answer]; len(list) > 0 {
			grouped = append(grouped, []terminal.Cell{group.title, terminal.Strong.Of(names(list))})
		}
	}
	return append(grouped, lines...)
}

// ofSeveral reports whether the answers are about more than one container.
func ofSeveral(all []explain.Aligned) bool {
	return slices.ContainsFunc(all, func(a explain.Aligned) bool { return a.Container != all[0].Container })
}

// ofContainer returns the subject of an answer, with its container if there are several.
func ofContainer(a explain.Aligned, several bool) string {
	if several && a.Container != "" {
		return a.Container + ": " + a.Of
	}
	return a.Of
}

func alignedTone(answer string) terminal.Tone {
	if answer == explain.AlignedYes {
		return terminal.Good
	}
	return terminal.Warn
}

func (w *explanation) alignedTable(all []explain.Aligned) {
	several := ofSeveral(all)
	var rows [][]terminal.Cell
	for _, a := range all {
		tone := terminal.Plain
		if w.record {
			tone = alignedTone(a.Answer)
		}
		rows = append(rows, []terminal.Cell{{Text: "  " + ofContainer(a, several)}, tone.Of(a.Answer), {Text: a.Where}})
	}
	w.table(rows)
}

// alignedPods formats the number of aligned pods among those with resources of their own, and the
// number for which this is unknown.
func alignedPods(n, unknown, of int64) string {
	switch {
	case unknown > 0 && unknown == of:
		return grouped(unknown) + " unknown"
	case unknown > 0:
		return fmt.Sprintf("%s/%s, %s unknown", grouped(n), grouped(of), grouped(unknown))
	case n == of:
		return grouped(n)
	}
	return grouped(n) + "/" + grouped(of)
}

// aligned continues a sentence with the number of aligned pods among those with resources of their
// own.
func (p *FleetPods) aligned() string {
	known, unknown := "", ""
	if p.Own > p.AlignmentUnknown {
		known = fmt.Sprintf("; %s of %s aligned", grouped(p.Aligned), grouped(p.Own))
	}
	if p.AlignmentUnknown > 0 {
		unknown = fmt.Sprintf("; alignment of %s unknown", grouped(p.AlignmentUnknown))
	}
	return known + unknown
}
