package kubeletcfg

import "strings"

// nearest returns the known name that a typo most likely stands for, or "" where none is
// near: at most a third of the letters may differ. Case is ignored; of several equally
// near names the first wins.
func nearest(name string, known []string) string {
	best, limit := "", len(name)/3+1
	for _, k := range known {
		if d := editDistance(strings.ToLower(name), strings.ToLower(k), limit); d < limit || (d == limit && best == "") {
			best, limit = k, d
		}
	}
	return best
}

// editDistance counts the insertions, deletions and replacements between two texts, and
// returns limit+1 for any number above limit.
func editDistance(a, b string, limit int) int {
	if abs(len(a)-len(b)) > limit {
		return limit + 1
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return min(row[len(b)], limit+1)
}

func abs(n int) int {
	if n < 0 {
		return -n
	}
	return n
}
