package terminal

import (
	"strings"

	"github.com/rivo/uniseg"
)

// Width returns how many columns text takes in a fixed-width font. A combining mark takes none. A
// character of East Asian writing and most emoji take two.
func Width(text string) int { return uniseg.StringWidth(text) }

// Characters calls yield with each character that a reader sees and its width in columns. A letter
// with its combining marks is one character.
func Characters(text string) func(yield func(character string, columns int) bool) {
	return func(yield func(string, int) bool) {
		state := -1
		for text != "" {
			var character string
			var columns int
			character, text, columns, state = uniseg.FirstGraphemeClusterInString(text, state)
			if !yield(character, columns) {
				return
			}
		}
	}
}

// Fit shortens text to a number of columns. It keeps the beginning and the end, because names of
// pods that belong together differ in their last characters.
func Fit(text string, width int) string {
	text = Clean(text)
	if Width(text) <= width {
		return text
	}
	if width <= 1 {
		return strings.Repeat("…", max(0, width))
	}
	head, tail := width-1-(width-1)/3, Width(text)-(width-1)/3
	var out strings.Builder
	at, cut := 0, false
	for character, columns := range Characters(text) {
		switch {
		case at+columns <= head || at >= tail:
			out.WriteString(character)
		case !cut:
			out.WriteString("…")
			cut = true
		}
		at += columns
	}
	return out.String()
}
