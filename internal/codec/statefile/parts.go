package statefile

import (
	"bytes"
	"fmt"

	"github.com/paddock-project/paddock/internal/core/node"
)

// EncodePolicy returns a policy as in a file, on one line. As for every part of the form, the same
// policy always has the same bytes. The error wraps ErrNotEncodable.
func EncodePolicy(p node.Policy) ([]byte, error) {
	text, err := policyFields.Append(nil, &p)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotEncodable, err)
	}
	return text, nil
}

// DecodePolicy parses the bytes that EncodePolicy returned. The error wraps ErrDamaged or ErrNewer.
func DecodePolicy(data []byte) (node.Policy, error) {
	var p node.Policy
	if err := policyFields.Read(data, &p); err != nil {
		return node.Policy{}, fmt.Errorf("the policy is %w", kindOf(err))
	}
	return p, compareParts("the policy", data, func() ([]byte, error) { return EncodePolicy(p) })
}

// EncodeGrant returns a grant as in a file, on one line. The error wraps ErrNotEncodable.
func EncodeGrant(g *node.Grant) ([]byte, error) {
	text, err := AppendGrant(nil, g)
	if err != nil {
		return nil, err
	}
	return bytes.ReplaceAll(text, []byte("\n "), nil), nil // Line feeds inside strings are escaped.
}

// DecodeGrant parses the bytes that EncodeGrant returned. It does not check whether the grant is
// valid on a machine; node.Restore and node.Adopt do. The error wraps ErrDamaged or ErrNewer.
func DecodeGrant(data []byte) (*node.Grant, error) {
	g := &node.Grant{}
	if err := podFields.Read(data, g); err != nil {
		return nil, fmt.Errorf("the grant of pod %s is %w", g.Pod.ID(), kindOf(err))
	}
	complete(g)
	if g.Sequence > node.MaxGeneration {
		return nil, fmt.Errorf("the grant of pod %s is %w: it has number %d, and the last one is %d", g.Pod.ID(), ErrDamaged, g.Sequence, uint64(node.MaxGeneration))
	}
	if err := compareParts("the grant of pod "+g.Pod.ID(), data, func() ([]byte, error) { return EncodeGrant(g) }); err != nil {
		return nil, err
	}
	return g, nil
}

// compareParts encodes a part again and compares the bytes. This proves that order, form and range
// are valid.
func compareParts(what string, data []byte, encode func() ([]byte, error)) error {
	again, err := encode()
	if err != nil {
		return fmt.Errorf("%s is %w: %w", what, ErrDamaged, err)
	}
	if !bytes.Equal(again, data) {
		return fmt.Errorf("%s is %w: it is not written as Paddock writes it", what, ErrDamaged)
	}
	return nil
}
