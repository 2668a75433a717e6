// Package terminal prints text for people who read it in a terminal: tones, tables, and the columns
// that text takes. Functions are pure: what they return depends on their arguments alone; whether
// there is colour and how wide a line is are among them. Text that came from input (names of pods,
// of files) cannot send control characters to the terminal.
package terminal

import (
	"strings"
	"unicode"
)

// Style is how to print. The zero value is plain text, for files and pipes.
type Style struct {
	// Color asks for ANSI colours: for terminals.
	Color bool
	// Width is how many columns a line has; 0 means that no line is broken.
	Width int
}

// Tone is what a piece of text means; a style makes a colour of it.
type Tone int

// The tones. Faint is for what can be passed over, Good, Warn and Bad are for results.
const (
	Plain Tone = iota
	Strong
	Faint
	Accent
	Good
	Warn
	Bad
)

// Escape is the ANSI code of the tone, which Reset ends; "" for plain text.
func (t Tone) Escape() string {
	switch t {
	case Strong:
		return "\x1b[1m"
	case Faint:
		return "\x1b[2m"
	case Accent:
		return "\x1b[36m"
	case Good:
		return "\x1b[32m"
	case Warn:
		return "\x1b[33m"
	case Bad:
		return "\x1b[31m"
	case Plain:
	}
	return ""
}

// Reset ends every tone and colour.
const Reset = "\x1b[0m"

// Paint returns the text in the tone, cleaned.
func (s Style) Paint(tone Tone, text string) string {
	text = Clean(text)
	escape := tone.Escape()
	if !s.Color || escape == "" || text == "" {
		return text
	}
	return escape + text + Reset
}

// Clean replaces every character that does not print in one place of one line.
func Clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}
