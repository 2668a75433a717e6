package statefile

import (
	"github.com/paddock-project/paddock/internal/core/grantform"
	"github.com/paddock-project/paddock/internal/core/node"
)

// Encoder encodes the states of a node one after the other. It caches the bytes of each grant,
// because grants are immutable and most of them are in the next state too. The zero value is ready
// for use. An Encoder is not safe for concurrent use.
type Encoder struct{ kept map[*node.Grant][]byte }

// Encode returns the same bytes and errors as the function Encode.
func (e *Encoder) Encode(s *node.State) ([]byte, error) { return e.within(MaxSize, s) }

// within encodes a state that needs no more than limit bytes, now and after any removal.
func (e *Encoder) within(limit int, s *node.State) ([]byte, error) {
	head, err := NewHead(s.Machine(), s.Policy())
	if err != nil {
		return nil, err
	}
	next := make(map[*node.Grant][]byte, s.NumGrants())
	grants := make([][]byte, s.NumGrants())
	size := newSize(head)
	for i, g := range s.Grants() {
		if err := checkSequence(g, s); err != nil {
			return nil, err
		}
		text, known := e.kept[g]
		if !known {
			if text, err = grantform.Append(nil, g); err != nil {
				return nil, err
			}
		}
		grants[i], next[g] = text, text
		size.add(g, len(text))
	}
	if err := size.check(limit); err != nil {
		return nil, err
	}
	e.kept = next
	return Assemble(head, s.Generation(), grants), nil
}
