package packing

import (
	"math"
	"slices"
)

// program is the linear program over the patterns: the least Σ price·x where the patterns contain
// every pod. It is solved by the revised simplex method. The basis has one column for each item.
type program struct {
	nodes []Node
	items []Item
	// tables are by kind, from coarse ones, which find most patterns, to fine ones, which give a
	// bound.
	tables [][]*tables
	budget int64 // steps left

	columns []column // of the basis
	inverse [][]float64
	amounts []float64 // x of the columns
	pivots  int
}

// column is a pattern, or a surplus of one item, which has no kind.
type column struct {
	kind  int
	price float64
	pods  []float64 // by item
}

const surplus = -1

// solve adds patterns from coarse tables until they find none, and then from fine ones. It begins
// with a bound, and reports whether the one that it returns is the best of its kind.
func (p *program) solve(best Result, stop func() bool) (_ Result, whole bool) {
	p.begin()
	trades := p.trades()
	center := slices.Clone(best.Weights)
	for level, tables := range p.tables {
		exact := level == len(p.tables)-1
		top := best.Price
		rest := p.budget * int64(len(p.tables)-1-level) / int64(len(p.tables)-level)
		for far := smoothing; p.budget > rest && !stop(); {
			for p.budget > 0 {
				if !p.exchange(trades) {
					break
				}
			}
			r, enter := p.step(tables, center, far)
			if r.Price > top {
				top = r.Price
				copy(center, r.Weights)
			}
			if exact && r.Price > best.Price {
				best = r
			}
			if whole = exact && p.done(best.Price); whole {
				break
			}
			switch {
			case enter.pods != nil:
				far = smoothing
				if !p.pivot(enter) {
					far = 0
				}
			case far == 0: // No pattern is left, so the prices are the best.
				rest, whole = p.budget, exact
			case far > 0.01:
				far /= 2
			default:
				far = 0
			}
		}
	}
	best.Optimal, best.Mix = p.value(), p.mix()
	return best, whole
}

// smoothing is the part of the best weights so far in the weights that are tried next. Prices of a
// basis alone jump from step to step, and most of them give a bad bound (Wentges, "Weighted
// Dantzig-Wolfe decomposition for linear mixed-integer programming", 1997).
const smoothing = 0.8

// step returns the bound for weights between those of the center and the prices of the basis, and a
// column that improves the program. The column has no pods if the patterns that were found do not.
func (p *program) step(by []*tables, center []int64, far float64) (r Result, enter column) {
	r = Result{Weights: make([]int64, len(p.items)), Per: make([]int64, len(p.nodes))}
	prices, gain := p.prices(), 1e-9
	for i, y := range prices {
		r.Weights[i] = int64(math.Round(far*float64(center[i]) + (1-far)*max(0, y)*unit))
	}
	for k, n := range p.nodes {
		var pods []float64
		r.Per[k], pods = by[k].best(r.Weights, &p.budget)
		if worth := dot(prices, pods) - n.Price; worth > gain {
			enter, gain = column{k, n.Price, pods}, worth
		}
	}
	r.Price = p.priceOf(r.Weights, r.Per)
	return r, enter
}

// sums returns the best of the bounds whose weights are the amounts of one resource, or the pods of
// one item with a limit per node.
func (p *program) sums() (best Result) {
	best = Result{Weights: make([]int64, len(p.items)), Per: make([]int64, len(p.nodes))}
	fine := p.tables[len(p.tables)-1]
	for resource := range p.nodes[0].Whole {
		r := Result{Weights: make([]int64, len(p.items)), Per: make([]int64, len(p.nodes))}
		for i, item := range p.items {
			least := math.Inf(1)
			for k, n := range p.nodes {
				if need := item.On[k]; !need.Never {
					least = min(least, n.Price*float64(need.of(resource))/float64(max(1, n.Whole[resource])))
				}
			}
			r.Weights[i] = int64(min(least, 1) * unit)
		}
		if p.weigh(fine, &r); r.Price > best.Price {
			best = r
		}
	}
	for i, item := range p.items {
		if item.PerNode == 0 || p.budget < 0 {
			continue
		}
		r := Result{Weights: make([]int64, len(p.items)), Per: make([]int64, len(p.nodes))}
		r.Weights[i] = unit / item.PerNode
		if p.weigh(fine, &r); r.Price > best.Price {
			best = r
		}
	}
	return best
}

// weigh computes the bound for the weights of a result.
func (p *program) weigh(by []*tables, r *Result) {
	for k := range p.nodes {
		r.Per[k], _ = by[k].best(r.Weights, &p.budget)
	}
	r.Price = p.priceOf(r.Weights, r.Per)
}

// done reports whether the bound cannot grow by a whole price.
func (p *program) done(bound float64) bool {
	value := p.value()
	if len(p.nodes) == 1 {
		each := p.nodes[0].Price
		return math.Ceil(bound/each-1e-9) >= math.Ceil(value/each-1e-9)
	}
	return bound >= value*(1-1e-6)
}

// begin makes a basis of patterns with pods of one item each.
func (p *program) begin() {
	n := len(p.items)
	p.columns, p.amounts, p.inverse = make([]column, n), make([]float64, n), identity(n)
	for i, item := range p.items {
		c := column{price: math.Inf(1), pods: make([]float64, n)}
		for k := range p.nodes {
			if most := p.tables[0][k].most(i); most > 0 && p.nodes[k].Price/most < c.price {
				c.kind, c.price, c.pods[i] = k, p.nodes[k].Price/most, most
			}
		}
		if c.pods[i] == 0 { // Not even one fits, which does not happen to a pod that a node takes.
			c.pods[i] = 1
		}
		c.price = p.nodes[c.kind].Price
		p.columns[i], p.inverse[i][i], p.amounts[i] = c, 1/c.pods[i], float64(item.Count)/c.pods[i]
	}
}

func identity(n int) [][]float64 {
	m := make([][]float64, n)
	for i := range m {
		m[i] = make([]float64, n)
		m[i][i] = 1
	}
	return m
}

// prices returns the dual prices of the items.
func (p *program) prices() []float64 {
	y := make([]float64, len(p.items))
	for b, c := range p.columns {
		if c.price == 0 {
			continue
		}
		for i, x := range p.inverse[b] {
			y[i] += c.price * x
		}
	}
	return y
}

func (p *program) value() (sum float64) {
	for b, c := range p.columns {
		sum += c.price * p.amounts[b]
	}
	return sum
}

// mix returns the number of nodes of each kind.
func (p *program) mix() []float64 {
	mix := make([]float64, len(p.nodes))
	for b, c := range p.columns {
		if c.kind != surplus {
			mix[c.kind] += max(0, p.amounts[b])
		}
	}
	return mix
}

// refresh is the number of pivots after which the inverse is computed from nothing, because each
// pivot adds a rounding error.
const refresh = 100

// pivot replaces a column of the basis. It returns false if numbers have become too inexact.
func (p *program) pivot(enter column) bool {
	direction := make([]float64, len(p.columns))
	for b, row := range p.inverse {
		direction[b] = dot(row, enter.pods)
	}
	out := -1
	for b, d := range direction {
		if d > 1e-9 && (out < 0 || p.amounts[b]*direction[out] < p.amounts[out]*d) {
			out = b
		}
	}
	if out < 0 {
		return false
	}
	step := max(0, p.amounts[out]/direction[out])
	for b, d := range direction {
		p.amounts[b] -= step * d
	}
	p.amounts[out], p.columns[out] = step, enter
	by := direction[out]
	for i := range p.inverse[out] {
		p.inverse[out][i] /= by
	}
	for b, d := range direction {
		if b == out || d == 0 {
			continue
		}
		for i, x := range p.inverse[out] {
			p.inverse[b][i] -= d * x
		}
	}
	p.pivots++
	return p.pivots%refresh != 0 || p.invert()
}

// invert computes the inverse and the amounts from the columns.
func (p *program) invert() bool {
	n := len(p.items)
	table := make([][]float64, n) // row by item, column by position in the basis, then the identity
	for i := range table {
		table[i] = make([]float64, 2*n)
		for b, c := range p.columns {
			table[i][b] = c.pods[i]
		}
		table[i][n+i] = 1
	}
	for c := range n {
		large := c
		for r := c; r < n; r++ {
			if math.Abs(table[r][c]) > math.Abs(table[large][c]) {
				large = r
			}
		}
		if math.Abs(table[large][c]) < 1e-12 {
			return false
		}
		table[c], table[large] = table[large], table[c]
		Pivot(table, c, c)
	}
	for b := range n {
		copy(p.inverse[b], table[b][n:])
		p.amounts[b] = 0
		for i, item := range p.items {
			p.amounts[b] += p.inverse[b][i] * float64(item.Count)
		}
	}
	return true
}

// Pivot turns the column of the table into a unit vector with 1 in the row.
func Pivot(table [][]float64, row, column int) {
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

func dot(a, b []float64) (sum float64) {
	for i, x := range a {
		sum += x * b[i]
	}
	return sum
}
