package capacity

import (
	"slices"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
)

// demand is what pods request together that only some kinds take.
type demand struct {
	takes []bool // by kind
	asks  [resources]float64
}

// resources are those of the bound: CPU time, memory and the number of pods.
const resources = 3

func amounts(a fleet.Amounts) [resources]float64 {
	const mib = 1 << 20 // In bytes the sums would lose digits.
	return [resources]float64{float64(a.Milli), float64(a.Memory) / mib, float64(a.Pods)}
}

// cheapest is the least price of parts of nodes whose amounts are enough for the demands: less than
// any mix of whole nodes. The mix is what has that price. It is the linear program
//
//	least Σ price[k]·mix[k], where for each demand d and resource r  Σ mix[k]·has[k][r] ≥ d.asks[r], over the kinds that take d
//
// solved through its dual, which needs no first solution. Every demand must be taken by a kind.
func cheapest(prices []float64, has [][resources]float64, demands []demand) (price float64, mix []float64) {
	n := len(prices)
	var columns [][]float64
	var gains []float64
	for _, d := range demands {
		for r := range resources {
			if d.asks[r] <= 0 {
				continue
			}
			// A unit is the whole demand, so that all numbers are of one size.
			column := make([]float64, n)
			for k := range n {
				if d.takes[k] {
					column[k] = has[k][r] / d.asks[r]
				}
			}
			columns, gains = append(columns, column), append(gains, 1)
		}
	}
	return simplex(columns, prices, gains)
}

// simplex finds the most Σ gains[j]·y[j] for y ≥ 0 where Σ columns[j][i]·y[j] ≤ limits[i], and the
// shadow price of every limit. The limits are positive, so that y = 0 is a first solution. Bland's
// rule makes it end. The solver of gonum returns no shadow prices, and these are the answer here:
// what a fleet lacks.
func simplex(columns [][]float64, limits, gains []float64) (most float64, shadows []float64) {
	const tiny = 1e-11
	m, n := len(limits), len(columns)
	width := n + m + 1
	table := make([][]float64, m+1) // the last row is the objective, the last column the limits
	basis := make([]int, m)
	for i := range table {
		table[i] = make([]float64, width)
		if i == m {
			break
		}
		for j := range n {
			table[i][j] = columns[j][i]
		}
		table[i][n+i], table[i][width-1], basis[i] = 1, limits[i], n+i
	}
	for j := range n {
		table[m][j] = -gains[j]
	}
	for {
		in := slices.IndexFunc(table[m][:width-1], func(x float64) bool { return x < -tiny })
		out := -1
		for i := 0; in >= 0 && i < m; i++ {
			if table[i][in] <= tiny {
				continue
			}
			if out < 0 {
				out = i
				continue
			}
			a, b := table[i][width-1]/table[i][in], table[out][width-1]/table[out][in]
			if a < b || a == b && basis[i] < basis[out] {
				out = i
			}
		}
		if out < 0 { // The best; without a limit nothing was asked for.
			return table[m][width-1], table[m][n : n+m]
		}
		pivot(table, out, in)
		basis[out] = in
	}
}

// pivot makes the column of the table a unit vector with 1 in the row.
func pivot(table [][]float64, row, column int) {
	by := table[row][column]
	for j := range table[row] {
		table[row][j] /= by
	}
	for i := range table {
		if f := table[i][column]; i != row && f != 0 {
			for j := range table[i] {
				table[i][j] -= f * table[row][j]
			}
		}
	}
}
