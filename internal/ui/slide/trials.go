package slide

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/ui/view"
)

// maxBars is how many settings are shown: the best one, and then those that align the most.
const maxBars = 12

// Trials returns the picture of a comparison of settings: a bar for each, with the CPUs of the
// placed pods that are aligned, and of those that are not.
func Trials(title string, trials []view.Trial) *Picture {
	p := &Picture{title: title}
	p.label(label{x: margin, y: 74, size: 40, bold: true, text: title}, Width-2*margin)
	p.paragraph(label{x: margin, y: 118, size: 22, colour: soft, text: view.BestText(trials)}, Width-2*margin, 2)
	bars := view.TrialBars(trials)
	most := 0.0
	for _, b := range bars {
		most = max(most, b.CPUs.Placed)
	}
	slices.SortStableFunc(bars, func(a, b view.TrialBar) int { return cmp.Compare(b.CPUs.Aligned, a.CPUs.Aligned) })
	if at := slices.IndexFunc(bars, func(b view.TrialBar) bool { return b.Best }); at > 0 { // It need not align the most.
		best := bars[at]
		bars = slices.Insert(slices.Delete(bars, at, at+1), 0, best)
	}
	rest := max(0, len(bars)-maxBars)
	const names, from, step, width = 560, 190, 52, 660
	for i, b := range bars[:len(bars)-rest] {
		y := float64(from + i*step)
		colour := ink
		if b.Best {
			colour = good
		}
		p.label(label{x: margin, y: y + 15, size: 18, bold: b.Best, colour: colour, text: strings.Join(b.Settings, ", ")}, names-20)
		p.label(label{x: margin, y: y + 34, size: 14, colour: soft, text: b.Scoring}, names-20)
		x := float64(margin + names)
		if most > 0 {
			w := b.CPUs.Aligned / most * width
			p.rect(x, y, w, 34, good)
			p.rect(x+w, y, (b.CPUs.Placed-b.CPUs.Aligned)/most*width, 34, stranded)
			x += b.CPUs.Placed / most * width
		}
		p.label(label{x: x + 10, y: y + 24, size: 18, text: fmt.Sprintf("%s, %s pods rejected", b.Share, view.Number(int(b.Pods.Rejected)))}, Width-x-20)
	}
	p.trialLegend(rest)
	return p
}

func (p *Picture) trialLegend(rest int) {
	x := float64(margin)
	const y = Height - 36
	for _, e := range []struct {
		fill tone
		text string
	}{{good, "CPUs of aligned pods"}, {stranded, "CPUs of pods that are placed and not aligned"}} {
		p.rect(x, y-15, 18, 18, e.fill)
		p.label(label{x: x + 26, y: y, size: 18, text: e.text}, 600)
		x += 26 + measure(e.text, 18, false) + 30
	}
	note := "in percent of the CPUs that the nodes have for pods"
	if rest > 0 {
		note += fmt.Sprintf("; %d more settings", rest)
	}
	p.label(label{x: Width - margin, y: y, size: 16, at: right, colour: soft, text: note}, Width-margin-x)
}
