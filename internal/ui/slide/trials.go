package slide

import (
	"cmp"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/ui/view"
)

// maxBars is the maximum number of bars. For settings, it is the best setting, the nodes as they
// are, and then the settings that align the most.
const maxBars = 12

// Trials returns the picture of a comparison of settings. Each setting has a bar with the CPUs that
// the pods request, divided by what happens to the pods.
func Trials(title string, trials []view.Trial) *Picture {
	results := view.TrialBars(trials)
	rank := func(b *view.TrialBar) int {
		switch {
		case b.Best:
			return 0
		case b.Now:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(results, func(a, b view.TrialBar) int {
		return cmp.Or(cmp.Compare(rank(&a), rank(&b)), cmp.Compare(b.CPUs.Aligned, a.CPUs.Aligned))
	})
	p, rest := charted(title, view.BestText(trials), results, trialBar, "CPUs that the pods request")
	legend := alignments(slices.ContainsFunc(results, func(b view.TrialBar) bool { return b.Pods.AlignmentUnknown > 0 }))
	x := p.entries(append(legend, entry{noRoom, "rejected, no room"}, entry{never, "rejected, on an empty node as well"})...)
	if rest > 0 {
		p.note(x, view.Count(rest, "more setting"))
	}
	return p
}

// charted returns a picture with a title, a summary and the bars of at most maxBars results, and
// the number of results without a bar. axis describes the length of a bar.
func charted[R any](title, summary string, results []R, barOf func(*R) bar, axis string) (p *Picture, rest int) {
	p = &Picture{title: title}
	p.label(label{x: margin, y: 74, size: 40, bold: true, text: title}, Width-2*margin)
	p.paragraph(label{x: margin, y: 112, size: 22, colour: soft, text: summary}, Width-2*margin, 2)
	rest = max(0, len(results)-maxBars)
	var bars []bar
	for i := range results[:len(results)-rest] {
		bars = append(bars, barOf(&results[i]))
	}
	p.chart(bars, axis)
	return p, rest
}

// alignments returns the entries of a legend about placed pods. some is set if it is unknown for
// some of them whether they are aligned.
func alignments(some bool) []entry {
	all := []entry{{good, "CPUs of aligned pods"}, {unaligned, "placed, not aligned"}}
	if some {
		all = append(all, entry{unknown, "placed, alignment unknown"})
	}
	return all
}

func trialBar(r *view.TrialBar) bar {
	b := bar{name: strings.Join(r.Settings, ", "), below: r.Scoring, best: r.Best, value: r.Share + " of the nodes' CPUs"}
	if r.Now {
		b.name = "now: " + b.name
	}
	if r.Also > 0 {
		b.below += "; the same result as with " + view.Count(r.Also, "other setting")
	}
	if b.note = view.Number(int(r.Pods.Rejected)) + " pods rejected"; r.Pods.Rejected == 1 {
		b.note = "1 pod rejected"
	}
	if r.Pods.Never > 0 {
		b.note += ", " + view.Number(int(r.Pods.Never)) + " never fit"
	}
	c := &r.CPUs
	b.parts = []part{{c.Aligned, good}, {c.Placed - c.Aligned - c.AlignmentUnknown, unaligned}, {c.AlignmentUnknown, unknown}, {max(0, c.Asked-c.Placed-c.Never), noRoom}, {c.Never, never}}
	return b
}
