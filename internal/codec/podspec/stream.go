package podspec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxObject is the maximum size of an object in a stream, in bytes. An API server stores at most
// 1.5 MiB, and kubectl's indentation makes that a few times larger.
const maxObject = 16 << 20

// window reads a stream and keeps the data that was read for the current object. This data limits
// the object's size and yields the line number of an error.
type window struct {
	from io.Reader
	data []byte
	base int64 // the offset of data
	line int   // the line in which data begins, counted from 1
}

// Read implements io.Reader.
func (w *window) Read(to []byte) (int, error) {
	if len(w.data) > maxObject {
		return 0, fmt.Errorf("an object there has more than %d MiB", maxObject>>20)
	}
	n, err := w.from.Read(to)
	w.data = append(w.data, to[:n]...)
	return n, err
}

// lineAt returns the line of an offset that was not dropped.
func (w *window) lineAt(offset int64) int {
	return w.line + bytes.Count(w.data[:min(max(0, offset-w.base), int64(len(w.data)))], []byte("\n"))
}

// drop discards the data before an offset.
func (w *window) drop(offset int64) {
	w.line = w.lineAt(offset)
	w.data = w.data[min(offset-w.base, int64(len(w.data))):]
	w.base = offset
}

// stream reads JSON objects one after the other, and lists item by item, so that the memory use
// depends on what is kept and not on the size of the file. The kind of a list must come before its
// items unless the items have their own.
func (r *reader) stream(name string, from io.Reader) {
	w := &window{from: from, line: 1}
	s := &streaming{reader: r, window: w, decoder: json.NewDecoder(w)}
	for s.at = (Origin{File: name, Document: 1}); ; s.at.Document++ {
		if err := s.document(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			place := ""
			if s.at.Item > 0 {
				place = fmt.Sprintf("item %d: ", s.at.Item)
			}
			r.fail(fmt.Errorf("%s: json: line %d: %s%w", name, w.lineAt(s.offset(err)), place, cutOff(err)))
			return
		}
	}
}

type streaming struct {
	*reader
	*window
	decoder *json.Decoder
	at      Origin
}

// offset returns the position of an error. The offset in a syntax error from the token stream does
// not count tokens, so offset parses the value again.
func (s *streaming) offset(err error) int64 {
	at := s.decoder.InputOffset()
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return at
	}
	value := s.data[min(at-s.base, int64(len(s.data))):]
	begin := bytes.TrimLeft(value, " \t\r\n,:")
	at += int64(len(value) - len(begin))
	if errors.As(json.Unmarshal(begin, new(json.RawMessage)), &syntax) {
		at += syntax.Offset - 1
	}
	return at
}

// document reads one object. It returns io.EOF at the end of the stream.
func (s *streaming) document() error {
	if err := s.delimiter('{'); err != nil {
		return err
	}
	s.drop(s.decoder.InputOffset())
	s.at.Line, s.at.Item = s.line, 0
	var id identity
	rest := []byte("{")
	list := false
	for s.decoder.More() {
		token, err := s.decoder.Token()
		if err != nil {
			return unexpected(err)
		}
		key, is := token.(string)
		switch {
		case !is:
			return errors.New("an object is wanted there")
		case key == "items" && (id.Kind == "" || strings.HasSuffix(id.Kind, "List")):
			list = true
			if err := s.items(id); err != nil {
				return unexpected(err)
			}
			continue
		}
		var value json.RawMessage
		if err := s.decoder.Decode(&value); err != nil {
			return unexpected(err)
		}
		switch key {
		case "kind":
			_ = json.Unmarshal(value, &id.Kind) // A value of another type is reported when the object is decoded.
		case "apiVersion":
			_ = json.Unmarshal(value, &id.APIVersion)
		}
		if len(rest) > 1 {
			rest = append(rest, ',')
		}
		name, err := json.Marshal(key)
		if err != nil {
			return err
		}
		rest = append(append(append(rest, name...), ':'), value...)
		if len(rest) > maxObject {
			return fmt.Errorf("an object there has more than %d MiB", maxObject>>20)
		}
		s.drop(s.decoder.InputOffset())
	}
	if err := s.delimiter('}'); err != nil {
		return unexpected(err)
	}
	switch {
	case !list:
		s.object(s.at, append(rest, '}'), identity{})
	case !strings.HasSuffix(id.Kind, "List"):
		return fmt.Errorf("the object has items, and its kind is %q: expected a list, such as List or PodList", id.Kind)
	}
	return nil
}

// items reads the items of a list.
func (s *streaming) items(list identity) error {
	if err := s.delimiter('['); err != nil {
		return err
	}
	assumed := identity{}
	if kind, is := strings.CutSuffix(list.Kind, "List"); is && kind != "" {
		assumed.TypeMeta = metav1.TypeMeta{APIVersion: list.APIVersion, Kind: kind}
	}
	for s.decoder.More() {
		s.at.Item++
		var item json.RawMessage
		if err := s.decoder.Decode(&item); err != nil {
			return err
		}
		if s.Slim {
			item = slimRaw(item, assumed)
		}
		s.object(s.at, item, assumed)
		s.drop(s.decoder.InputOffset())
		if len(s.errs) > maxErrors {
			return errors.New("too many errors: the rest is not read")
		}
	}
	return s.delimiter(']')
}

func (s *streaming) delimiter(want json.Delim) error {
	token, err := s.decoder.Token()
	if err == nil && token != want {
		err = fmt.Errorf("%q is wanted there, is %v", want.String(), token)
	}
	return err
}

// unexpected converts io.EOF into io.ErrUnexpectedEOF, because the stream must not end inside an
// object.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
