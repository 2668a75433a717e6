package kubelet

import (
	"encoding/json"
	"fmt"
)

// extent finds the end of one JSON value without decoding it. It looks only at strings and
// brackets; the decoder checks whether the value is well-formed.
type extent struct {
	depth             int
	inString, escaped bool
}

// scan returns how many bytes of the chunk belong to the value, and whether the value ends with
// them. The caller has skipped white space before the value.
func (e *extent) scan(chunk []byte) (n int, ends bool) {
	for i, b := range chunk {
		switch {
		case e.escaped:
			e.escaped = false
		case e.inString:
			e.escaped = b == '\\'
			e.inString = b != '"'
			if !e.inString && e.depth == 0 {
				return i + 1, true
			}
		case b == '"':
			e.inString = true
		case b == '{' || b == '[':
			e.depth++
		case e.depth == 0 && (b == ',' || b == ':' || b == '}' || b == ']' || isSpace(b)):
			return i, true // the byte after a number, true, false or null
		case b == '}' || b == ']':
			if e.depth--; e.depth == 0 {
				return i + 1, true
			}
		}
	}
	return len(chunk), false
}

func isSpace(b byte) bool { return b == ' ' || b == '\t' || b == '\n' || b == '\r' }

// cut returns the first value of raw. whole is false if raw ends before the value does.
func cut(raw []byte) (value, rest []byte, whole bool) {
	raw = skip(raw)
	var e extent
	n, ends := e.scan(raw)
	return raw[:n], raw[n:], ends
}

// skip skips white space and one comma or colon.
func skip(raw []byte) []byte {
	seen := false
	for len(raw) > 0 && (isSpace(raw[0]) || !seen && (raw[0] == ',' || raw[0] == ':')) {
		seen = seen || !isSpace(raw[0])
		raw = raw[1:]
	}
	return raw
}

// members visits the members of an object. The object may be cut off anywhere; its last value is
// then not whole. members stops when visit returns an error. A value that is not an object has no
// members.
func members(raw []byte, visit func(key string, value []byte, whole bool) error) error {
	raw = skip(raw)
	if len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	for raw = raw[1:]; ; {
		name, rest, whole := cut(raw)
		var key string
		if err := json.Unmarshal(name, &key); !whole || err != nil {
			return nil //nolint:nilerr // The rest is not an object.
		}
		var value []byte
		value, raw, whole = cut(rest)
		if err := visit(key, value, whole); err != nil {
			return err
		}
		if !whole {
			return nil
		}
	}
}

// elements decodes a well-formed JSON array element by element. It returns an error if there are
// more than most elements.
func elements[T any](raw []byte, most int, decode func([]byte, *T) error) ([]T, error) {
	if string(raw) == "null" {
		return nil, nil
	}
	if raw[0] != '[' {
		return nil, fmt.Errorf("expected an array: got %.20s", raw)
	}
	var all []T
	for rest := skip(raw[1:]); len(rest) > 0 && rest[0] != ']'; rest = skip(rest) {
		if len(all) == most {
			return nil, fmt.Errorf("more than %d elements", most)
		}
		var value []byte
		value, rest, _ = cut(rest)
		var v T
		if err := decode(value, &v); err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}
