// Package grantform has the form of a grant and of a policy: JSON that is the same for the same
// value, as in the state file of an agent (codec/statefile), in the objects that nodes publish, and
// as the input of digests. It is in the core, because package predict reads these objects.
//
// The tables in fields.go have every member with the field of the value that it shows. A member or
// a name of a value that is in no table means that a newer Paddock wrote the text (ErrNewer), and
// any other text that is not as Paddock writes it is damaged (ErrDamaged).
package grantform

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/paddock-project/paddock/internal/core/form"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// The errors for a text that cannot be read. Every error of the functions that decode wraps one of
// them.
var (
	// ErrDamaged means that the text is not as Paddock wrote it.
	ErrDamaged = errors.New("damaged")
	// ErrNewer means that the text is from a Paddock that knows more than this one.
	ErrNewer = errors.New("written by a newer Paddock")
)

// ErrNotEncodable is wrapped by the error for a value that could not be read back.
var ErrNotEncodable = errors.New("cannot be written to a state file")

// EncodePolicy returns a policy as in a file, on one line. As for every part of the form, the same
// policy always has the same bytes. The error wraps ErrNotEncodable.
func EncodePolicy(p node.Policy) ([]byte, error) {
	text, err := PolicyFields.Append(nil, &p)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotEncodable, err)
	}
	return text, nil
}

// DecodePolicy parses the bytes that EncodePolicy returned. The error wraps ErrDamaged or ErrNewer.
func DecodePolicy(data []byte) (node.Policy, error) {
	var p node.Policy
	if err := PolicyFields.Read(data, &p); err != nil {
		return node.Policy{}, fmt.Errorf("the policy is %w", KindOf(err))
	}
	return p, compareParts("the policy", data, func() ([]byte, error) { return EncodePolicy(p) })
}

// Encode returns a grant as in a file, on one line. The error wraps ErrNotEncodable.
func Encode(g *node.Grant) ([]byte, error) {
	text, err := Append(nil, g)
	if err != nil {
		return nil, err
	}
	return bytes.ReplaceAll(text, []byte("\n "), nil), nil // Line feeds inside strings are escaped.
}

// Decode parses the bytes that Encode returned. It does not check whether the grant is valid on a
// machine; node.Restore and node.Adopt do. The error wraps ErrDamaged or ErrNewer.
func Decode(data []byte) (*node.Grant, error) {
	g := &node.Grant{}
	if err := GrantFields.Read(data, g); err != nil {
		return nil, fmt.Errorf("the grant of pod %s is %w", g.Pod.ID(), KindOf(err))
	}
	Complete(g)
	if g.Sequence > node.MaxGeneration {
		return nil, fmt.Errorf("the grant of pod %s is %w: it has number %d, and the last one is %d", g.Pod.ID(), ErrDamaged, g.Sequence, uint64(node.MaxGeneration))
	}
	if err := compareParts("the grant of pod "+g.Pod.ID(), data, func() ([]byte, error) { return Encode(g) }); err != nil {
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

// Append appends the line of one pod in a state file to b and returns the extended slice. The line
// depends only on the grant and can be cached with it. The error wraps ErrNotEncodable.
func Append(b []byte, g *node.Grant) ([]byte, error) {
	out, err := b, whole(g)
	if err == nil {
		out, err = GrantFields.Append(b, g)
	}
	if err != nil {
		return b, fmt.Errorf("pod %s: %w: %w", g.Pod.ID(), ErrNotEncodable, err)
	}
	return out, nil
}

// whole returns an error if the number of containers of a grant, or of the place to which its pod
// is being moved, differs from that of its request.
func whole(g *node.Grant) error {
	if len(g.Containers) != len(g.Pod.Containers) {
		return fmt.Errorf("containers %d, the pod has %d", len(g.Containers), len(g.Pod.Containers))
	}
	if to := g.Moving; to != nil && (len(to.Containers) != len(g.Containers) || to.Moving != nil) {
		return fmt.Errorf("moving to a place with %d containers, the pod has %d", len(to.Containers), len(g.Containers))
	}
	return nil
}

// KindOf returns an error of package form as ErrNewer or ErrDamaged.
func KindOf(err error) error {
	if errors.Is(err, form.ErrUnknown) {
		return fmt.Errorf("%w: %w", ErrNewer, err)
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

// Complete fills in what the place to which a pod is being moved has in common with the grant.
func Complete(g *node.Grant) {
	if to := g.Moving; to != nil {
		to.Pod, to.Sequence, to.Resized = g.Pod, g.Sequence, g.Resized
	}
}

func amountsOf(m map[string]int64) request.Amounts {
	var list request.Amounts
	for _, resource := range slices.Sorted(maps.Keys(m)) {
		list = append(list, request.Amount{Resource: resource, Value: m[resource]})
	}
	return list
}
