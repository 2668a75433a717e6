package statefile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
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
		if buffer, err = AppendGrant(buffer, g); err != nil {
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
func NewHead(m *machine.Machine, p node.Policy) (Head, error) { return newHead(Describe(m), p) }

func newHead(m Machine, p node.Policy) (Head, error) {
	var w writer
	machine := machineText{CPUs: m.CPUs.String(), Nodes: []nodeText{}}
	nodes := make([]nodeText, len(m.Nodes))
	for i, n := range m.Nodes {
		nodes[i] = nodeText{ID: n.ID, CPUs: n.CPUs.String(), Memory: w.amounts("memory", n.Memory)}
	}
	b := appendLines([]byte(`"machine":`), &machine, nodes)
	return Head{appendJSON(append(b, ",\n\"policy\":"...), w.policy(p))}, w.err
}

func amountsOf(m map[string]int64) request.Amounts {
	var list request.Amounts
	for _, resource := range slices.Sorted(maps.Keys(m)) {
		list = append(list, request.Amount{Resource: resource, Value: m[resource]})
	}
	return list
}

// AppendGrant appends the line of one pod to b and returns the extended slice. The line depends
// only on the grant and can be cached with it. The error wraps ErrNotEncodable.
func AppendGrant(b []byte, g *node.Grant) ([]byte, error) {
	var w writer
	pod := w.pod(g)
	if w.err != nil {
		return b, fmt.Errorf("pod %s: %w", g.Pod.ID(), w.err)
	}
	containers := pod.Containers
	pod.Containers = []containerText{}
	return appendLines(b, pod, containers), nil
}

// Assemble returns a file that consists of a head and of pods in the form of AppendGrant. The pods
// must be in ascending order of UID.
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

// appendLines appends head, whose last member is an empty list, and inserts the elements of list
// into that list, each on its own line.
func appendLines[T any](b []byte, head any, list []T) []byte {
	const end = "]}"
	b = appendJSON(b, head)
	b = b[:len(b)-len(end)]
	for i := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendJSON(append(b, "\n "...), &list[i])
	}
	return append(b, end...)
}

// appendJSON appends a value of the form as one line.
func appendJSON(b []byte, value any) []byte {
	out := bytes.NewBuffer(b)
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		panic("statefile: " + err.Error()) // Every type in the form can be encoded as JSON.
	}
	line := out.Bytes()[len(b) : out.Len()-1]
	if bytes.IndexByte(line, '\\') < 0 {
		return out.Bytes()[:out.Len()-1]
	}
	return append(b, spelling.Replace(string(line))...)
}

// spelling changes the escapes of encoding/json to those of the form: a control character is always
// escaped by its number, and U+2028 and U+2029 are not escaped. Backslashes and quotes are the same
// in both. The list has the backslash so that the text after an escaped backslash is not mistaken
// for an escape.
var spelling = strings.NewReplacer(`\\`, `\\`, `\b`, `\u0008`, `\t`, `\u0009`, `\n`, `\u000a`, `\f`, `\u000c`, `\r`, `\u000d`,
	`\u2028`, "\u2028", `\u2029`, "\u2029")
