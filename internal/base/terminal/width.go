package terminal

import (
	"strings"

	"github.com/rivo/uniseg"
)

// Width is how many columns text takes where letters are of one width: a combining mark takes
// none, a character of East Asian writing and most emoji take two.
func Width(text string) int { return uniseg.StringWidth(text) }

// Characters calls yield for each character that a reader sees, with its columns: a letter with
// its combining marks is one.
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

// Fit cuts text to a number of columns. The begin and the end stay, because names of pods
// that belong together differ in their last characters.
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
