package cpu

// SplitForTest lets external tests compute a split of section 6 on its own. It returns the indexes
// of X and, for each of them, its number of groups of the remainder. If there is no split, both are
// nil.
func SplitForTest(free []int, n, k, g int) (x, extra []int) {
	split := split{free: free, group: g, k: k, even: n / g / k * g, rest: n / g % k}
	for _, s := range split.best() {
		x = append(x, s.node)
		extra = append(extra, s.extra)
	}
	return x, extra
}
