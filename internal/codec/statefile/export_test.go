package statefile

import "github.com/paddock-project/paddock/internal/core/node"

// EncodeFile exports encode to the tests of this package.
var EncodeFile = encode

// EncodeWithin is like Encode, but with another bound.
func (e *Encoder) EncodeWithin(limit int, s *node.State) ([]byte, error) { return e.within(limit, s) }

// FitsWithin is like Fits, but with another bound.
func (m *Meter) FitsWithin(limit int, s *node.State) error { return m.within(limit, s) }
