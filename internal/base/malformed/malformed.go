// Package malformed describes the fault of a text that is not the JSON that a program expected: the
// field, its value, and the value that it should have. Errors of encoding/json name Go types
// instead, which mean nothing to users.
package malformed

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
)

// ErrCutOff is the error for a text that ends inside a JSON value.
var ErrCutOff = errors.New("the JSON is cut off")

// JSON describes an error of a decoder in terms of JSON: "events[1].op: it is 5, expected a
// string". data is the decoded text. JSON returns errors of other kinds unchanged.
func JSON(data []byte, err error) error {
	var syntax *json.SyntaxError
	var mismatch *json.UnmarshalTypeError
	const unknown = "json: unknown field "
	switch {
	case err == nil:
		return nil
	case errors.As(err, &mismatch):
		return of(data, err, mismatch)
	case isCutOff(data, err):
		return ErrCutOff
	case errors.As(err, &syntax):
		return fmt.Errorf("JSON syntax error at byte %d: %w", syntax.Offset, syntax)
	}
	if name, is := strings.CutPrefix(err.Error(), unknown); is {
		return errors.New("unknown field " + name)
	}
	return err
}

// CutOff returns ErrCutOff if data begins like a JSON object or list and ends inside it, and nil
// otherwise. Use it for texts that are parsed as YAML, where the parser's own error names an
// unhelpful position.
func CutOff(data []byte) error {
	data = bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))
	if len(data) == 0 || data[0] != '{' && data[0] != '[' {
		return nil
	}
	if err := json.Unmarshal(data, new(json.RawMessage)); err == nil || !isCutOff(data, err) {
		return nil
	}
	return ErrCutOff
}

// isCutOff reports whether a text ended inside a value. At the end of a text, encoding/json reads a
// space, and can report that space instead of the end.
func isCutOff(data []byte, err error) bool {
	const end, space = "unexpected end of JSON input", "invalid character ' ' in "
	syntax := (*json.SyntaxError)(nil)
	atEnd := errors.As(err, &syntax) && syntax.Offset >= int64(len(data)) && !bytes.HasSuffix(data, []byte(" "))
	return errors.Is(err, io.ErrUnexpectedEOF) || err.Error() == end || atEnd && strings.HasPrefix(err.Error(), space)
}

// of describes a value whose type differs from that of its field.
func of(data []byte, err error, mismatch *json.UnmarshalTypeError) error {
	where, value := mismatch.Field, kindOf(mismatch.Value)
	// The offset refers to data, unless a part of data was decoded separately and its error was
	// wrapped.
	prefix, wrapped := strings.CutSuffix(err.Error(), mismatch.Error())
	if prefix == "" {
		if path, found := at(data, mismatch.Offset); found != "" {
			where, value = path, found
		}
	}
	if where != "" {
		where += ": "
	}
	if !wrapped {
		prefix = "" // The text of a wrapper that hides the error has a type of Go.
	}
	return fmt.Errorf("%s%sit is %s, expected %s", prefix, where, value, Wanted(mismatch.Type, value))
}

// kindOf describes the value of a mismatch: "array", "string", "number -1".
func kindOf(value string) string {
	if number, is := strings.CutPrefix(value, "number "); is {
		return number
	}
	if known, is := map[string]string{"array": "a list", "object": "an object", "bool": "true or false"}[value]; is {
		return known
	}
	return "a " + value
}

// Wanted describes the values that a type accepts. found is the value that it does not accept.
func Wanted(t reflect.Type, found string) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch kind := t.Kind(); {
	case kind == reflect.Struct || kind == reflect.Map || kind == reflect.Interface:
		return "an object"
	case kind == reflect.Slice || kind == reflect.Array:
		return "a list"
	case kind == reflect.String:
		return "a string"
	case kind == reflect.Bool:
		return "true or false"
	case kind == reflect.Float32 || kind == reflect.Float64:
		return "a number"
	case kind >= reflect.Uint && kind <= reflect.Uintptr && strings.HasPrefix(found, "-"):
		return "a whole number, 0 or more"
	}
	return fmt.Sprintf("a whole number of at most %d bits", t.Bits())
}

// at returns the value whose text, or whose first bracket, ends at an offset, and the path of the
// value. The value is "" if there is none.
func at(data []byte, offset int64) (path, value string) {
	f := finder{json.NewDecoder(bytes.NewReader(data)), offset}
	f.decoder.UseNumber()
	path, token, found := f.find("")
	if !found {
		return "", ""
	}
	return path, shown(token)
}

// finder looks for the value at an offset.
type finder struct {
	decoder *json.Decoder
	offset  int64
}

// find looks in the next value, which has this path.
func (f *finder) find(path string) (string, json.Token, bool) {
	token, err := f.decoder.Token()
	if err != nil {
		return "", nil, false
	}
	if f.decoder.InputOffset() >= f.offset {
		return path, token, true
	}
	if d, is := token.(json.Delim); !is || d == '}' || d == ']' {
		return "", nil, false
	}
	for i := 0; f.decoder.More(); i++ {
		inside := path + "[" + strconv.Itoa(i) + "]"
		if token == json.Delim('{') {
			key, err := f.decoder.Token()
			if err != nil {
				return "", nil, false
			}
			inside = strings.TrimPrefix(path+"."+fmt.Sprint(key), ".")
		}
		if found, value, is := f.find(inside); is {
			return found, value, true
		}
	}
	_, _ = f.decoder.Token() // A missing bracket is noticed by the next call.
	return "", nil, false
}

// shown returns a value as it is written in the text, if it is short.
func shown(token json.Token) string {
	const most = 40 // characters of a text, which suffice to find it
	switch t := token.(type) {
	case json.Delim:
		return map[json.Delim]string{'{': "an object", '[': "a list"}[t]
	case string:
		if runes := []rune(t); len(runes) > most {
			t = string(runes[:most]) + "…"
		}
		return strconv.Quote(t)
	case nil:
		return "null"
	}
	return fmt.Sprint(token)
}
