package packing

// trade is a pod whose place serves for one or two smaller pods. second is none if it is one.
type trade struct{ place, first, second int32 }

// maxTrades is the number of items above which there are no trades. To find them takes up to the
// cube of it.
const maxTrades = 1000

// maxPairs is the number of items above which places serve for one pod only, because there are too
// many pairs.
const maxPairs = 300

// trades returns the trades that matter: if a pod can be replaced with a larger one, the trade with
// the larger one is enough, because prices that allow single trades grow with the pods. No place
// serves for a pod with a limit per node, because the node may have as many already.
func (p *program) trades() (all []trade) {
	n := len(p.items)
	if n > maxTrades {
		return nil
	}
	sizes := make([][]int64, n)
	for i := range sizes {
		sizes[i] = p.sizesOf(i)
	}
	smaller := make([][]int32, n) // by item: those that fit in its place
	for j := range n {
		for i := range n {
			if i != j && p.items[i].PerNode == 0 && p.comparable(i, j) && fit(sizes[i], nil, sizes[j]) {
				smaller[j] = append(smaller[j], int32(i))
			}
		}
	}
	larger := func(a, b int32) bool { // Of equal items, the first one counts.
		return a != b && p.comparable(int(b), int(a)) && fit(sizes[b], nil, sizes[a]) && (a < b || !fit(sizes[a], nil, sizes[b]))
	}
	largest := func(some []int32) (out []int32) {
		for _, a := range some {
			dominated := false
			for _, b := range some {
				if dominated = larger(b, a); dominated {
					break
				}
			}
			if !dominated {
				out = append(out, a)
			}
		}
		return out
	}
	for j := range n {
		for _, i := range largest(smaller[j]) {
			all = append(all, trade{int32(j), i, none})
		}
		for _, i := range smaller[j] {
			var beside []int32
			for _, k := range smaller[j] {
				if k >= i && n <= maxPairs && fit(sizes[i], sizes[k], sizes[j]) {
					beside = append(beside, k)
				}
			}
			for _, k := range largest(beside) {
				all = append(all, trade{int32(j), i, k})
			}
		}
	}
	return all
}

// sizesOf returns what a pod of an item needs on all kinds of nodes.
func (p *program) sizesOf(i int) (out []int64) {
	for k := range p.nodes {
		for r := range p.nodes[k].Whole {
			out = append(out, p.items[i].On[k].of(r))
		}
	}
	return out
}

// comparable reports whether a pod of item i is of the same sort as one of item j on every kind of
// node that takes one of item j.
func (p *program) comparable(i, j int) bool {
	for k := range p.nodes {
		a, b := &p.items[i].On[k], &p.items[j].On[k]
		if b.Never {
			continue
		}
		if a.Never || len(a.Parts) > 1 || len(a.Parts) != len(b.Parts) || a.Apart != b.Apart {
			return false
		}
	}
	return true
}

// fit reports whether one or two sizes together are within another one.
func fit(a, b, into []int64) bool {
	for r, x := range into {
		sum := a[r]
		if b != nil {
			sum += b[r]
		}
		if sum > x {
			return false
		}
	}
	return true
}

// exchange lets the place of a pod serve for smaller pods, if their prices are higher, or for none,
// if its price is negative. Such columns cost nothing. They keep the prices of similar pods
// similar, so that far fewer patterns are needed (Valério de Carvalho, "Using extra dual cuts to
// accelerate column generation", 2005). It reports whether it did.
func (p *program) exchange(all []trade) bool {
	prices := p.prices()
	p.budget -= int64(len(all) + len(p.items)*len(p.items))
	best, gain := trade{none, none, none}, 1e-9
	for j, y := range prices {
		if -y > gain {
			best, gain = trade{int32(j), none, none}, -y
		}
	}
	for _, t := range all {
		d := prices[t.first] - prices[t.place]
		if t.second != none {
			d += prices[t.second]
		}
		if d > gain {
			best, gain = t, d
		}
	}
	if best.place == none {
		return false
	}
	c := column{kind: surplus, pods: make([]float64, len(p.items))}
	c.pods[best.place]--
	for _, i := range []int32{best.first, best.second} {
		if i != none {
			c.pods[i]++
		}
	}
	return p.pivot(c)
}
