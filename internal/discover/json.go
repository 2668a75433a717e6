package discover

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
)

// lineWidth is how long a line may be before an array or object is broken up.
const lineWidth = 140

// maxDepth is where breaking up ends; the deepest list of a MachineInfo, a core's
// caches, is at 6.
const maxDepth = 8

// WriteJSON writes the MachineInfo, so that Read of it finds the same machine. Of a
// recorded file every field is written, known or not, in the order of the file. What
// fits on a line is written on one: a core is a line, not twenty.
func (f *Found) WriteJSON(w io.Writer) error {
	data := f.recorded
	if data == nil {
		var err error
		if data, err = json.Marshal(f.Info); err != nil {
			return err
		}
	}
	var compact, out bytes.Buffer
	if err := json.Compact(&compact, data); err != nil {
		return err
	}
	l := layout{src: compact.Bytes(), out: &out}
	l.measure()
	l.value(0, 0)
	out.WriteByte('\n')
	_, err := w.Write(out.Bytes())
	return err
}

// layout breaks compact, valid JSON into lines.
type layout struct {
	src []byte
	out *bytes.Buffer
	// end is, for the position of an opening bracket, the position after its closing
	// one.
	end map[int]int
}

func (l *layout) measure() {
	l.end = map[int]int{}
	var open []int
	for i := 0; i < len(l.src); i++ {
		switch l.src[i] {
		case '"':
			i = l.afterString(i) - 1
		case '{', '[':
			open = append(open, i)
		case '}', ']':
			l.end[open[len(open)-1]] = i + 1
			open = open[:len(open)-1]
		}
	}
}

func (l *layout) afterString(i int) int {
	for i++; l.src[i] != '"'; i++ {
		if l.src[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// value writes what starts at i and returns the position after it. depth is the
// indentation in steps of two spaces.
func (l *layout) value(i, depth int) int {
	end, bracket := l.end[i]
	switch {
	case !bracket:
		return l.word(i)
	case 2*depth+end-i <= lineWidth || depth == maxDepth:
		for i < end {
			i = l.word(i)
		}
		return end
	}
	indent := "\n" + strings.Repeat("  ", depth)
	closing := end - 1
	l.out.WriteByte(l.src[i])
	for i++; i < closing; {
		l.out.WriteString(indent + "  ")
		if l.src[closing] == '}' {
			i = l.word(l.word(i)) // The key and the colon.
		}
		if i = l.value(i, depth+1); l.src[i] == ',' {
			l.out.WriteByte(',')
			i++
		}
	}
	l.out.WriteString(indent)
	l.out.WriteByte(l.src[closing])
	return end
}

// word writes the string, the number or the single character at i, with a space after
// a colon or comma, and returns the position after it.
func (l *layout) word(i int) int {
	end := i + 1
	switch l.src[i] {
	case '"':
		end = l.afterString(i)
	case ':', ',':
		l.out.Write([]byte{l.src[i], ' '})
		return end
	case '{', '}', '[', ']':
	default:
		for end < len(l.src) && !strings.ContainsRune(",:]}", rune(l.src[end])) {
			end++
		}
	}
	l.out.Write(l.src[i:end])
	return end
}
