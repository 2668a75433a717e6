// Package cpuset provides sets of CPUs as bit sets.
//
// A Set is a value: no method changes its receiver, and sets that share memory do not affect each
// other. The text form is the kernel's list format (cpuset(7), "0-3,8"), as Kubernetes writes it:
// ascending, with ranges for runs of two or more CPUs, and empty for the empty set (R-ST-11).
package cpuset

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// MaxID is the largest CPU id that is accepted. It is well above the 8192 CPUs that Linux supports
// today, and small enough that a hostile "0-4000000000" costs nothing.
const MaxID = 1<<16 - 1

// ErrSyntax is wrapped by every error that Parse returns.
var ErrSyntax = errors.New("not a set of CPUs")

const wordBits = 64

// Set is an immutable set of CPU ids 0..MaxID. The zero value is the empty set.
// Sets are compared with Equal.
type Set struct {
	// CPU n is bit n%64 of word n/64. The last word is never 0, so equal sets have equal words.
	words []uint64
}

// Of returns the set of the given ids. It panics for ids outside 0..MaxID.
func Of(ids ...int) Set {
	var b Builder
	for _, id := range ids {
		b.Add(id)
	}
	return b.Set()
}

// Builder collects ids for a Set. The zero value is ready to use.
type Builder struct{ words []uint64 }

// Add adds id to the set that is built. It panics for ids outside 0..MaxID.
func (b *Builder) Add(id int) {
	if id < 0 || id > MaxID {
		panic("cpuset: CPU " + strconv.Itoa(id) + " is outside 0.." + strconv.Itoa(MaxID))
	}
	b.grow(id/wordBits + 1)
	b.words[id/wordBits] |= 1 << (id % wordBits)
}

func (b *Builder) grow(words int) {
	if missing := words - len(b.words); missing > 0 {
		b.words = append(b.words, make([]uint64, missing)...)
	}
}

// addRange adds first..last word by word, so that a list that repeats "0-65535" costs little.
func (b *Builder) addRange(first, last int) {
	if last < first {
		return
	}
	b.Add(first)
	b.Add(last)
	low, high := first/wordBits, last/wordBits
	from, to := ^uint64(0)<<(first%wordBits), ^uint64(0)>>(wordBits-1-last%wordBits)
	if low == high {
		b.words[low] |= from & to
		return
	}
	b.words[low] |= from
	for i := low + 1; i < high; i++ {
		b.words[i] = ^uint64(0)
	}
	b.words[high] |= to
}

// AddSet adds all CPUs of s to the set that is built.
func (b *Builder) AddSet(s Set) {
	b.grow(len(s.words))
	for i, w := range s.words {
		b.words[i] |= w
	}
}

// Set returns the set of the added CPUs and leaves the builder empty.
func (b *Builder) Set() Set {
	words := b.words
	b.words = nil
	return Set{trim(words)}
}

func trim(words []uint64) []uint64 {
	n := len(words)
	for n > 0 && words[n-1] == 0 {
		n--
	}
	return words[:n:n]
}

// Len returns the number of CPUs in s.
func (s Set) Len() int {
	n := 0
	for _, w := range s.words {
		n += bits.OnesCount64(w)
	}
	return n
}

// IsEmpty reports whether s has no CPU.
func (s Set) IsEmpty() bool { return len(s.words) == 0 }

// Has reports whether CPU id is in s.
func (s Set) Has(id int) bool {
	return id >= 0 && id/wordBits < len(s.words) && s.words[id/wordBits]>>(id%wordBits)&1 == 1
}

// Equal reports whether both sets have the same CPUs.
func (s Set) Equal(t Set) bool { return slices.Equal(s.words, t.words) }

// Contains reports whether every CPU of sub is in s.
func (s Set) Contains(sub Set) bool {
	if len(sub.words) > len(s.words) {
		return false
	}
	for i, w := range sub.words {
		if w&^s.words[i] != 0 {
			return false
		}
	}
	return true
}

// Intersects reports whether the sets have a CPU in common.
func (s Set) Intersects(t Set) bool {
	for i := range min(len(s.words), len(t.words)) {
		if s.words[i]&t.words[i] != 0 {
			return true
		}
	}
	return false
}

// Union returns the CPUs that are in s or in t.
func (s Set) Union(t Set) Set {
	if len(t.words) > len(s.words) {
		s, t = t, s
	}
	if len(t.words) == 0 {
		return s
	}
	words := slices.Clone(s.words)
	for i, w := range t.words {
		words[i] |= w
	}
	return Set{words}
}

// Intersection returns the CPUs of s that are in t.
func (s Set) Intersection(t Set) Set {
	if t.Contains(s) {
		return s
	}
	words := make([]uint64, min(len(s.words), len(t.words)))
	for i := range words {
		words[i] = s.words[i] & t.words[i]
	}
	return Set{trim(words)}
}

// Difference returns the CPUs of s that are not in t.
func (s Set) Difference(t Set) Set {
	if !s.Intersects(t) {
		return s
	}
	words := slices.Clone(s.words)
	for i := range min(len(s.words), len(t.words)) {
		words[i] &^= t.words[i]
	}
	return Set{trim(words)}
}

// IntersectionLen returns Intersection(t).Len() without allocating the set.
func (s Set) IntersectionLen(t Set) int {
	n := 0
	for i := range min(len(s.words), len(t.words)) {
		n += bits.OnesCount64(s.words[i] & t.words[i])
	}
	return n
}

// Lowest returns the smallest id in s, or -1 for the empty set.
func (s Set) Lowest() int {
	for i, w := range s.words {
		if w != 0 {
			return i*wordBits + bits.TrailingZeros64(w)
		}
	}
	return -1
}

// Highest returns the largest id in s, or -1 for the empty set.
func (s Set) Highest() int {
	n := len(s.words)
	if n == 0 {
		return -1
	}
	return n*wordBits - 1 - bits.LeadingZeros64(s.words[n-1])
}

// All yields the ids of s in ascending order.
func (s Set) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, w := range s.words {
			for ; w != 0; w &= w - 1 {
				if !yield(i*wordBits + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}

// IDs returns the ids of s in ascending order, never nil.
func (s Set) IDs() []int {
	ids := make([]int, 0, s.Len())
	for id := range s.All() {
		ids = append(ids, id)
	}
	return ids
}

// String returns the list format, such as "0-3,8". Parse parses it.
func (s Set) String() string { return string(s.Append(nil)) }

// Append appends the list format to b, without quotes, and returns the extended slice.
func (s Set) Append(b []byte) []byte {
	start := len(b)
	for first := s.next(0, 0); first >= 0; {
		end := s.next(first, ^uint64(0))
		if end < 0 {
			end = len(s.words) * wordBits
		}
		if len(b) > start {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(first), 10)
		if end-1 > first {
			b = append(b, '-')
			b = strconv.AppendInt(b, int64(end-1), 10)
		}
		first = s.next(end, 0)
	}
	return b
}

// AppendKey appends bytes that are the same for two sets exactly if they are Equal. No key is the
// beginning of another one.
func (s Set) AppendKey(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(s.words)))
	for _, w := range s.words {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

// next returns the first id at or after id that is in s or, if flip has all bits set, that is not
// in s. It returns -1 if there is none before the end of the words.
func (s Set) next(id int, flip uint64) int {
	for i := id / wordBits; i < len(s.words); i++ {
		w := s.words[i] ^ flip
		if i == id/wordBits {
			w &= ^uint64(0) << (id % wordBits)
		}
		if w != 0 {
			return i*wordBits + bits.TrailingZeros64(w)
		}
	}
	return -1
}

// Parse parses the list format. Elements may overlap and be in any order. Blanks, backward ranges
// and ids above MaxID are errors, which name the element.
func Parse(text string) (Set, error) {
	var b Builder
	if text == "" {
		return Set{}, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		low, high, isRange := strings.Cut(part, "-")
		first, err := parseID(low)
		if err != nil {
			return Set{}, fmt.Errorf("%w: %q: element %q: %w", ErrSyntax, text, part, err)
		}
		last := first
		if isRange {
			if last, err = parseID(high); err != nil {
				return Set{}, fmt.Errorf("%w: %q: element %q: %w", ErrSyntax, text, part, err)
			}
		}
		if last < first {
			return Set{}, fmt.Errorf("%w: %q: range %q runs backwards", ErrSyntax, text, part)
		}
		b.addRange(first, last)
	}
	return b.Set(), nil
}

func parseID(text string) (int, error) {
	id, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, errors.New("expected a CPU id or a range such as 2-5")
	}
	if id > MaxID {
		return 0, fmt.Errorf("CPU ids end at %d", MaxID)
	}
	return int(id), nil
}
