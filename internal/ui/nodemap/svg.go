package nodemap

import (
	_ "embed" // the style sheet
	"encoding/json"
	"fmt"
	"html"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/base/terminal"
)

// mapStyle is the style sheet of the picture, for light and dark displays and for print.
//
//go:embed map.css
var mapStyle string

// StyleSheet is the style sheet of a page that contains pictures.
var StyleSheet = mapStyle + arrowStyle

// The colours are those of Okabe and Ito, lightened so that dark letters are readable on them. No
// two neighbours differ in hue alone. After the last colour they repeat with another mark in the
// cell.
const (
	mapColours = 7
	mapMarks   = 3
)

// pixels are the dimensions of the SVG.
var pixels = metrics{
	width: 1216, cellW: 29, cellH: 22, threadGap: 1, coreGap: 4, rowGap: 6, gap: 14, padX: 10, padY: 8, title: 18, uncore: 15,
	line: 15, letter: 7, head: 13, headLine: 26, bar: 12, deviceW: 72, deviceH: 24, node: 224, legend: 500, swatch: 30, way: 22, wayPad: 3,
}

// tagLetter is the width of a letter of a tag, in pixels.
const tagLetter = 6

// margin is the free space around the picture, in pixels.
const margin = 16

// SVG writes the picture as a document of its own. If style is set, the document includes its style
// sheet. A page that already has StyleSheet does not need it.
func (m Map) SVG(out io.Writer, style bool) error {
	size := pixels
	if m.width > 0 {
		size.width = m.width - 2*margin
		size.legend = min(size.legend, size.width)
	}
	picture := layout{size, m}.place()
	picture.move(margin, margin)
	w := svgWriter{m: m, fills: map[string]int{}, cells: map[int]point{}, frames: map[string]point{}}
	picture.walk(w.draw, w.outlines)
	for i, a := range m.arrows {
		w.arrow(i, a)
	}
	body := w.out.String()
	w.out.Reset()
	width, height := picture.w+2*margin, picture.h+2*margin
	w.put(`<svg xmlns="http://www.w3.org/2000/svg" class="map" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-labelledby="map-title map-about">`+"\n",
		width, height, width, height)
	w.put("<title id=\"map-title\">%s</title>\n<desc id=\"map-about\">%s</desc>\n", escape("CPUs, memory and devices of "+m.Name), escape(m.Summary()))
	if style {
		w.put("<style>\n%s</style>\n", mapStyle)
	}
	w.patterns()
	if len(m.arrows) > 0 && style {
		w.put("<style>\n%s</style>\n", arrowStyle)
	}
	if len(m.arrows) > 0 {
		w.put(`<defs><marker id="arrowhead" class="arrowhead" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="5" markerHeight="5" orient="auto"><path d="M0 0L8 4L0 8Z"/></marker></defs>` + "\n")
	}
	w.put(`<rect class="paper" width="%d" height="%d"/>`+"\n", width, height)
	w.out.WriteString(body)
	w.out.WriteString("</svg>\n")
	_, err := io.WriteString(out, w.out.String())
	return err
}

// escape returns text as plain text for SVG and HTML, without markup.
func escape(text string) string { return html.EscapeString(terminal.Clean(text)) }

// svgWriter draws boxes.
type svgWriter struct {
	m   Map
	out strings.Builder
	// fills maps the name of each pattern in use to its colour.
	fills map[string]int
	// cells are the middles of the CPUs by CPU id. frames are the middles of the NUMA nodes by
	// their id in the picture.
	cells  map[int]point
	frames map[string]point
}

func (w *svgWriter) put(format string, args ...any) { fmt.Fprintf(&w.out, format, args...) }

func (w *svgWriter) draw(b *box) {
	switch b.kind {
	case boxGroup:
	case boxSocket, boxNode:
		class := `class="node"`
		if b.kind == boxSocket {
			class = `class="socket"`
		}
		if b.id != "" {
			class += ` id="` + b.id + `"`
			w.frames[b.id] = point{b.x + b.w/2, b.y + b.h/2}
		}
		w.put(`<rect %s x="%d" y="%d" width="%d" height="%d" rx="5"/>`+"\n", class, b.x, b.y, b.w, b.h)
		w.texts(b, b.x+pixels.padX, b.x+b.w-pixels.padX, b.y+18, "name")
	case boxUncore:
		w.texts(b, b.x, b.x+b.w, b.y+11, "faint")
	case boxCPU:
		c := w.m.CPUs[b.cpu]
		w.cells[c.ID] = point{b.x + b.w/2, b.y + b.h/2}
		w.put(`<g class="cpu" id="cpu%d" data-cpu="%d" data-pod="%s">`, c.ID, c.ID, escape(c.UID))
		w.cell(b)
		w.put("</g>\n")
	case boxDevice:
		w.device(b)
	case boxWay:
		uid := ""
		if b.pod != noPod {
			uid = w.m.Pods[b.pod].UID
		}
		w.put(`<g class="part way" data-pod="%s">`, escape(uid))
		inset := *b
		inset.h = b.h - 2
		w.cell(&inset)
		w.put("</g>\n")
	case boxBar:
		w.bar(b)
	case boxSwatch:
		w.put("<g>")
		inset := *b
		inset.y, inset.h = b.y+1, b.h-2
		w.cell(&inset)
		w.put("</g>\n")
	case boxHead:
		w.texts(b, b.x, b.x+b.w, b.y+19, "head")
	case boxText:
		w.texts(b, b.x, b.x+b.w, b.y+11, "name")
	case boxFaint:
		w.texts(b, b.x, b.x+b.w, b.y+11, "faint")
	}
}

// texts writes the texts on the left and on the right of a box.
func (w *svgWriter) texts(b *box, left, right, base int, class string) {
	if b.text == "" && b.note == "" {
		return
	}
	w.put(`<g>`)
	w.title(b)
	w.put(`<text class="%s" x="%d" y="%d" xml:space="preserve">%s</text>`, class, left, base, escape(b.text))
	if b.note != "" {
		w.put(`<text class="faint end" x="%d" y="%d">%s</text>`, right, base, escape(b.note))
	}
	w.put("</g>\n")
}

func (w *svgWriter) title(b *box) {
	if b.about != "" {
		w.put("<title>%s</title>", escape(b.about))
	}
}

// cell draws a cell with its two texts: the id of a CPU above and the tag of its pod below.
func (w *svgWriter) cell(b *box) {
	w.title(b)
	w.rect(b.x, b.y, b.w, b.h, b.use, b.pod, 2)
	if colour, marked := w.marked(b); marked { // Lines and dots would read as a line through the texts.
		w.put(`<rect class="c%d" x="%d" y="%d" width="%d" height="%d"/>`, colour, b.x+4, b.y+1, b.w-8, b.h-2)
	}
	x, class, tag := b.x+b.w/2, "", b.tag
	switch b.use {
	case UseLost:
		tag = lostSign
	case UseIsolated:
		tag = isolatedSign
	case UseNone, UseShared, UseReserved, UseExclusive, UsePooled, UseIdle, UseMoving, UseUnhealthy:
	}
	switch b.use {
	case UseExclusive:
		class = " held"
	case UsePooled, UseIdle, UseMoving:
		class = " halo"
	case UseNone, UseShared, UseIsolated, UseReserved, UseLost, UseUnhealthy:
	}
	base := b.y + b.h/2 + 4
	if b.text != "" {
		y := b.y + b.h/2 + 3
		if tag != "" {
			y, base = b.y+8, b.y+b.h-3
		}
		w.put(`<text class="id middle%s" x="%d" y="%d">%s</text>`, class, x, y, escape(b.text))
	}
	if tag != "" {
		if class == " halo" { // Stripes would read as a line through the tag.
			width := tagLetter*terminal.Width(tag) + 2
			w.put(`<rect class="paper" x="%d" y="%d" width="%d" height="10" rx="2"/>`, x-width/2, base-9, width)
		}
		w.put(`<text class="tag%s" x="%d" y="%d">%s</text>`, class, x, base, escape(tag))
	}
	if b.interrupted {
		height := max(1, int(b.loud*float64(b.h-2)))
		w.put(`<rect class="noise" style="fill:#d93025;stroke:none" x="%d" y="%d" width="4" height="%d"/>`, b.x+b.w-5, b.y+b.h-1-height, height)
	}
}

// marked returns the colour of an exclusive cell whose colour repeats with a mark.
func (w *svgWriter) marked(b *box) (colour int, is bool) {
	if b.use != UseExclusive || b.pod == noPod {
		return 0, false
	}
	place := max(0, w.m.Pods[b.pod].Colour)
	return place % mapColours, place/mapColours%mapMarks > 0
}

// device draws the cell of a device: its name, and below it the container that has it and its NUMA
// nodes.
func (w *svgWriter) device(b *box) {
	class, uids := "device", []string{}
	if b.device.remote() {
		class += " remote"
	}
	for _, o := range b.device.Owners {
		if !slices.Contains(uids, o.UID) {
			uids = append(uids, o.UID)
		}
	}
	pods, err := json.Marshal(uids)
	if err != nil {
		panic(err) // A list of strings has a JSON text.
	}
	w.put(`<g class="%s" id="%s" data-pods="%s">`, class, escape(b.id), escape(string(pods)))
	at := *b
	at.text, at.tag = terminal.Fit(b.device.Name, b.w/pixels.letter), terminal.Fit(b.tag+b.device.where(), b.w/pixels.letter)
	w.cell(&at)
	w.put("</g>\n")
}

// rect draws a rectangle with the filling of a use and a pod.
func (w *svgWriter) rect(x, y, width, height int, use Use, pod, radius int) {
	class, fill := string(use), ""
	if use == UseLost {
		class = string(UseUnhealthy) // No pod gets either.
	}
	if use == UseIsolated {
		class = string(UseShared) // Both are free.
	}
	if use.ofPod() {
		place := 0
		colour := 7 // Samples of the key have no pod.
		if pod != noPod {
			place = max(0, w.m.Pods[pod].Colour)
			colour = place % mapColours
		}
		class = "c" + strconv.Itoa(colour)
		mark := place / mapColours % mapMarks
		if name := string(use[:1]) + strconv.Itoa(colour) + "-" + strconv.Itoa(mark); use != UseExclusive || mark > 0 {
			fill = ` fill="url(#` + name + `)"`
			class = "filled"
			w.fills[name] = colour
		}
	}
	w.put(`<rect class="%s"%s x="%d" y="%d" width="%d" height="%d" rx="%d"/>`, class, fill, x, y, width, height, radius)
}

// patterns defines the fillings in use: wide stripes for shared CPUs, thin ones for CPUs that are
// idle or the new place of a pod, and dots and lines for colours that repeat.
func (w *svgWriter) patterns() {
	if len(w.fills) == 0 {
		return
	}
	names := make([]string, 0, len(w.fills))
	for name := range w.fills {
		names = append(names, name)
	}
	slices.Sort(names)
	w.put("<defs>\n")
	for _, name := range names {
		colour := w.fills[name]
		w.put(`<pattern id="%s" width="6" height="6" patternUnits="userSpaceOnUse"`, name)
		if name[0] != 'e' {
			w.put(` patternTransform="rotate(45)"`)
		}
		w.put(">")
		switch name[0] {
		case 'e':
			w.put(`<rect class="c%d" width="6" height="6"/>`, colour)
		case 'p':
			w.put(`<rect class="paper" width="6" height="6"/><path class="s%d stripe" d="M1.5 0V6"/>`, colour)
		default:
			w.put(`<rect class="paper" width="6" height="6"/><path class="s%d" d="M3 0V6"/>`, colour)
		}
		switch name[len(name)-1] {
		case '1':
			w.put(`<path class="mark" d="M4 1.5h1.5"/>`)
		case '2':
			w.put(`<path class="mark" d="M0 5.5H6"/>`)
		}
		w.put("</pattern>\n")
	}
	w.put("</defs>\n")
}

// bar draws an amount with its parts. Each part ends at the rounded sum so far, so rounding errors
// do not add up. Parts that are too small to tell apart are one grey part. They are only in the
// text.
func (w *svgWriter) bar(b *box) {
	var now int64
	for _, p := range b.parts {
		now += p.amount
	}
	w.put(`<g class="bar" data-now="%d" data-max="%d">`, min(now, b.whole), b.whole)
	w.title(b)
	w.put(`<text x="%d" y="%d">%s</text>`, b.x, b.y+11, escape(b.text))
	if b.note != "" {
		w.put(`<text class="faint end" x="%d" y="%d">%s</text>`, b.x+b.w, b.y+11, escape(b.note))
	}
	y, height := b.y+pixels.line, pixels.bar-2
	w.put(`<rect class="rail" x="%d" y="%d" width="%d" height="%d"/>`, b.x, y, b.w, height)
	for _, s := range merged(b.spans(b.w)) {
		w.part(s, b.x+s.from, y, height)
		if s.from > 0 && s.to-s.from > 3 {
			w.put(`<path class="outline" d="M%d %dV%d"/>`, b.x+s.from, y+1, y+height-1)
		}
	}
	w.put("</g>\n")
}

// part draws a part of a bar. Pages find the parts of a pod by its UID.
func (w *svgWriter) part(s span, x, y, height int) {
	if s.pod == noPod {
		w.rect(x, y, s.to-s.from, height, s.use, s.pod, 0)
		return
	}
	w.put(`<g class="part" data-pod="%s">`, escape(w.m.Pods[s.pod].UID))
	w.rect(x, y, s.to-s.from, height, s.use, s.pod, 0)
	w.put("</g>")
}

// leastSpan is the least width of a part of a bar that is drawn by itself, in pixels.
const leastSpan = 4

// merged returns the spans with one grey span in place of neighbours that are too narrow.
func merged(spans []span) []span {
	var out []span
	for _, s := range spans {
		last := len(out) - 1
		if s.to-s.from >= leastSpan || s.pod == noPod {
			out = append(out, s)
			continue
		}
		if last >= 0 && out[last].pod == noPod && out[last].use == UseExclusive && out[last].to == s.from {
			out[last].to = s.to
			continue
		}
		s.pod, s.use = noPod, UseExclusive // The colour of samples, which no pod has.
		out = append(out, s)
	}
	return out
}

// span is a part of a bar in pixels or characters, from its left end.
type span struct {
	part
	from, to int
}

func (b *box) spans(width int) []span {
	var spans []span
	var sum int64
	from := 0
	for _, p := range b.parts {
		sum = min(b.whole, sum+p.amount)
		to := int(float64(sum) / float64(b.whole) * float64(width))
		if to > from {
			spans = append(spans, span{p, from, to})
		}
		from = to
	}
	return spans
}
