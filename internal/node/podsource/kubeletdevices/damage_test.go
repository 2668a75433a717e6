package kubeletdevices

import (
	"math/rand/v2"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// damager makes damaged answers from a valid one.
type damager struct {
	*rand.Rand
	right []byte
}

// answer returns an answer with one kind of damage. i selects the kind.
func (d damager) answer(i int) (string, []byte) {
	data := slices.Clone(d.right)
	at := d.IntN(len(data))
	switch i / 2 % 10 {
	case 0:
		return "truncated", data[:at]
	case 1:
		for range 1 + d.IntN(4) {
			data[d.IntN(len(data))] = byte(d.Uint32())
		}
		return "changed", data
	case 2:
		return "lost", slices.Delete(data, at, min(len(data), at+1+d.IntN(16)))
	case 3:
		return "inserted", slices.Insert(data, at, d.bytes(1+d.IntN(16))...)
	case 4:
		return "another type", d.retyped()
	case 5: // inserts a length up to 2^64-1 at any position
		return "lengths", slices.Insert(data, at, protowire.AppendVarint(nil, d.Uint64()>>d.IntN(64))...)
	case 6:
		return "repeated", slices.Repeat(data[at:], 1+d.IntN(50))
	case 7:
		return "nested", nested(1+d.IntN(100), slices.Repeat([]protowire.Number{protowire.Number(1 + d.IntN(5))}, 1+d.IntN(200))...)
	case 8:
		return "random", d.bytes(d.IntN(300))
	}
	return "status", d.bytes(d.IntN(2000))
}

func (d damager) bytes(n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(d.Uint32())
	}
	return data
}

// retyped returns the valid answer with one random field changed to another wire type. The messages
// around it have correct lengths.
func (d damager) retyped() []byte {
	count := func(message []byte) (n int) {
		walk(message, func(protowire.Number, []byte) []byte { n++; return nil })
		return n
	}
	left := d.IntN(count(d.right))
	return walk(d.right, func(number protowire.Number, _ []byte) []byte {
		if left--; left != -1 {
			return nil
		}
		switch d.IntN(4) {
		case 0:
			return protowire.AppendVarint(protowire.AppendTag(nil, number, protowire.VarintType), d.Uint64()>>d.IntN(64))
		case 1:
			return protowire.AppendFixed32(protowire.AppendTag(nil, number, protowire.Fixed32Type), d.Uint32())
		case 2:
			return protowire.AppendTag(protowire.AppendTag(nil, number, protowire.StartGroupType), number, protowire.EndGroupType)
		}
		return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), d.bytes(d.IntN(40)))
	})
}

// walk visits the fields of a message, and of the fields that can be messages themselves. If
// replace returns a value, it replaces the field.
func walk(message []byte, replace func(number protowire.Number, field []byte) []byte) []byte {
	out := []byte{}
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeField(message)
		if n < 0 {
			return append(out, message...)
		}
		field := message[:n]
		message = message[n:]
		if instead := replace(number, field); instead != nil {
			out = append(out, instead...)
			continue
		}
		if kind == protowire.BytesType {
			_, _, head := protowire.ConsumeTag(field)
			if inner, _ := protowire.ConsumeBytes(field[head:]); isMessage(inner) {
				out = protowire.AppendBytes(protowire.AppendTag(out, number, kind), walk(inner, replace))
				continue
			}
		}
		out = append(out, field...)
	}
	return out
}

func isMessage(data []byte) bool {
	for rest := data; len(rest) > 0; {
		_, _, n := protowire.ConsumeField(rest)
		if n < 0 {
			return false
		}
		rest = rest[n:]
	}
	return len(data) > 0
}
