package handover

import (
	"github.com/paddock-project/paddock/internal/core/annotation"
	"github.com/paddock-project/paddock/internal/core/node"
)

const (
	// Annotation is the key of the annotation.
	Annotation = annotation.Key
	// Version is the version that Encode writes and the only version that Decode reads.
	Version = annotation.Version
	// MaxSize is the maximum size of a text in bytes.
	MaxSize = annotation.MaxSize
)

// The errors of Decode and Encode.
var (
	ErrVersion      = annotation.ErrVersion
	ErrTooLarge     = annotation.ErrTooLarge
	ErrDamaged      = annotation.ErrDamaged
	ErrNotEncodable = annotation.ErrNotEncodable
)

// Text is the content of an annotation.
type Text = annotation.Text

// Encode is annotation.Encode.
func Encode(nodeName, machine, policy string, g *node.Grant) (string, error) {
	return annotation.Encode(nodeName, machine, policy, g)
}

// Decode is annotation.Decode.
func Decode(data string) (*Text, error) { return annotation.Decode(data) }

// PolicyDigest is annotation.PolicyDigest.
func PolicyDigest(p node.Policy) (string, error) { return annotation.PolicyDigest(p) }
