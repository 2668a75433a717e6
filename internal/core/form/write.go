package form

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Object is the table of the members of a JSON object, in their order.
type Object[T any] []Field[T]

// Field is one member of an object.
type Field[T any] struct {
	name string
	// put appends the value of the member. It reports false, and may have appended something, if
	// the member is omitted.
	put func(w *writer, v *T) bool
	// get reads the value of the member.
	get func(r *reader, v *T)
	// always is set if the member is written although it is empty.
	always bool
}

// Always returns the field with its member written although it is empty.
func (f Field[T]) Always() Field[T] {
	f.always = true
	return f
}

// Append appends v as one JSON object to b and returns the extended slice. The error names the
// member that could not be read back. b is then unchanged.
func (o Object[T]) Append(b []byte, v *T) ([]byte, error) {
	w := writer{b: b}
	o.append(&w, v)
	if w.err != nil {
		return b, w.err
	}
	return w.b, nil
}

func (o Object[T]) append(w *writer, v *T) {
	w.raw("{")
	first := true
	for i := range o {
		f := &o[i]
		before := w.member(f.name, first)
		if f.put(w, v) || f.always {
			first = false
		} else {
			w.b = w.b[:before]
		}
	}
	w.raw("}")
}

// writer appends values to b and keeps the first error.
type writer struct {
	b    []byte
	name string // of the member that is written
	err  error
}

// raw appends a text as it is. It is not inlined into code that exists once for each type, because
// that would have as many copies.
//
//go:noinline
func (w *writer) raw(text string) { w.b = append(w.b, text...) }

// member appends the name of a member, after a comma unless it is the first one. It returns the
// length before it.
func (w *writer) member(name string, first bool) (before int) {
	before, w.name = len(w.b), name
	if !first {
		w.b = append(w.b, ',')
	}
	w.b = append(append(append(w.b, '"'), name...), `":`...)
	return before
}

func (w *writer) reject(value any) {
	if w.err == nil {
		w.err = fmt.Errorf("%s %q", w.name, fmt.Sprint(value))
	}
}

func (w *writer) number(n int64) {
	if n < 0 {
		w.reject(n)
	}
	w.b = strconv.AppendInt(w.b, n, 10)
}

const hexadecimal = "0123456789abcdef"

// text appends a string. A control character is always escaped by its number, and nothing else but
// quotes and backslashes is escaped.
func (w *writer) text(text string) {
	if !utf8.ValidString(text) {
		w.reject(text)
	}
	b := w.b
	b = append(b, '"')
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ':
			b = append(b, '\\', 'u', '0', '0', hexadecimal[c>>4], hexadecimal[c&15])
		default:
			b = append(b, c)
		}
	}
	b = append(b, '"')
	w.b = b
}

func (w *writer) texts(list []string) {
	w.b = append(w.b, '[')
	for i, text := range list {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.text(text)
	}
	w.b = append(w.b, ']')
}
