package cpu

// SplitForTest lets the external tests ask for a split of section 6 alone: the indexes of X and
// the groups of the remainder that each of them gives, or nil.
func SplitForTest(free []int, n, k, g int) (x, extra []int) {
	for _, s := range newSplit(free, g, n/g, k).best() {
		x = append(x, s.node)
		extra = append(extra, s.extra)
	}
	return x, extra
}
