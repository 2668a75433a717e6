package device

import (
	"iter"
	"math/bits"
)

// set is a set of devices of one resource, by position in its inventory. The zero value is
// empty. Sets that are part of a Usage or an Inventory are never changed in place.
type set []uint64

func newSet(devices int) set { return make(set, (devices+63)/64) }

func (s set) has(i int) bool { return i/64 < len(s) && s[i/64]>>(i%64)&1 == 1 }

func (s set) add(i int) { s[i/64] |= 1 << (i % 64) }

func (s set) len() int {
	n := 0
	for _, word := range s {
		n += bits.OnesCount64(word)
	}
	return n
}

// common returns the lowest position that is in both sets, or -1, and the number of common
// positions.
func (s set) common(t set) (lowest, count int) {
	lowest = -1
	for i := range min(len(s), len(t)) {
		word := s[i] & t[i]
		if word != 0 && lowest < 0 {
			lowest = i*64 + bits.TrailingZeros64(word)
		}
		count += bits.OnesCount64(word)
	}
	return lowest, count
}

// without returns the positions of s that are not in t. t may be shorter than s.
func (s set) without(t set) set {
	out := make(set, len(s))
	for i, word := range s {
		if i < len(t) {
			word &^= t[i]
		}
		out[i] = word
	}
	return out
}

// all yields the positions in ascending order.
func (s set) all() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, word := range s {
			for ; word != 0; word &= word - 1 {
				if !yield(i*64 + bits.TrailingZeros64(word)) {
					return
				}
			}
		}
	}
}
