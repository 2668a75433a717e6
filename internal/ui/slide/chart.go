package slide

import (
	"math"

	"github.com/paddock-project/paddock/internal/ui/view"
)

// The layout of a chart of horizontal bars, in pixels.
const (
	chartFrom  = 176
	chartNames = 560
	chartWidth = 620
	barStep    = 52
	barHeight  = 34
)

// chart draws bars of CPUs on one scale.
type chart struct {
	*Picture
	most float64 // the number of CPUs at the right end
}

// bar is a row of a chart. name and below are on its left, value and note on its right.
type bar struct {
	name, below, value, note string
	best                     bool
	parts                    []part
}

type part struct {
	cpus float64
	fill tone
}

// chart returns a chart for bars, with an axis below the last of them. unit describes the axis.
func (p *Picture) chart(bars []bar, unit string) chart {
	c := chart{Picture: p}
	for _, b := range bars {
		sum := 0.0
		for _, part := range b.parts {
			sum += part.cpus
		}
		c.most = max(c.most, sum)
	}
	if len(bars) == 0 || c.most <= 0 {
		return c
	}
	bottom := float64(chartFrom + len(bars)*barStep)
	step := stepOf(c.most)
	for at := 0.0; at <= c.most+step/1e6; at += step {
		x := c.x(at)
		p.rect(x, chartFrom-6, 1, bottom-chartFrom+2, line)
		p.label(label{x: x, y: bottom + 12, size: 14, at: middle, colour: soft, text: view.Number(int(at))}, 200)
	}
	p.label(label{x: c.x(c.most) + 50, y: bottom + 12, size: 14, colour: soft, text: unit}, Width-margin-c.x(c.most)-50)
	for i, b := range bars {
		c.bar(b, float64(chartFrom+i*barStep))
	}
	return c
}

// x returns the position of a number of CPUs.
func (c chart) x(cpus float64) float64 { return margin + chartNames + cpus/c.most*chartWidth }

func (c chart) bar(b bar, y float64) {
	colour := ink
	if b.best {
		colour = good
	}
	c.label(label{x: margin, y: y + 15, size: 18, bold: b.best, colour: colour, text: b.name}, chartNames-20)
	c.label(label{x: margin, y: y + 34, size: 14, colour: soft, text: b.below}, chartNames-20)
	sum := 0.0
	for _, part := range b.parts {
		x, w := c.x(sum), part.cpus/c.most*chartWidth
		if part.fill == free { // Almost as white as the paper.
			c.rect(x, y, w, barHeight, line)
			x, w = x+1, w-2
			c.rect(x, y+1, w, barHeight-2, free)
		} else {
			c.rect(x, y, w, barHeight, part.fill)
		}
		sum += part.cpus
	}
	x := c.x(c.most) + 14
	c.label(label{x: x, y: y + 15, size: 18, text: b.value}, Width-margin-x)
	c.label(label{x: x, y: y + 34, size: 14, colour: soft, text: b.note}, Width-margin-x)
}

// stepOf returns the distance of the ticks of an axis: 1, 2 or 5 with zeros, for at most six ticks
// after 0.
func stepOf(most float64) float64 {
	ten := math.Pow(10, math.Floor(math.Log10(most)))
	for _, step := range []float64{ten / 10, ten / 5, ten / 2, ten, 2 * ten} {
		if step >= 1 && most/step <= 6 {
			return step
		}
	}
	return max(1, 5*ten)
}

// entry is a colour of a legend with its meaning.
type entry struct {
	fill tone
	text string
}

// legendY is the baseline of a legend.
const legendY = Height - 36

// entries draws the entries of a legend, and returns the position at which they end.
func (p *Picture) entries(all ...entry) float64 {
	x := float64(margin)
	for _, e := range all {
		p.rect(x, legendY-15, 18, 18, line)
		p.rect(x+1, legendY-14, 16, 16, e.fill)
		p.label(label{x: x + 26, y: legendY, size: 18, text: e.text}, 600)
		x += 26 + measure(e.text, 18, false) + 30
	}
	return x
}

// note adds a text to the right of a legend that ends at x.
func (p *Picture) note(x float64, text string) {
	p.label(label{x: Width - margin, y: legendY, size: 16, at: right, colour: soft, text: text}, math.Max(0, Width-margin-x))
}
