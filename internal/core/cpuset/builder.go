package cpuset

import (
	"iter"
	"slices"
)

// BuilderOf returns a builder with the CPUs of s. It uses the memory of buffer if that has room.
func BuilderOf(s Set, buffer []uint64) Builder { return Builder{append(buffer[:0], s.words...)} }

// Removed returns the CPUs of s that the builder does not have.
func (b *Builder) Removed(s Set) Set {
	n := len(s.words)
	for ; n > 0; n-- {
		if w := s.words[n-1]; n > len(b.words) && w != 0 || n <= len(b.words) && w&^b.words[n-1] != 0 {
			break
		}
	}
	if n == 0 {
		return Set{}
	}
	words := slices.Clone(s.words[:n])
	for i := range min(n, len(b.words)) {
		words[i] &^= b.words[i]
	}
	return Set{words}
}

// Has reports whether id was added and not removed.
func (b *Builder) Has(id int) bool { return Set{b.words}.Has(id) }

// Intersects reports whether a CPU of s was added and not removed.
func (b *Builder) Intersects(s Set) bool { return Set{b.words}.Intersects(s) }

// Contains reports whether every CPU of s was added and not removed.
func (b *Builder) Contains(s Set) bool { return Set{b.words}.Contains(s) }

// IntersectionLen returns the number of CPUs of s that were added and not removed.
func (b *Builder) IntersectionLen(s Set) int { return Set{b.words}.IntersectionLen(s) }

// All yields the ids that were added and not removed, in ascending order.
func (b *Builder) All() iter.Seq[int] { return Set{b.words}.All() }

// Remove removes id from the set that is built. It ignores an id that is not in the set.
func (b *Builder) Remove(id int) {
	if b.Has(id) {
		b.words[id/wordBits] &^= 1 << (id % wordBits)
	}
}
