package slide

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/ui/view"
)

// Sizes returns the picture of numbers of nodes: a bar for each kind and for a mix, with the CPUs
// of the nodes, so that nodes of different sizes can be compared.
func Sizes(title string, answers []view.Fleet) *Picture {
	p, rest := charted(title, view.SizesSummary(answers), answers, sizeBar, "CPUs that the nodes have for pods")
	legend := alignments(slices.ContainsFunc(answers, func(f view.Fleet) bool { return f.Pods.AlignmentUnknown > 0 }))
	x := p.entries(append(legend, entry{stranded, "free, stranded"}, entry{free, "free"})...)
	if rest > 0 {
		p.note(x, view.Count(rest, "more kind"))
	}
	return p
}

func sizeBar(f *view.Fleet) bar {
	nodes := f.Number()
	switch {
	case f.Nodes == 1 && !f.TooFew:
		nodes += " node"
	case f.Nodes > 0:
		nodes += " nodes"
	}
	b := bar{name: f.Name() + ": " + nodes, below: f.Scoring, best: f.Question == "mix"}
	if b.best {
		var parts []string
		for _, k := range f.Kinds {
			parts = append(parts, view.Number(k.Nodes)+" "+k.Kind)
		}
		b.below = strings.Join(parts, " and ") + ", " + f.Scoring
	}
	if f.LowerBound > 0 {
		b.below = fmt.Sprintf("at least %s needed, %s", view.Number(f.LowerBound), f.Scoring)
		if f.Optimal {
			b.below = "optimal, " + f.Scoring
		}
	}
	if f.LeftOut > 0 {
		b.note = view.Count(int(f.LeftOut), "pod") + " left out, which never fit"
	}
	if f.Nodes == 0 || f.TooFew {
		return b
	}
	if b.value = f.Share() + " of the CPUs"; f.Price != nil {
		b.value = "price " + view.Money(*f.Price)
	}
	c := &f.CPUs
	b.parts = []part{{c.Aligned, good}, {c.Placed - c.Aligned - c.AlignmentUnknown, unaligned}, {c.AlignmentUnknown, unknown}, {c.Stranded, stranded}, {max(0, c.Allocatable-c.Placed-c.Stranded), free}}
	return b
}
