package cpuset

// Range returns the set of first..last, inclusive.
func Range(first, last int) Set {
	var b Builder
	b.addRange(first, last)
	return b.Set()
}
