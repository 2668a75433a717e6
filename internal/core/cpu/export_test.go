package cpu

// SplitForTest lets the external tests ask for a split of section 6 alone: the indexes of X and
// the groups of the remainder that each of them gives, or nil.
func SplitForTest(free []int, n, k, g int) (x, extra []int) {
	split := split{free: free, group: g, k: k, even: n / g / k * g, rest: n / g % k}
	for _, s := range split.best() {
		x = append(x, s.node)
		extra = append(extra, s.extra)
	}
	return x, extra
}
