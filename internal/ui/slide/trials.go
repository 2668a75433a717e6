package slide

import (
	"cmp"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/ui/view"
)

// maxBars is how many settings are shown: the best one, those of the nodes as they are, and then
// those that align the most.
const maxBars = 12

// Trials returns the picture of a comparison of settings: a bar for each, with the CPUs that the
// pods request, by what happens to the pods.
func Trials(title string, trials []view.Trial) *Picture {
	p := &Picture{title: title}
	p.label(label{x: margin, y: 74, size: 40, bold: true, text: title}, Width-2*margin)
	p.paragraph(label{x: margin, y: 112, size: 22, colour: soft, text: view.BestText(trials)}, Width-2*margin, 2)
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
	rest := max(0, len(results)-maxBars)
	var bars []bar
	for i := range results[:len(results)-rest] {
		bars = append(bars, trialBar(&results[i]))
	}
	p.chart(bars, "CPUs that the pods request")
	x := p.entries(entry{good, "CPUs of aligned pods"}, entry{unaligned, "placed, not aligned"}, entry{noRoom, "rejected, no room"}, entry{never, "rejected, on an empty node as well"})
	if rest > 0 {
		p.note(x, view.Count(rest, "more setting"))
	}
	return p
}

func trialBar(r *view.TrialBar) bar {
	b := bar{name: strings.Join(r.Settings, ", "), below: r.Scoring, best: r.Best, value: r.Share + " of the nodes' CPUs"}
	if r.Now {
		b.name = "now: " + b.name
	}
	if r.Also > 0 {
		b.below += "; the same result as with " + view.Count(r.Also, "other setting")
	}
	b.note = view.Number(int(r.Pods.Rejected)) + " pods rejected"
	if r.Pods.Never > 0 {
		b.note += ", " + view.Number(int(r.Pods.Never)) + " never fit"
	}
	c := &r.CPUs
	b.parts = []part{{c.Aligned, good}, {c.Placed - c.Aligned, unaligned}, {max(0, c.Asked-c.Placed-c.Never), noRoom}, {c.Never, never}}
	return b
}
