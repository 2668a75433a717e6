package statefile

import (
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/request"
)

// writer appends JSON. Members stand in the order in which they are written; those that are
// empty, zero or false are left out. The first value that could not be read back is kept in err.
type writer struct {
	b   []byte
	err error
}

func (w *writer) refuse(key string, value any) {
	if w.err == nil {
		w.err = fmt.Errorf("%w: %s %q", ErrNotEncodable, key, fmt.Sprint(value))
	}
}

func (w *writer) raw(text string) { w.b = append(w.b, text...) }

// next separates an element from the one before it.
func (w *writer) next() {
	if last := w.b[len(w.b)-1]; last != '{' && last != '[' {
		w.b = append(w.b, ',')
	}
}

func (w *writer) key(key string) {
	w.next()
	w.b = append(w.b, '"')
	w.b = append(w.b, key...)
	w.b = append(w.b, '"', ':')
}

// quote writes a string: bytes as they are, but for quotes, backslashes and control characters.
func (w *writer) quote(key, text string) {
	w.b = append(w.b, '"')
	plain := 0
	for plain < len(text) && text[plain] >= ' ' && text[plain] < utf8.RuneSelf && text[plain] != '"' && text[plain] != '\\' {
		plain++
	}
	w.b = append(w.b, text[:plain]...)
	if plain < len(text) {
		w.escape(key, text[plain:])
	}
	w.b = append(w.b, '"')
}

func (w *writer) escape(key, text string) {
	if !utf8.ValidString(text) {
		w.refuse(key, text)
	}
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			w.b = append(w.b, '\\', c)
		case c < ' ':
			w.b = append(w.b, '\\', 'u', '0', '0', '0'+c>>4, "0123456789abcdef"[c&15])
		default:
			w.b = append(w.b, c)
		}
	}
}

func (w *writer) text(key, text string) {
	if text != "" {
		w.key(key)
		w.quote(key, text)
	}
}

func (w *writer) texts(key string, list []string) {
	if len(list) == 0 {
		return
	}
	w.key(key)
	w.b = append(w.b, '[')
	for _, text := range list {
		w.next()
		w.quote(key, text)
	}
	w.b = append(w.b, ']')
}

func (w *writer) number(key string, n int64) {
	if n < 0 {
		w.refuse(key, n)
	}
	if n != 0 {
		w.always(key, n)
	}
}

// always writes a number that is not left out.
func (w *writer) always(key string, n int64) {
	w.key(key)
	w.b = strconv.AppendInt(w.b, n, 10)
}

func (w *writer) count(key string, n uint64) {
	w.key(key)
	w.b = strconv.AppendUint(w.b, n, 10)
}

func (w *writer) flag(key string, on bool) {
	if on {
		w.key(key)
		w.raw("true")
	}
}

func (w *writer) cpus(key string, s cpuset.Set) {
	if !s.IsEmpty() {
		w.key(key)
		w.b = append(w.b, '"')
		w.b = append(s.Append(w.b), '"')
	}
}

func (w *writer) nodes(key string, m mask.Mask) {
	if m.IsEmpty() {
		return
	}
	w.key(key)
	w.b = append(w.b, '[')
	for n := range m.All() {
		w.next()
		w.b = strconv.AppendInt(w.b, int64(n), 10)
	}
	w.b = append(w.b, ']')
}

func (w *writer) amounts(key string, list request.Amounts) {
	if len(list) == 0 {
		return
	}
	w.key(key)
	w.b = append(w.b, '{')
	for i, a := range list {
		if a.Value < 0 || (i > 0 && list[i-1].Resource >= a.Resource) {
			w.refuse(key, list)
		}
		w.next()
		w.quote(key, a.Resource)
		w.b = append(w.b, ':')
		w.b = strconv.AppendInt(w.b, a.Value, 10)
	}
	w.b = append(w.b, '}')
}

func (w *writer) blocks(key string, blocks []memory.Block) {
	if len(blocks) == 0 {
		return
	}
	w.key(key)
	w.b = append(w.b, '[')
	for _, b := range blocks {
		w.next()
		w.raw("{")
		w.text("type", b.Type)
		w.number("bytes", b.Size)
		w.nodes("nodes", b.Nodes)
		w.raw("}")
	}
	w.b = append(w.b, ']')
}

func (w *writer) devices(key string, list []device.Held) {
	if len(list) == 0 {
		return
	}
	w.key(key)
	w.b = append(w.b, '{')
	for i, h := range list {
		if i > 0 && list[i-1].Resource >= h.Resource {
			w.refuse(key, list)
		}
		w.next()
		w.quote(key, h.Resource)
		w.b = append(w.b, ':', '[')
		for _, id := range h.IDs {
			w.next()
			w.quote(key, id)
		}
		w.b = append(w.b, ']')
	}
	w.b = append(w.b, '}')
}

// writeName writes the name of a value; one that has none cannot be read back.
func writeName[T comparable](w *writer, key string, n names[T], value T) {
	text, ok := n.nameOf(value)
	if !ok {
		w.refuse(key, value)
	}
	w.text(key, text)
}
