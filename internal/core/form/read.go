package form

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ErrUnknown is wrapped by the error of Read for a member, or a name of a value, that is in no
// table, because a newer program wrote it.
var ErrUnknown = errors.New("unknown")

// Read sets the fields of v to the members of one JSON object. It leaves the fields of members that
// are absent or null. It does not check whether v could be written.
func (o Object[T]) Read(data []byte, v *T) error {
	if !json.Valid(data) {
		var ignored json.RawMessage
		return json.Unmarshal(data, &ignored)
	}
	r := reader{data: data}
	o.read(&r, v)
	return r.err
}

func (o Object[T]) read(r *reader, v *T) {
	within, next := r.member, 0
	for r.open('{', "an object"); r.more('}'); {
		name := r.key()
		i := o.find(name, next)
		if i < 0 {
			r.fail(&unknownError{fmt.Sprintf("it has a member %q that this one does not know", name)})
			return
		}
		r.member, next = o[i].name, i+1
		o[i].get(r, v)
	}
	r.member = within
}

// find returns the index of a field, or -1. Members are in the order of the table, so the search
// begins at the next field. Like encoding/json, it accepts a name with other upper and lower case
// letters: Append does not write these bytes, but a newer program does not write them either.
func (o Object[T]) find(name string, next int) int {
	for k := range o {
		if i := (next + k) % len(o); o[i].name == name {
			return i
		}
	}
	for i := range o {
		if strings.EqualFold(o[i].name, name) {
			return i
		}
	}
	return -1
}

// unknownError is an ErrUnknown with its own text.
type unknownError struct{ text string }

func (e *unknownError) Error() string { return e.text }

// Is reports whether the target is ErrUnknown.
func (e *unknownError) Is(target error) bool { return target == ErrUnknown }

// reader reads values from valid JSON. It stores the first error, and stops there.
type reader struct {
	data   []byte
	at     int
	member string // the name of the member that is read
	closed bool   // the value that open was to open is not an object or a list
	err    error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.at = len(r.data)
}

// damaged fails because the kind of a member's value is not the expected one.
func (r *reader) damaged(value []byte, expected string) {
	const most = 40
	if len(value) > most {
		value = append(bytes.Clone(value[:most]), "…"...)
	}
	r.fail(fmt.Errorf("member %s is %s, expected %s", r.member, value, expected))
}

func (r *reader) space() {
	for r.at < len(r.data) && strings.IndexByte(" \t\r\n", r.data[r.at]) >= 0 {
		r.at++
	}
}

// open begins an object or a list. If the next value is null or of another kind, more returns
// false.
func (r *reader) open(bracket byte, expected string) {
	r.space()
	if r.at < len(r.data) && r.data[r.at] == bracket {
		r.at++
		return
	}
	r.closed = true
	if value := r.value(); !isNull(value) && r.err == nil {
		r.damaged(value, expected)
	}
}

// more reports whether an object or a list has another element, and passes its comma or its end.
func (r *reader) more(bracket byte) bool {
	if r.closed || r.err != nil {
		r.closed = false
		return false
	}
	r.space()
	if r.at < len(r.data) && r.data[r.at] == ',' {
		r.at++
		r.space()
	}
	if r.at < len(r.data) && r.data[r.at] == bracket {
		r.at++
		return false
	}
	return r.at < len(r.data)
}

// key reads the name of a member and its colon.
func (r *reader) key() string {
	text := r.unquote(r.value())
	r.space()
	r.at++
	return text
}

// value returns the bytes of the next value, and passes it. It returns nil at the end.
func (r *reader) value() []byte {
	r.space()
	start, depth := r.at, 0
	for r.at < len(r.data) {
		switch c := r.data[r.at]; c {
		case '"':
			r.passString()
		case '{', '[':
			depth++
			r.at++
		case '}', ']':
			depth--
			r.at++
		default:
			r.at++
			if depth == 0 {
				for r.at < len(r.data) && strings.IndexByte(" \t\r\n,]}:", r.data[r.at]) < 0 {
					r.at++
				}
			}
		}
		if depth == 0 {
			break
		}
	}
	return r.data[min(start, len(r.data)):r.at]
}

func (r *reader) passString() {
	for r.at++; r.at < len(r.data) && r.data[r.at] != '"'; r.at++ {
		if r.data[r.at] == '\\' {
			r.at++
		}
	}
	r.at = min(r.at+1, len(r.data))
}

func isNull(value []byte) bool { return string(value) == "null" }

// unquote returns the text of a string. It returns "" for null.
func (r *reader) unquote(value []byte) string {
	if len(value) >= 2 && value[0] == '"' && bytes.IndexByte(value, '\\') < 0 && utf8.Valid(value) {
		return string(value[1 : len(value)-1])
	}
	var text string
	if json.Unmarshal(value, &text) != nil {
		r.damaged(value, "a string")
	}
	return text
}

func (r *reader) text() string { return r.unquote(r.value()) }

// texts returns a list of strings. It returns nil for null.
func (r *reader) texts() []string {
	r.open('[', "a list")
	list := make([]string, 0, 1)
	if r.closed {
		list = nil
	}
	for r.more(']') {
		list = append(list, r.text())
	}
	return list
}

// whole reads a whole number into any type of integer. It returns 0 for null.
func whole[N int | int32 | int64 | uint64](r *reader) N {
	value := r.value()
	if isNull(value) {
		return 0
	}
	var n N
	var err error
	switch x := any(&n).(type) {
	case *uint64:
		*x, err = strconv.ParseUint(string(value), 10, 64)
	case *int32:
		var wide int64
		wide, err = strconv.ParseInt(string(value), 10, 32)
		*x = int32(wide)
	case *int64:
		*x, err = strconv.ParseInt(string(value), 10, 64)
	case *int:
		*x, err = strconv.Atoi(string(value))
	}
	if err != nil {
		r.damaged(value, "a whole number in its range")
	}
	return n
}

func (r *reader) flag() (is bool) {
	switch value := r.value(); string(value) {
	case "true":
		return true
	case "false", "null":
	default:
		r.damaged(value, "true or false")
	}
	return false
}
