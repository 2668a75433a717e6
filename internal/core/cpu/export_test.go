package cpu

// DivisionForTest lets the external tests ask for the search of section 6 alone: the
// positions of X and the groups of the remainder that each of them gives, or nil.
func DivisionForTest(free []int, n, k, g int) (x, extra []int) {
	for _, s := range newDivision(free, g, n/g, k).best() {
		x = append(x, s.node)
		extra = append(extra, s.extra)
	}
	return x, extra
}
