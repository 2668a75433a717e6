package statefile

import (
	"github.com/paddock-project/paddock/internal/core/node"
)

// Encoder writes the states of a node one after the other. It keeps what it wrote of each grant:
// grants do not change, and most are in the next state too. The zero value is ready; it is not
// safe for use by several goroutines at once.
type Encoder struct{ kept map[*node.Grant][]byte }

// Encode writes a state with the same bytes and errors as the function Encode.
func (e *Encoder) Encode(s *node.State) ([]byte, error) { return e.within(MaxSize, s) }

// within writes a state that needs no more than limit bytes, now and after whatever leaves it.
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
			if text, err = AppendGrant(nil, g); err != nil {
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
