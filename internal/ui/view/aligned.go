package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/explain"
)

// maxAligned is how many resources are named with their NUMA nodes unless all are requested.
const maxAligned = 6

// aligned prints whether each resource of the pod is aligned: in one sentence if all are, and
// otherwise as a table that begins with those that are not.
func (w *explanation) aligned(all []explain.Aligned) {
	if len(all) == 0 {
		return
	}
	order := []string{explain.AlignedNo, explain.AlignedUnknown, explain.AlignedYes}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b explain.Aligned) int {
		return cmp.Compare(slices.Index(order, a.Answer), slices.Index(order, b.Answer))
	})
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

// ofSeveral reports whether the answers are about more than one container.
func ofSeveral(all []explain.Aligned) bool {
	return slices.ContainsFunc(all, func(a explain.Aligned) bool { return a.Container != all[0].Container })
}

// ofContainer returns what an answer is about, with its container if there are several.
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
