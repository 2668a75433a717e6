package terminal

import (
	"strings"
	"unicode"
)

// A level is a kind of place at which a line may be broken. A later level is used only if the
// earlier ones are not enough, so that names and sets of CPUs stay whole while there is room.
const (
	betweenWords = iota
	afterPunctuation
	afterHyphens
	anywhere
	levels
)

// cut splits text at the places of a level. It removes only spaces.
func cut(text string, level int) []string {
	switch level {
	case betweenWords:
		return words(text)
	case anywhere:
		var pieces []string
		for character := range Characters(text) {
			pieces = append(pieces, character)
		}
		return pieces
	}
	var pieces []string
	begin, runes := 0, []rune(text)
	for i := range len(runes) - 1 {
		ends := runes[i] == ',' || runes[i] == '/'
		if level == afterHyphens {
			// A range of CPUs, e.g. 8-15, is one number for readers.
			ends = runes[i] == '-' && (i == 0 || !unicode.IsDigit(runes[i-1]) || !unicode.IsDigit(runes[i+1]))
		}
		if ends {
			pieces = append(pieces, string(runes[begin:i+1]))
			begin = i + 1
		}
	}
	return append(pieces, string(runes[begin:]))
}

// units are words that stay on the same line as their number.
var units = map[string]bool{"B": true, "KiB": true, "MiB": true, "GiB": true, "TiB": true, "CPU": true, "CPUs": true}

// words splits text at spaces, but keeps numbers together with their units.
func words(text string) []string {
	var words []string
	for _, word := range strings.Fields(text) {
		last := len(words) - 1
		if last >= 0 && units[strings.TrimRight(word, ",.;:)")] && strings.Trim(words[last], "(0123456789.") == "" {
			words[last] += " " + word
			continue
		}
		words = append(words, word)
	}
	return words
}

// least returns the width below which text would be cut at a later level.
func least(text string, level int) int {
	pieces := []string{text}
	for l := range level + 1 {
		var finer []string
		for _, piece := range pieces {
			finer = append(finer, cut(piece, l)...)
		}
		pieces = finer
	}
	widest := 0
	for _, piece := range pieces {
		widest = max(widest, Width(piece))
	}
	return len(margin(text)) + widest
}

// margin returns the leading spaces of text.
func margin(text string) string { return text[:len(text)-len(strings.TrimLeft(text, " "))] }

// widestCharacter is the width in columns of the widest character, the three-em dash.
const widestCharacter = 4

// Wrap breaks text into lines of at most width columns, but at least widestCharacter. It breaks at
// spaces. Words that are longer than a line are broken after a comma or a slash, then after a
// hyphen, then anywhere. Every line has the indentation of text.
func Wrap(text string, width int) []string {
	text = Clean(text)
	if Width(text) <= width {
		return []string{text}
	}
	f := filler{width: max(width, widestCharacter), indent: margin(text)}
	for _, word := range cut(text, betweenWords) {
		f.put(" ", word, afterPunctuation)
	}
	return f.lines
}

// filler fills lines.
type filler struct {
	width  int
	indent string
	lines  []string
}

// put adds text to the last line, after a separator, or to a new line. If text is wider than a
// line, put cuts it at the level.
func (f *filler) put(separator, text string, level int) {
	if n := len(f.lines); n > 0 && Width(f.lines[n-1])+Width(separator)+Width(text) <= f.width {
		f.lines[n-1] += separator + text
		return
	}
	if Width(f.indent)+Width(text) <= f.width || level == levels {
		f.lines = append(f.lines, f.indent+text)
		return
	}
	for _, piece := range cut(text, level) {
		f.put(separator, piece, level+1)
		separator = ""
	}
}

// Paragraph prints a sentence that begins with first. Its further lines begin with rest. Lines fit
// into the width of the style. Spaces separate the texts.
func (s Style) Paragraph(first, rest string, texts ...Cell) string {
	var out strings.Builder
	line, tone, run := first, Plain, ""
	flush := func() {
		out.WriteString(s.Paint(tone, run))
		run = ""
	}
	out.WriteString(first)
	begun := false // whether a word is on the line
	for _, text := range texts {
		for i, word := range s.fitting(text.Text, rest) {
			separator := ""
			if begun {
				separator = " "
			}
			if begun && s.Width > 0 && Width(line)+1+Width(word) > s.Width {
				flush()
				out.WriteString("\n" + rest)
				line, separator = rest, ""
			}
			if i == 0 {
				flush()
				out.WriteString(separator)
				line += separator
				separator, tone = "", text.Tone
			}
			run += separator + word
			line += separator + word
			begun = true
		}
	}
	flush()
	return out.String() + "\n"
}

// fitting returns the words of a text. Words that are longer than a line are split into parts that
// fit.
func (s Style) fitting(text, rest string) []string {
	whole := words(Clean(text))
	if s.Width == 0 {
		return whole
	}
	var fitting []string
	for _, word := range whole {
		fitting = append(fitting, Wrap(word, s.Width-Width(rest))...)
	}
	return fitting
}
