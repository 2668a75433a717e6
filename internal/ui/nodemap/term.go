package nodemap

import (
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/base/terminal"
)

// Term returns the picture in the characters of a terminal, as wide as the style. No information is
// only in the colours: every cell has a sign, which the key explains.
func (m Map) Term(style terminal.Style) string {
	picture := m.terminal(style.Width).place()
	c := &canvas{style: style, rows: make([][]glyph, picture.h)}
	for y := range c.rows {
		c.rows[y] = slices.Repeat([]glyph{{text: " "}}, picture.w)
	}
	picture.walk(func(b *box) { c.draw(m, b) }, func(*box) {})
	return c.text() + m.arrowLines(style) + m.interruptionLines(style)
}

// terminal returns the layout for a terminal of that width. Cells are as wide as the longest tag.
func (m Map) terminal(width int) layout {
	tag := 2
	for _, c := range m.CPUs {
		tag = max(tag, len(c.Tag))
	}
	if width == 0 {
		width = usualTerm
	}
	return layout{metrics{
		width: max(width, minTerm), cellW: tag + 1, cellH: 1, gap: 1, padX: 2, padY: 1, uncore: 1,
		line: 1, letter: 1, head: 1, headLine: 1, bar: 1, deviceW: 15, deviceH: 1, node: 30, legend: 60, swatch: tag + 1, way: tag + 1,
	}, m}
}

const (
	// minTerm is the smallest width that has a layout.
	minTerm = 60
	// usualTerm is the width if the style does not limit lines.
	usualTerm = 120
)

// canvas is a page of characters.
type canvas struct {
	style terminal.Style
	rows  [][]glyph
}

// glyph is one character with its colour codes. An empty glyph follows a character that takes two
// columns.
type glyph struct {
	text, code string
}

func (c *canvas) write(x, y int, text, code string) {
	for character, columns := range terminal.Characters(text) {
		for i := range columns {
			if y >= 0 && y < len(c.rows) && x >= 0 && x < len(c.rows[y]) {
				c.rows[y][x] = glyph{code: code}
				if i == 0 {
					c.rows[y][x].text = character
				}
			}
			x++
		}
	}
}

func (c *canvas) text() string {
	var out strings.Builder
	for _, row := range c.rows {
		end := len(row)
		for end > 0 && row[end-1].text == " " && (row[end-1].code == "" || !c.style.Color) {
			end--
		}
		code := ""
		for _, g := range row[:end] {
			if c.style.Color && g.code != code {
				if code != "" {
					out.WriteString(terminal.Reset)
				}
				out.WriteString(g.code)
				code = g.code
			}
			out.WriteString(g.text)
		}
		if code != "" {
			out.WriteString(terminal.Reset)
		}
		out.WriteByte('\n')
	}
	return out.String()
}

func (c *canvas) draw(m Map, b *box) {
	switch b.kind {
	case boxSocket, boxNode:
		c.frame(b)
		c.write(b.x+2, b.y, " "+b.text+" ", terminal.Strong.Escape())
	case boxDevice:
		sign := b.tag
		switch b.use {
		case UseUnhealthy:
			sign = "x"
		case UseShared:
			sign = "·"
		case UseNone, UseIsolated, UseReserved, UseLost, UseExclusive, UsePooled, UseIdle, UseMoving:
		}
		sign = terminal.Fit(sign+b.device.where(), b.w-2) + " "
		room := b.w - 1 - terminal.Width(sign)
		name := terminal.Fit(b.device.Name, room)
		c.write(b.x, b.y, sign+name+strings.Repeat(" ", room-terminal.Width(name)), m.paint(b.use, b.pod))
	case boxCPU, boxSwatch, boxWay:
		c.write(b.x, b.y, m.sign(b), m.paint(b.use, b.pod))
	case boxBar:
		c.texts(b, "")
		c.write(b.x, b.y+1, strings.Repeat("·", b.w), terminal.Faint.Escape())
		for _, s := range b.spans(b.w) {
			c.write(b.x+s.from, b.y+1, m.span(s), m.paint(s.use, s.pod))
		}
	case boxHead:
		c.texts(b, terminal.Strong.Escape())
	case boxText:
		c.texts(b, "")
	case boxUncore, boxFaint:
		c.texts(b, terminal.Faint.Escape())
	case boxGroup:
	}
}

func (c *canvas) texts(b *box, code string) {
	c.write(b.x, b.y, b.text, code)
	c.write(b.x+b.w-terminal.Width(b.note), b.y, b.note, terminal.Faint.Escape())
}

func (c *canvas) frame(b *box) {
	code := terminal.Faint.Escape()
	side := strings.Repeat("─", b.w-2)
	c.write(b.x, b.y, "┌"+side+"┐", code)
	c.write(b.x, b.y+b.h-1, "└"+side+"┘", code)
	for y := b.y + 1; y < b.y+b.h-1; y++ {
		c.write(b.x, y, "│", code)
		c.write(b.x+b.w-1, y, "│", code)
	}
}

// sign returns the text of a cell, padded with spaces to the width of the cell.
func (m Map) sign(b *box) string {
	sign := b.tag
	if b.kind == boxSwatch && b.pod == noPod && b.use.ofPod() {
		sign = "A" // A sample of the key.
	}
	switch b.use {
	case UseReserved:
		sign = "#"
	case UseUnhealthy:
		sign = "x"
	case UseLost:
		sign = lostSign
	case UseIsolated:
		sign = isolatedSign
	case UseNone:
		sign = "-"
	case UsePooled:
		sign += "~"
	case UseIdle:
		sign += "!"
	case UseMoving:
		sign += ">"
	case UseExclusive:
	case UseShared:
		if sign == "" {
			sign = "·"
		}
	}
	if len(sign) >= b.w {
		return sign[:b.w]
	}
	return sign + strings.Repeat(" ", b.w-terminal.Width(sign))
}

// span returns the text of a part of a bar: the tag, repeated.
func (m Map) span(s span) string {
	sign := "#"
	switch {
	case s.pod != noPod:
		sign = m.Pods[s.pod].Tag
	case s.use == UseUnhealthy:
		sign = "x"
	}
	return strings.Repeat(sign, (s.to-s.from)/len(sign)+1)[:s.to-s.from]
}

// termColours are the colours of the SVG in the palette of 256 colours of terminals.
var termColours = [mapColours]int{74, 172, 36, 227, 175, 68, 173}

func (m Map) paint(use Use, pod int) string {
	switch use {
	case UseExclusive, UsePooled, UseIdle, UseMoving:
		if pod == noPod {
			return ""
		}
		code := strconv.Itoa(termColours[max(0, m.Pods[pod].Colour)%mapColours])
		if use == UseExclusive {
			return "\x1b[38;5;16;48;5;" + code + "m"
		}
		return "\x1b[38;5;" + code + "m"
	case UseReserved, UseIsolated, UseLost, UseNone, UseShared, UseUnhealthy:
	}
	return terminal.Faint.Escape()
}
