package statefile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/paddock-project/paddock/internal/core/node"
)

// EncodePolicy is a policy as a file has it, on one line. Like every part of the form the same
// policy always has the same bytes. The error wraps ErrNotEncodable.
func EncodePolicy(p node.Policy) ([]byte, error) {
	var w writer
	text := w.policy(p)
	if w.err != nil {
		return nil, w.err
	}
	return appendJSON(nil, text), nil
}

// DecodePolicy reads what EncodePolicy wrote. The error wraps ErrDamaged or ErrNewer.
func DecodePolicy(data []byte) (node.Policy, error) {
	var text policyText
	if err := decodePart(data, &text); err != nil {
		return node.Policy{}, fmt.Errorf("the policy is %w", err)
	}
	var r reader
	p := text.policy(&r)
	if r.err != nil {
		return node.Policy{}, fmt.Errorf("the policy is %w", r.err)
	}
	return p, compareParts("the policy", data, func() ([]byte, error) { return EncodePolicy(p) })
}

// EncodeGrant is a grant as a file has it, on one line. The error wraps ErrNotEncodable.
func EncodeGrant(g *node.Grant) ([]byte, error) {
	text, err := AppendGrant(nil, g)
	if err != nil {
		return nil, err
	}
	return bytes.ReplaceAll(text, []byte("\n "), nil), nil // A line feed is never inside a string, where it is escaped.
}

// DecodeGrant reads what EncodeGrant wrote. Whether the grant is valid on a machine is for
// node.Restore and node.Adopt to check. The error wraps ErrDamaged or ErrNewer.
func DecodeGrant(data []byte) (*node.Grant, error) {
	var text podText
	if err := decodePart(data, &text); err != nil {
		return nil, fmt.Errorf("the grant is %w", err)
	}
	var r reader
	g := text.grant(&r)
	if r.err != nil {
		return nil, fmt.Errorf("the grant of pod %s is %w", g.Pod.ID(), r.err)
	}
	if g.Sequence > node.MaxGeneration {
		return nil, fmt.Errorf("the grant of pod %s is %w: it has number %d, and the last one is %d", g.Pod.ID(), ErrDamaged, g.Sequence, uint64(node.MaxGeneration))
	}
	if err := compareParts("the grant of pod "+g.Pod.ID(), data, func() ([]byte, error) { return EncodeGrant(g) }); err != nil {
		return nil, err
	}
	return g, nil
}

// decodePart reads one JSON value with nothing after it.
func decodePart(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		if _, member, unknown := strings.Cut(err.Error(), "unknown field "); unknown {
			return fmt.Errorf("%w: it has a member %s that this one does not know", ErrNewer, member)
		}
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return nil
}

// compareParts writes a part again, which proves order, form and range.
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
