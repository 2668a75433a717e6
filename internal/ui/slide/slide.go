// Package slide draws pictures for a presentation: a fleet with its exclusive, free and stranded
// CPUs, the comparison of settings, and numbers of nodes. It writes the same shapes as SVG and as
// PNG. A picture has Width by Height pixels and a light background, because it is shown on paper
// and on projectors.
package slide

import (
	"fmt"
	"html"
	"io"
	"strings"

	"github.com/paddock-project/paddock/internal/base/terminal"
)

// The size of a picture, in pixels.
const (
	Width  = 1600
	Height = 900
)

// tone is the colour of a shape.
type tone int

const (
	ink tone = iota
	soft
	paper
	line
	exclusive
	pooled
	shared
	free
	stranded
	memory
	good
	unaligned
	unknown
	noRoom
	never
	tones
)

// colours are those of the map: the colours of Okabe and Ito, lightened. A colour has the same
// meaning in all pictures.
var colours = [tones]uint32{
	ink: 0x1c2430, soft: 0x5b6675, paper: 0xffffff, line: 0xc8d0da,
	exclusive: 0x3d7ebf, pooled: 0x8cc1e6, shared: 0x9aa3ad, free: 0xf3f6f9, stranded: 0xe8a33d, memory: 0x7a5da8,
	good: 0x1f8a5b, unaligned: 0xd39bbd, unknown: 0xf0d9a0, noRoom: 0xdde2e8, never: 0xa83248,
}

// anchor is the point of a text to which its position refers.
type anchor int

const (
	left anchor = iota
	middle
	right
)

// rect is a filled rectangle.
type rect struct {
	x, y, w, h float64
	fill       tone
}

// label is a line of text. y is its baseline.
type label struct {
	x, y   float64
	size   float64
	bold   bool
	at     anchor
	colour tone
	text   string
}

// Picture is a list of shapes. Later shapes cover earlier ones.
type Picture struct {
	title  string
	rects  []rect
	labels []label
}

func (p *Picture) rect(x, y, w, h float64, fill tone) {
	if w > 0 && h > 0 {
		p.rects = append(p.rects, rect{x, y, w, h, fill})
	}
}

// label adds a line of text, shortened to the width.
func (p *Picture) label(l label, width float64) {
	l.text = shortened(terminal.Clean(l.text), l.size, l.bold, width)
	p.labels = append(p.labels, l)
}

// shortened returns the text with an ellipsis in place of the end that is wider than the width.
func shortened(text string, size float64, bold bool, width float64) string {
	if measure(text, size, bold) <= width {
		return text
	}
	runes := []rune(text)
	for len(runes) > 0 {
		runes = runes[:len(runes)-1]
		if short := strings.TrimRight(string(runes), " ,;:") + "…"; measure(short, size, bold) <= width {
			return short
		}
	}
	return ""
}

// paragraph adds text in lines of the given width, at most as many as most, and returns their
// height.
func (p *Picture) paragraph(l label, width float64, most int) float64 {
	step := l.size * 1.35
	words := strings.Fields(terminal.Clean(l.text))
	height := 0.0
	for n := 1; len(words) > 0; n++ {
		k := 1
		for k < len(words) && measure(strings.Join(words[:k+1], " "), l.size, l.bold) <= width {
			k++
		}
		if n == most {
			k = len(words)
		}
		row := l
		row.text, row.y = strings.Join(words[:k], " "), l.y+height
		p.label(row, width)
		words = words[k:]
		height += step
	}
	return height
}

// SVG writes the picture as SVG.
func (p *Picture) SVG(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-labelledby="title">`+"\n", Width, Height, Width, Height)
	fmt.Fprintf(&b, "<title id=\"title\">%s</title>\n", html.EscapeString(terminal.Clean(p.title)))
	fmt.Fprintf(&b, "<rect width=\"%d\" height=\"%d\" fill=\"%s\"/>\n", Width, Height, paper.hex())
	for _, r := range p.rects {
		fmt.Fprintf(&b, "<rect x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\" fill=\"%s\"/>\n", number(r.x), number(r.y), number(r.w), number(r.h), r.fill.hex())
	}
	b.WriteString("<g font-family=\"Go, Helvetica, Arial, sans-serif\">\n")
	for _, l := range p.labels {
		weight := ""
		if l.bold {
			weight = ` font-weight="bold"`
		}
		fmt.Fprintf(&b, "<text x=\"%s\" y=\"%s\" font-size=\"%s\"%s text-anchor=\"%s\" fill=\"%s\">%s</text>\n",
			number(l.x), number(l.y), number(l.size), weight, [...]string{"start", "middle", "end"}[l.at], l.colour.hex(), html.EscapeString(l.text))
	}
	b.WriteString("</g>\n</svg>\n")
	_, err := io.WriteString(out, b.String())
	return err
}

func (t tone) hex() string { return fmt.Sprintf("#%06x", colours[t]) }

// number formats a coordinate in tenths of a pixel.
func number(x float64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", x), ".0")
}
