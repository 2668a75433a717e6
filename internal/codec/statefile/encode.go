package statefile

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/paddock-project/paddock/internal/core/grantform"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
)

const (
	magic          = `{"format":"paddock-state","version":`
	checksumBefore = `"checksum":"sha256:`
	checksumAfter  = "\"}\n"
	checksumLine   = len(checksumBefore) + 2*sha256.Size + len(checksumAfter)
)

// Encode returns the bytes of a state, from which Decode restores the same state. For a sequence of
// states, an Encoder is cheaper. The error wraps ErrTooLarge, or ErrNotEncodable if a grant has
// something that no valid node.State has, such as a name that is not UTF-8; it then names the pod.
func Encode(s *node.State) ([]byte, error) {
	var e Encoder
	return e.Encode(s)
}

// encode returns the bytes of a file of any size.
func encode(f *File) ([]byte, error) {
	head, err := newHead(f.Machine, f.Policy)
	if err != nil {
		return nil, err
	}
	buffer := make([]byte, 0, 2048*len(f.Grants))
	grants := make([][]byte, len(f.Grants))
	for i, g := range f.Grants {
		start := len(buffer)
		if buffer, err = grantform.Append(buffer, g); err != nil {
			return nil, err
		}
		grants[i] = buffer[start:]
	}
	return Assemble(head, f.Generation, grants), nil
}

// Head is the encoded part of a file about the machine and the policy. It stays the same until one
// of them changes.
type Head struct{ text []byte }

// NewHead encodes the part of a file about the machine and the policy. The error wraps
// ErrNotEncodable.
func NewHead(m *machine.Machine, p node.Policy) (Head, error) { return newHead(Describe(m, p), p) }

func newHead(m Machine, p node.Policy) (Head, error) {
	b, err := machineFields.Append([]byte(`"machine":`), &m)
	if err == nil {
		b, err = grantform.PolicyFields.Append(append(b, ",\n\"policy\":"...), &p)
	}
	if err != nil {
		return Head{}, fmt.Errorf("%w: %w", ErrNotEncodable, err)
	}
	return Head{b}, nil
}

// Assemble returns a file that consists of a head and of pods in the form of grantform.Append. The
// pods must be in ascending order of UID.
func Assemble(h Head, generation uint64, grants [][]byte) []byte {
	size := len(magic) + len(h.text) + checksumLine + 100
	for _, g := range grants {
		size += len(g) + 2
	}
	b := fmt.Appendf(make([]byte, 0, size), "%s%d,\"generation\":%d,\n%s,\n\"grants\":[", magic, Version, generation, h.text)
	for i, g := range grants {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, '\n'), g...)
	}
	b = append(b, "],\n"...)
	sum := sha256.Sum256(b)
	b = append(b, checksumBefore...)
	b = hex.AppendEncode(b, sum[:])
	return append(b, checksumAfter...)
}
