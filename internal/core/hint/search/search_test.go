package search

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/mask"
)

// drawRand returns a generator with a random seed, because rapid itself prefers small numbers.
func drawRand(t *rapid.T) *rand.Rand {
	return rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), uint64(rapid.Uint32().Draw(t, "more seed"))))
}

// drawProblem draws NUMA nodes and bins whose capacity is small enough to require a search. It
// draws them from a seed, because a smaller number does not make a simpler problem. The caller must
// call Finish.
func drawProblem(r *rand.Rand, p *Problem) {
	p.Reset(mask.Mask(r.Uint64()|r.Uint64())&(1<<9-1) | 1<<r.IntN(9))
	most, unit := []int64{1, 2, 4, 30}[r.IntN(4)], []int64{1, 1 << 50}[r.IntN(2)]
	bins := 1 + r.IntN(3)
	for len(p.bins) < bins {
		seed := r.Uint64()
		copies := 1
		if r.IntN(2) == 0 {
			copies = 2
		}
		for c := range copies {
			drawBin(rand.New(rand.NewPCG(seed, 0)), p, most, unit, c > 0)
		}
	}
}

func drawBin(r *rand.Rand, p *Problem, most, unit int64, copied bool) {
	open := p.nodes
	if r.IntN(4) == 0 {
		open &= mask.Mask(r.Uint64() | r.Uint64())
	}
	p.AddBin(open, copied)
	for range r.IntN(3) + 1 {
		t := len(p.capacity)
		p.AddDimension(0)
		sum := int64(0)
		for x := range p.nodes.All() {
			load := r.Int64N(most + 1)
			if r.IntN(2) == 0 {
				load = most
			}
			p.AddLoad(mask.Of(x), load*unit)
			sum += load
		}
		for range r.IntN(6) - 3 {
			if set := mask.Mask(r.Uint64()) & p.nodes; set.Len() > 1 {
				p.AddLoad(set, (r.Int64N(most)+1)*unit)
			}
		}
		p.capacity[t] = (min(most, sum) + r.Int64N(sum/2+1)) * unit
	}
}

func drawQuery(r *rand.Rand, nodes mask.Mask) query {
	q := query{size: 1 + r.IntN((nodes.Len()+1)/2)}
	if r.IntN(3) == 0 {
		q.keep = nodes & mask.Mask(r.Uint64()&r.Uint64()&r.Uint64())
		q.drop = nodes & mask.Mask(r.Uint64()&r.Uint64()&r.Uint64()) &^ q.keep
	}
	if r.IntN(3) == 0 {
		for rest := nodes; rest != 0; {
			class := rest & (mask.Mask(r.Uint64()) | rest&-rest)
			q.quotas = append(q.quotas, quota{class, r.IntN(class.Len() + 1)})
			rest &^= class
		}
	}
	return q
}

// answers lists the masks of q.size NUMA nodes that answer the query. It tries every bin for every
// other NUMA node.
func answers(p *Problem, q query) []mask.Mask {
	var all []mask.Mask
	for m := p.nodes; m != 0; m = (m - 1) & p.nodes {
		ok := m.Len() == q.size && m&q.drop == 0 && m.Contains(q.keep)
		for _, c := range q.quotas {
			ok = ok && (m&c.nodes).Len() <= c.most
		}
		if ok && droppable(p, p.nodes&^m, make([]mask.Mask, len(p.bins))) {
			all = append(all, m)
		}
	}
	return all
}

func droppable(p *Problem, rest mask.Mask, in []mask.Mask) bool {
	for b := range p.bins {
		for t := p.bins[b].first; t < p.bins[b].end; t++ {
			use := int64(0)
			for x := range in[b].All() {
				use += p.load[t*p.stride+x]
			}
			for _, g := range p.joints {
				if g.dim == t && in[b].Contains(g.nodes) {
					use += g.load
				}
			}
			if use > p.capacity[t] {
				return false
			}
		}
	}
	if rest.IsEmpty() {
		return true
	}
	x := rest.Lowest()
	for b := range p.bins {
		if p.bins[b].open.Has(x) {
			in[b] = in[b].With(x)
			found := droppable(p, rest.Without(x), in)
			in[b] = in[b].Without(x)
			if found {
				return true
			}
		}
	}
	return false
}

// TestAnswerIsLiteral compares answer with all answers, at any prices. Prices determine what the
// search costs, never what it finds.
func TestAnswerIsLiteral(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Search{Budget: 1 << 40}
		r := drawRand(t)
		drawProblem(r, &s.Problem)
		q := drawQuery(r, s.Problem.nodes)
		all := answers(&s.Problem, q)
		s.Problem.Finish()
		s.startPrices()
		for t := range s.price {
			if r.IntN(3) == 0 {
				s.price[t] = leastPrice + r.Int64N(mostPrice-leastPrice+1)
			}
		}
		for i := range s.share {
			s.share[i] = r.Int64N(shares + 1)
		}
		if m, ok := s.answer(q); ok != (len(all) > 0) || ok && !slices.Contains(all, m) {
			t.Fatalf("got %v, %v of %+v %+v: %v", m, ok, s.Problem, q, all)
		}
	})
}

// TestLowestIsLiteral compares lowest with the smallest of all answers.
func TestLowestIsLiteral(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Search{Budget: 1 << 40}
		r := drawRand(t)
		drawProblem(r, &s.Problem)
		q := drawQuery(r, s.Problem.nodes)
		q.keep = 0
		least := mask.Mask(0)
		if all := answers(&s.Problem, q); len(all) > 0 {
			least = slices.Min(all)
		}
		s.Problem.Finish()
		s.startPrices()
		if m := s.lowest(q); m != least {
			t.Fatalf("got %v, want %v of %+v %+v", m, least, s.Problem, q)
		}
	})
}

// TestClosestIsLiteral compares Closest with the best of all answers and of the mask to beat.
func TestClosestIsLiteral(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Search{Budget: 1 << 40}
		r := drawRand(t)
		drawProblem(r, &s.Problem)
		nodes := s.Problem.nodes
		d := make(Distances, nodes.Highest()+r.IntN(2))
		farthest := []int{1, 2, 20}[r.IntN(3)]
		for range d {
			d[r.IntN(len(d))] = slices.Collect(func(yield func(int) bool) {
				for range len(d) - r.IntN(2) {
					if !yield(10 + r.IntN(farthest)) {
						return
					}
				}
			})
		}
		size := 1 + r.IntN(nodes.Len())
		all := answers(&s.Problem, query{size: size})
		beat := mask.Mask(0)
		if r.IntN(2) == 0 {
			beat = nodes.First(size)
			all = append(all, beat)
		}
		want := mask.Mask(0)
		for _, m := range all {
			if want == 0 || d.Sum(m) < d.Sum(want) || d.Sum(m) == d.Sum(want) && m < want {
				want = m
			}
		}
		s.Problem.Finish()
		if got := s.Closest(size, d, beat); got != want {
			t.Fatalf("got %v, want %v of %d of %+v, distances %v", got, want, size, s.Problem, d)
		}
	})
}

// TestFewestIsLiteral compares Fewest with the size of the smallest answer.
func TestFewestIsLiteral(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Search{Budget: 1 << 40}
		r := drawRand(t)
		drawProblem(r, &s.Problem)
		most := 1 + r.IntN(s.Problem.nodes.Len())
		want := 1
		for want < most && len(answers(&s.Problem, query{size: want})) == 0 {
			want++
		}
		s.Problem.Finish()
		if got := s.Fewest(most); got != want {
			t.Fatalf("got %d, want %d of %+v", got, want, s.Problem)
		}
	})
}
