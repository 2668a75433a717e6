package cpuset

// Has tells whether id was added and not removed.
func (b *Builder) Has(id int) bool { return Set{b.words}.Has(id) }

// Intersects tells whether a CPU of s was added and not removed.
func (b *Builder) Intersects(s Set) bool { return Set{b.words}.Intersects(s) }

// Remove takes id out of the set that is built; an id that is not in it is ignored.
func (b *Builder) Remove(id int) {
	if b.Has(id) {
		b.words[id/wordBits] &^= 1 << (id % wordBits)
	}
}
