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

// Encode writes a state; for one state after the other, an Encoder costs less. What it returns is
// read by Decode as the same state. The error wraps ErrNotEncodable and names the pod whose grant
// has something that no node.State has, such as a name that is not UTF-8, or ErrTooLarge.
func Encode(s *node.State) ([]byte, error) {
	var e Encoder
	return e.Encode(s)
}

// encode writes a file, whatever its size.
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

// Head is the part of a file about the machine and the policy. It is the same for as long as they
// are.
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

// AppendGrant appends the line of one pod to b and returns the longer slice: it depends
// on nothing but the grant and can be kept with it. The error wraps ErrNotEncodable.
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

// Assemble makes a file of a head and of the pods as AppendGrant writes them, which must ascend
// by UID.
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

// appendLines appends head, whose last member is an empty list, with the elements of the list, each
// on a line of its own.
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

// appendJSON appends a value of the form on one line.
func appendJSON(b []byte, value any) []byte {
	out := bytes.NewBuffer(b)
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		panic("statefile: " + err.Error()) // There is no type in the form that JSON does not have.
	}
	line := out.Bytes()[len(b) : out.Len()-1]
	if bytes.IndexByte(line, '\\') < 0 {
		return out.Bytes()[:out.Len()-1]
	}
	return append(b, spelling.Replace(string(line))...)
}

// spelling is how the form differs from encoding/json: a control character is always its number,
// and U+2028 and U+2029 are characters as others are. Backslashes and quotes are the same in both;
// the backslash is here so that what follows an escaped one is no escape.
var spelling = strings.NewReplacer(`\\`, `\\`, `\b`, `\u0008`, `\t`, `\u0009`, `\n`, `\u000a`, `\f`, `\u000c`, `\r`, `\u000d`,
	`\u2028`, "\u2028", `\u2029`, "\u2029")
