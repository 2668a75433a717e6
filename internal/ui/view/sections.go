package view

import (
	"strings"

	"github.com/paddock-project/paddock/internal/base/terminal"
)

// Section is one step of an explanation, for pages, which have tables of their own. Its words are
// those of Explanation.Text.
type Section struct {
	Title string `json:"title"`
	// About describes the title. It may be empty.
	About  string  `json:"about,omitempty"`
	Blocks []Block `json:"blocks"`
}

// Block is either a sentence or a table. Rows can have different numbers of cells.
type Block struct {
	Sentence []Word   `json:"sentence,omitempty"`
	Table    [][]Word `json:"table,omitempty"`
}

// Word is a text with its tone: good, warn, bad, strong or faint. An empty tone is plain text.
type Word struct {
	Text string `json:"text"`
	Tone string `json:"tone,omitempty"`
}

// Sections returns the steps of the decision, and whether each resource is aligned. It does not
// include the answer itself, the remedies and the notes.
func (e Explanation) Sections() []Section {
	w := explanation{record: true, sections: []Section{}}
	if len(e.Answer.Aligned) > 0 {
		w.heading("Aligned", "where a program uses it fastest")
		w.alignedTable(e.Answer.Aligned)
	}
	w.decision(e)
	return w.sections
}

// recorded adds a block to the last section.
func (w *explanation) recorded(b Block) {
	if n := len(w.sections); w.record && n > 0 {
		w.sections[n-1].Blocks = append(w.sections[n-1].Blocks, b)
	}
}

func words(cells []terminal.Cell) []Word {
	list := make([]Word, len(cells))
	for i, c := range cells {
		list[i] = Word{strings.TrimSpace(c.Text), toneName(c.Tone)}
	}
	return list
}

func toneName(t terminal.Tone) string {
	switch t {
	case terminal.Plain, terminal.Accent:
	case terminal.Strong:
		return "strong"
	case terminal.Faint:
		return "faint"
	case terminal.Good:
		return "good"
	case terminal.Warn:
		return "warn"
	case terminal.Bad:
		return "bad"
	}
	return ""
}
