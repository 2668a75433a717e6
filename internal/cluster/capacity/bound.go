package capacity

import (
	"slices"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/cluster/packing"
)

// demand is the sum of the requests of pods that the same kinds take.
type demand struct {
	takes []bool // by kind
	asks  [resources]float64
}

// resources is the number of resources of the bound: CPU time, memory and the number of pods.
const resources = 3

func amounts(a fleet.Amounts) [resources]float64 {
	const mib = 1 << 20 // Sums in bytes would lose digits.
	return [resources]float64{float64(a.Milli), float64(a.Memory) / mib, float64(a.Pods)}
}

// least returns the amounts of a pod where it asks for the least.
func least(pod *fleet.Pod) [resources]float64 {
	out := amounts(pod.Asks)
	for _, r := range pod.Readings {
		for i, x := range amounts(r.Asks) {
			out[i] = min(out[i], x)
		}
	}
	return out
}

// cheapest returns the lowest price of fractions of nodes whose amounts are enough for the demands,
// and the mix that has this price. No mix of whole nodes is cheaper. It is the linear program
//
//	least Σ price[k]·mix[k], where for each demand d and resource r  Σ mix[k]·has[k][r] ≥ d.asks[r], over the kinds that take d
//
// solved through its dual, which needs no initial solution. Every demand must be taken by at least
// one kind.
func cheapest(prices []float64, has [][resources]float64, demands []demand) (price float64, mix []float64) {
	n := len(prices)
	var columns [][]float64
	var gains []float64
	for _, d := range demands {
		for r := range resources {
			if d.asks[r] <= 0 {
				continue
			}
			// Scale by the whole demand, so that all numbers have a similar size.
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

// simplex maximizes Σ gains[j]·y[j] for y ≥ 0 where Σ columns[j][i]·y[j] ≤ limits[i]. It returns
// the maximum and the shadow price of every limit. The limits must be positive, so that y = 0 is an
// initial solution. Bland's rule guarantees that it ends. It exists because the solver of gonum
// returns no shadow prices, which are the answer here: what a fleet lacks.
func simplex(columns [][]float64, limits, gains []float64) (most float64, shadows []float64) {
	const tiny = 1e-11
	m, n := len(limits), len(columns)
	width := n + m + 1
	table := make([][]float64, m+1) // the last row is the objective, the last column has the limits
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
		if out < 0 { // This is the maximum. Without a limit there is no demand.
			return table[m][width-1], table[m][n : n+m]
		}
		packing.Pivot(table, out, in)
		basis[out] = in
	}
}
