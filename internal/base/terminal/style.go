// Package terminal prints text for people who read it in a terminal: tones, tables, and the width
// of text in columns. Its functions are pure: the caller decides whether to use colour and how wide
// a line is. Text from input, for example names of pods and files, cannot send control characters
// to the terminal.
package terminal

import (
	"strings"
	"unicode"
)

// Style describes how to print. The zero value is plain text for files and pipes.
type Style struct {
	// Color enables ANSI colours, for terminals.
	Color bool
	// Width is the width of a line in columns. Zero means that lines are not broken.
	Width int
}

// Tone is the meaning of a piece of text. A style turns it into a colour.
type Tone int

// The tones. Faint is for text that can be skipped. Good, Warn and Bad are for results.
const (
	Plain Tone = iota
	Strong
	Faint
	Accent
	Good
	Warn
	Bad
)

// Escape returns the ANSI code that begins the tone, and that Reset ends. It returns "" for Plain.
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

// Paint returns the cleaned text in the tone.
func (s Style) Paint(tone Tone, text string) string {
	text = Clean(text)
	escape := tone.Escape()
	if !s.Color || escape == "" || text == "" {
		return text
	}
	return escape + text + Reset
}

// Clean replaces every unprintable character, including line breaks and tabs.
func Clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}
