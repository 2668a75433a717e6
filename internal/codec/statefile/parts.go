package statefile

import (
	"github.com/paddock-project/paddock/internal/core/grantform"
	"github.com/paddock-project/paddock/internal/core/node"
)

// EncodePolicy returns a policy as in a file: grantform.EncodePolicy.
func EncodePolicy(p node.Policy) ([]byte, error) { return grantform.EncodePolicy(p) }

// DecodePolicy parses the bytes that EncodePolicy returned.
func DecodePolicy(data []byte) (node.Policy, error) { return grantform.DecodePolicy(data) }

// EncodeGrant returns a grant as in a file, on one line: grantform.Encode.
func EncodeGrant(g *node.Grant) ([]byte, error) { return grantform.Encode(g) }

// DecodeGrant parses the bytes that EncodeGrant returned.
func DecodeGrant(data []byte) (*node.Grant, error) { return grantform.Decode(data) }

// AppendGrant appends the line of one pod to b: grantform.Append.
func AppendGrant(b []byte, g *node.Grant) ([]byte, error) { return grantform.Append(b, g) }
