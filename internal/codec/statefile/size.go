package statefile

import (
	"fmt"

	"github.com/paddock-project/paddock/internal/core/grantform"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
)

// Meter reports whether the states of a node, one after another, can be written, without writing
// them. A decision that cannot be written is thus detected before anything else builds on it. A
// Meter caches the length of each grant, so an admission costs only the encoding of the new pod.
// The zero value is ready for use. All states must have the same policy. A Meter is not safe for
// concurrent use.
type Meter struct {
	machine *machine.Machine
	head    Head
	kept    map[*node.Grant]int
	scratch []byte
}

// Fits returns the error that Encode would return. It wraps ErrTooLarge or ErrNotEncodable.
func (m *Meter) Fits(s *node.State) error { return m.within(MaxSize, s) }

func (m *Meter) within(limit int, s *node.State) (err error) {
	if m.machine != s.Machine() {
		if m.head, err = NewHead(s.Machine(), s.Policy()); err != nil {
			return err
		}
		m.machine = s.Machine()
	}
	next := make(map[*node.Grant]int, s.NumGrants())
	total := newSize(m.head)
	for g := range s.AllGrants() {
		if err := checkSequence(g, s); err != nil {
			return err
		}
		n, known := m.kept[g]
		if !known {
			if m.scratch, err = grantform.Append(m.scratch[:0], g); err != nil {
				return err
			}
			n = len(m.scratch)
		}
		next[g] = n
		total.add(g, n)
	}
	if err := total.check(limit); err != nil {
		return err
	}
	m.kept = next
	return nil
}

// checkSequence rejects a grant with a sequence number that its state has not reached, as Decode
// would.
func checkSequence(g *node.Grant, s *node.State) error {
	if latest := max(g.Sequence, g.Resized); latest > s.Generation() {
		return fmt.Errorf("pod %s: %w: sequence %d in a state of revision %d", g.Pod.ID(), ErrNotEncodable, latest, s.Generation())
	}
	return nil
}

const (
	// frame is an upper bound for the bytes of a file besides its magic, its head and its grants:
	// the longest generation, the names of the members and the checksum.
	frame = checksumLine + 100
	// between is the length of the separator of two grants: a comma and a line feed.
	between = 2
	// removed is the number of bytes that the removal of a container adds to its grant. Every other
	// change without an admission makes a grant shorter. This space is reserved, so that a removal
	// can always be written.
	removed = len(`,"removed":true`)
)

// size is the number of bytes that a state needs, now and after any removal.
type size struct {
	bytes, containers int
	largest           *node.Grant
	most              int // the bytes of the largest grant
}

func newSize(h Head) size { return size{bytes: len(magic) + len(h.text) + frame} }

func (z *size) add(g *node.Grant, bytes int) {
	z.bytes += bytes + between
	places := 1
	if g.Moving != nil {
		places = 2
	}
	for i := range g.Containers {
		if !g.Containers[i].Removed {
			z.bytes += places * removed
		}
	}
	z.containers += len(g.Containers)
	if bytes > z.most {
		z.largest, z.most = g, bytes
	}
}

// check returns an error if the state exceeds limit. The error names the largest pod, because a
// node with ordinary pods is far below the bound.
func (z *size) check(limit int) error {
	switch {
	case z.bytes <= limit:
		return nil
	case z.largest == nil:
		return fmt.Errorf("%w: the machine and the policy alone need %d bytes, and a state file has at most %d", ErrTooLarge, z.bytes, limit)
	}
	return fmt.Errorf("%w: its %d containers need %d bytes, and a state file has at most %d; the largest pod is %s with %d containers and %d bytes: "+
		"run it with fewer containers, or on another node",
		ErrTooLarge, z.containers, z.bytes, limit, z.largest.Pod.ID(), len(z.largest.Containers), z.most)
}
