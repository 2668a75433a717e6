package kubelet

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// These are the limits of an answer. Beyond the first two it is rejected as a whole, because the
// missing part could be any pod. An item beyond the third makes only itself unusable.
const (
	// maxAnswer limits the answer, in bytes. A node with 500 pods answers with about 5 MiB.
	maxAnswer = 64 << 20
	// maxItems limits the items, including pods that have ended, which a kubelet lists until they
	// are deleted. The cluster deletes them if there are more than 12,500 on all nodes together
	// (--terminated-pod-gc-threshold). A node runs 110 pods by default (maxPods), and 500 in
	// practice.
	maxItems = 16_384
	// maxItem limits one item, in bytes. An API object has at most 1.5 MiB in etcd, in an encoding
	// several times denser.
	maxItem = 8 << 20
)

// maxHead limits the bytes that are quoted of an answer that is not a list. maxOther limits the
// bytes that are checked of a value that is not read. The metadata of a list has a few dozen bytes.
const (
	maxHead  = 120
	maxOther = 64 << 10
)

// These are errors of an answer that is not a list.
var (
	errTooLarge = fmt.Errorf("the answer is larger than %d MiB", maxAnswer>>20)
	errEndsIn   = errors.New("the answer is incomplete")
)

// stream reads an answer and stores one value at a time.
type stream struct {
	source *bufio.Reader
	head   head
	buffer []byte // for one value
}

// head stores the beginning of an answer, and ends the answer with an error if it is too large.
type head struct {
	from io.Reader
	text []byte
	left int
}

// Read implements io.Reader.
func (h *head) Read(p []byte) (int, error) {
	if h.left == 0 {
		return 0, errTooLarge
	}
	n, err := h.from.Read(p[:min(len(p), h.left)])
	h.left -= n
	h.text = append(h.text, p[:min(n, maxHead-len(h.text))]...)
	return n, err
}

// readList reads a PodList and visits its items in turn. An item that is not whole was too large,
// and visit gets its first maxItem bytes. The bytes are valid until visit returns.
//
// An error means that the answer is not a list. Then no item counts, not even those that were
// visited.
func readList(r io.Reader, visit func(item []byte, whole bool) error) error {
	s := &stream{head: head{from: r, left: maxAnswer + 1}}
	s.source = bufio.NewReaderSize(&s.head, 64<<10)
	err := s.list(visit)
	switch {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%w: it begins %q", errEndsIn, s.head.text)
	case err != nil:
		return err
	}
	return nil
}

// list parses the list: one object, and nothing after it.
func (s *stream) list(visit func([]byte, bool) error) error {
	if b, err := s.next(); err != nil {
		return err
	} else if b != '{' {
		_, _ = s.source.Peek(1)
		return fmt.Errorf("the answer is not a JSON object: expected a PodList; it begins %q", s.head.text)
	}
	var kind, version string
	seen := map[string]bool{}
	for first := true; ; first = false {
		key, more, err := s.key(first)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		switch key {
		case "kind", "apiVersion", "items":
			if seen[key] {
				return fmt.Errorf("the answer has %q twice", key)
			}
			seen[key] = true
		}
		switch key {
		case "kind":
			err = s.text(&kind)
		case "apiVersion":
			err = s.text(&version)
		case "items":
			err = s.items(visit)
		default: // Other values are not used. A short one is checked.
			var raw []byte
			var whole bool
			if raw, whole, err = s.value(maxOther); err == nil && whole && !json.Valid(raw) {
				err = fmt.Errorf("%w: it begins %q", errSyntax, s.head.text)
			}
		}
		if err != nil {
			return err
		}
	}
	if b, err := s.next(); err == nil {
		return fmt.Errorf("the answer has data after the end of the list: %q", b)
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	if kind != "PodList" || version != "v1" || !seen["items"] {
		what := "an object without a kind"
		if kind != "" {
			what = fmt.Sprintf("a %q of apiVersion %q", kind, version)
		}
		return fmt.Errorf("the answer is %s: expected a PodList of v1 with items; it begins %q", what, s.head.text)
	}
	return nil
}

// next returns the next byte that is not white space.
func (s *stream) next() (byte, error) {
	for {
		b, err := s.source.ReadByte()
		if err != nil || !isSpace(b) {
			return b, err
		}
		chunk, _ := s.source.Peek(s.source.Buffered())
		if _, err := s.source.Discard(len(chunk) - len(bytes.TrimLeft(chunk, " \t\n\r"))); err != nil {
			return 0, err
		}
	}
}

// key reads the next name of the object, and the colon after it. more is false at the end of the
// object.
func (s *stream) key(first bool) (key string, more bool, err error) {
	b, err := s.next()
	if err != nil {
		return "", false, err
	}
	if b == '}' {
		return "", false, nil
	}
	if !first {
		if b != ',' {
			return "", false, s.broken(b)
		}
	} else if err := s.source.UnreadByte(); err != nil {
		return "", false, err
	}
	if err := s.text(&key); err != nil {
		return "", false, err
	}
	if b, err = s.next(); err != nil {
		return "", false, err
	}
	if b != ':' {
		return "", false, s.broken(b)
	}
	return key, true, nil
}

func (s *stream) broken(b byte) error {
	return fmt.Errorf("the answer is not JSON: unexpected %q; it begins %q", b, s.head.text)
}

// items visits the items of an array. null is an empty array, as kubelets write it.
func (s *stream) items(visit func([]byte, bool) error) error {
	b, err := s.next()
	if err != nil {
		return err
	}
	if b != '[' {
		if err := s.source.UnreadByte(); err != nil {
			return err
		}
		raw, _, err := s.value(maxHead)
		if err == nil && string(raw) != "null" {
			err = fmt.Errorf("the items of the answer are not an array: %q", raw)
		}
		return err
	}
	for n := 0; ; n++ {
		if b, err = s.next(); err != nil {
			return err
		}
		switch {
		case b == ']' && n == 0:
			return nil
		case n == maxItems:
			return fmt.Errorf("the answer has more than %d pods", maxItems)
		case n == 0:
			if err := s.source.UnreadByte(); err != nil {
				return err
			}
		case b == ']':
			return nil
		case b != ',':
			return s.broken(b)
		}
		raw, whole, err := s.value(maxItem)
		if err == nil {
			err = visit(raw, whole)
		}
		if err != nil {
			return err
		}
	}
}

// text reads a short string.
func (s *stream) text(to *string) error {
	raw, whole, err := s.value(maxHead)
	if err != nil {
		return err
	}
	if whole && isPlainText(raw) {
		*to = string(raw[1 : len(raw)-1])
		return nil
	}
	if !whole || json.Unmarshal(raw, to) != nil || raw[0] != '"' {
		return fmt.Errorf("the answer is not a list of pods: expected a short text instead of %q", raw)
	}
	return nil
}

// isPlainText reports whether a value is a string without escapes.
func isPlainText(raw []byte) bool {
	if len(raw) < 2 || raw[0] != '"' {
		return false
	}
	for _, b := range raw[1 : len(raw)-1] {
		if b < ' ' || b > '~' || b == '\\' {
			return false
		}
	}
	return true
}

// value reads the next value and returns its first bytes, at most keep. whole is true if these are
// all. They are valid until the next value is read.
func (s *stream) value(keep int) (raw []byte, whole bool, err error) {
	b, err := s.next()
	if err != nil {
		return nil, false, err
	}
	if bytes.IndexByte([]byte(",:}]"), b) >= 0 {
		return nil, false, s.broken(b)
	}
	if err := s.source.UnreadByte(); err != nil {
		return nil, false, err
	}
	var e extent
	s.buffer, whole = s.buffer[:0], true
	for ends := false; !ends; {
		if _, err := s.source.Peek(1); err != nil {
			return nil, false, err
		}
		chunk, _ := s.source.Peek(s.source.Buffered())
		var n int
		n, ends = e.scan(chunk)
		kept := min(n, keep-len(s.buffer))
		s.buffer = append(s.buffer, chunk[:kept]...)
		whole = whole && kept == n
		if _, err := s.source.Discard(n); err != nil {
			return nil, false, err
		}
	}
	return s.buffer, whole, nil
}
