// Package mask provides sets of NUMA nodes.
//
// A Mask is a value of 64 bits: bit n is the NUMA node with id n (R-HINT-1). Ids of 64 and above
// cannot be represented. machine.New rejects them, so no other package has to.
package mask

import (
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"strconv"
	"strings"
)

// MaxNode is the largest NUMA node id that a Mask can have.
const MaxNode = 63

// ErrSyntax is wrapped by every error that Parse returns.
var ErrSyntax = errors.New("not a set of NUMA nodes")

// Mask is a set of NUMA node ids 0..63. The zero value is the empty set.
type Mask uint64

// Of returns the set of the given ids. It panics for ids outside 0..63, because ids reach this
// package only through a machine, which has checked them.
func Of(nodes ...int) Mask {
	var m Mask
	for _, n := range nodes {
		m = m.With(n)
	}
	return m
}

// Collect is Of for ids from outside. The error names the first id that is not a NUMA node's.
func Collect[N int | int32](ids []N) (Mask, error) {
	var m Mask
	for _, n := range ids {
		if n < 0 || n > MaxNode {
			return 0, fmt.Errorf("NUMA node %d is outside 0 to %d", n, MaxNode)
		}
		m = m.With(int(n))
	}
	return m, nil
}

// With returns m with n added. It panics for n outside 0..63.
func (m Mask) With(n int) Mask {
	if n < 0 || n > MaxNode {
		panic("mask: NUMA node " + strconv.Itoa(n) + " is outside 0..63")
	}
	return m | 1<<uint(n)
}

// Without returns m with n removed.
func (m Mask) Without(n int) Mask { return m &^ (1 << uint(n)) }

// Has reports whether n is in m. It returns false for ids outside 0..63.
func (m Mask) Has(n int) bool { return n >= 0 && n <= MaxNode && m>>uint(n)&1 == 1 }

// Len returns the number of NUMA nodes in m.
func (m Mask) Len() int { return bits.OnesCount64(uint64(m)) }

// IsEmpty reports whether m has no NUMA node.
func (m Mask) IsEmpty() bool { return m == 0 }

// Contains reports whether every NUMA node of sub is in m.
func (m Mask) Contains(sub Mask) bool { return sub&^m == 0 }

// Lowest returns the smallest id in m, or -1 for the empty set.
func (m Mask) Lowest() int {
	if m == 0 {
		return -1
	}
	return bits.TrailingZeros64(uint64(m))
}

// Highest returns the largest id in m, or -1 for the empty set.
func (m Mask) Highest() int { return 63 - bits.LeadingZeros64(uint64(m)) }

// First returns the n lowest ids of m, or all of m if it has fewer.
func (m Mask) First(n int) Mask {
	rest := m
	for range n {
		rest &= rest - 1
	}
	return m &^ rest
}

// All yields the ids of m in ascending order.
func (m Mask) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for rest := m; rest != 0; rest &= rest - 1 {
			if !yield(bits.TrailingZeros64(uint64(rest))) {
				return
			}
		}
	}
}

// Nodes returns the ids of m in ascending order, never nil.
func (m Mask) Nodes() []int {
	nodes := make([]int, 0, m.Len())
	for n := range m.All() {
		nodes = append(nodes, n)
	}
	return nodes
}

// NarrowerThan reports whether m comes before other in the order of hints without distances: fewer
// NUMA nodes first, then the smaller number (R-HINT-2). {1,2} is narrower than {0,3}, although 0 is
// the lower id.
func (m Mask) NarrowerThan(other Mask) bool {
	if a, b := m.Len(), other.Len(); a != b {
		return a < b
	}
	return m < other
}

// String returns the list form, such as "{0,2-3}", and "{}" for the empty set. Parse parses it.
func (m Mask) String() string {
	var b strings.Builder
	b.WriteByte('{')
	for rest := m; rest != 0; {
		first := bits.TrailingZeros64(uint64(rest))
		last := first
		for last < MaxNode && rest.Has(last+1) {
			last++
		}
		for n := first; n <= last; n++ {
			rest = rest.Without(n)
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(first))
		if last > first {
			b.WriteByte('-')
			b.WriteString(strconv.Itoa(last))
		}
	}
	b.WriteByte('}')
	return b.String()
}

// List returns the set as a list in the form of cpuset(7), such as "0,2-3", and "" for the empty
// set. Parse parses it.
func (m Mask) List() string { return strings.Trim(m.String(), "{}") }

// Text returns the set in words, such as "NUMA node 2" and "NUMA nodes 0,2-3".
func (m Mask) Text() string {
	switch m.Len() {
	case 0:
		return "no NUMA node"
	case 1:
		return "NUMA node " + m.List()
	}
	return "NUMA nodes " + m.List()
}

// Parse parses the form that String returns. The braces are optional.
func Parse(text string) (Mask, error) {
	list := text
	if strings.HasPrefix(list, "{") && strings.HasSuffix(list, "}") {
		list = list[1 : len(list)-1]
	}
	var m Mask
	if list == "" {
		return m, nil
	}
	for part := range strings.SplitSeq(list, ",") {
		low, high, isRange := strings.Cut(part, "-")
		first, err := parseNode(low)
		if err != nil && part == text {
			return 0, fmt.Errorf("%w: %q: %w", ErrSyntax, text, err)
		}
		if err != nil {
			return 0, fmt.Errorf("%w: %q: %q: %w", ErrSyntax, text, part, err)
		}
		last := first
		if isRange {
			if last, err = parseNode(high); err != nil {
				return 0, fmt.Errorf("%w: %q: %q: %w", ErrSyntax, text, part, err)
			}
		}
		if last < first {
			return 0, fmt.Errorf("%w: %q: range %q runs backwards", ErrSyntax, text, part)
		}
		for n := first; n <= last; n++ {
			m = m.With(n)
		}
	}
	return m, nil
}

func parseNode(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 8)
	if err != nil {
		return 0, errors.New("expected a NUMA node id from 0 to 63")
	}
	if n > MaxNode {
		return 0, errors.New("NUMA node ids end at 63")
	}
	return int(n), nil
}

// Words returns the NUMA nodes as in a sentence: "NUMA node 1", "NUMA nodes 0-1".
func (m Mask) Words() string { return string(m.AppendWords(nil)) }

// AppendWords appends Words to b.
func (m Mask) AppendWords(b []byte) []byte {
	if m.Len() == 1 {
		return strconv.AppendInt(append(b, "NUMA node "...), int64(m.Lowest()), 10)
	}
	return append(append(b, "NUMA nodes "...), m.List()...)
}

// Count returns a number of NUMA nodes as in a sentence: "1 NUMA node", "2 NUMA nodes".
func Count(n int) string {
	if n == 1 {
		return "1 NUMA node"
	}
	return strconv.Itoa(n) + " NUMA nodes"
}
