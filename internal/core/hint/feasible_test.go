package hint

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/mask"
)

// drawRand spreads a seed: rapid prefers small numbers.
func drawRand(t *rapid.T) *rand.Rand {
	return rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), uint64(rapid.Uint32().Draw(t, "more seed"))))
}

// drawProblem draws nodes and bins whose slack is tight enough to need a search. From a
// seed: shrinking single numbers says little here.
func drawProblem(r *rand.Rand, p *problem) {
	p.reset(mask.Mask(r.Uint64()|r.Uint64())&(1<<9-1) | 1<<r.IntN(9))
	most := []int64{1, 2, 4, 30}[r.IntN(4)]
	bins := 1 + r.IntN(3)
	for len(p.bins) < bins {
		seed := r.Uint64()
		copies := 1
		if r.IntN(2) == 0 {
			copies = 2
		}
		for c := range copies {
			p.openBin(c > 0)
			drawBin(rand.New(rand.NewPCG(seed, 0)), p, most)
		}
	}
	p.finish()
}

func drawBin(r *rand.Rand, p *problem, most int64) {
	if r.IntN(4) == 0 {
		p.bins[len(p.bins)-1].open &= mask.Mask(r.Uint64() | r.Uint64())
	}
	for range r.IntN(3) + 1 {
		t := p.addDimension(0)
		sum := int64(0)
		for x := range p.nodes.All() {
			if p.cost[t*p.stride+x] = r.Int64N(most + 1); r.IntN(2) == 0 {
				p.cost[t*p.stride+x] = most
			}
			sum += p.cost[t*p.stride+x]
		}
		for range r.IntN(6) - 3 {
			if set := mask.Mask(r.Uint64()) & p.nodes; set.Len() > 1 {
				p.addGroup(set, t, r.Int64N(most)+1)
			}
		}
		p.slack[t] = min(most, sum) + r.Int64N(sum/2+1)
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
			q.classes = append(q.classes, class)
			q.most = append(q.most, r.IntN(class.Len()+1))
			rest &^= class
		}
	}
	return q
}

// answers lists the masks of q.size nodes that answer the query, by trying every bin for
// every other node.
func answers(p *problem, q query) []mask.Mask {
	var all []mask.Mask
	for _, m := range allMasks(p.nodes) {
		ok := m.Len() == q.size && m&q.drop == 0 && m.Contains(q.keep)
		for c, class := range q.classes {
			ok = ok && (m&class).Len() <= q.most[c]
		}
		if ok && droppable(p, p.nodes&^m, make([]mask.Mask, len(p.bins))) {
			all = append(all, m)
		}
	}
	return all
}

func droppable(p *problem, rest mask.Mask, in []mask.Mask) bool {
	for b := range p.bins {
		for t := p.bins[b].first; t < p.bins[b].end; t++ {
			use := int64(0)
			for x := range in[b].All() {
				use += p.cost[t*p.stride+x]
			}
			for _, g := range p.groups {
				if g.dim == t && in[b].Contains(g.nodes) {
					use += g.amount
				}
			}
			if use > p.slack[t] {
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

func among(m mask.Mask, ok bool, all []mask.Mask) bool {
	if !ok {
		return len(all) == 0
	}
	for _, a := range all {
		if a == m {
			return true
		}
	}
	return false
}

// TestFeasibleIsLiteral compares feasible with trying everything; and the
// dive alone, with prices that prove nothing, so that it has to find every answer itself.
func TestFeasibleIsLiteral(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := search{budget: 1 << 40}
		r := drawRand(t)
		drawProblem(r, &s.problem)
		q := drawQuery(r, s.problem.nodes)
		all := answers(&s.problem, q)
		text := func() string { return fmt.Sprintf("%+v %+v: %v", s.problem, q, all) }
		if m, ok := s.feasible(q); !among(m, ok, all) {
			t.Fatalf("feasible: got %v, %v of %s", m, ok, text())
		}
		if s.begin(q) {
			s.price = append(s.price[:0], make([]float64, len(s.problem.slack))...)
			s.share = append(s.share[:0], make([]float64, len(s.problem.groups))...)
			if ok := s.plunge(); ok != (len(all) > 0) {
				t.Fatalf("dive: got %v of %s", ok, text())
			}
		}
	})
}

// TestSmallestIsLiteral compares smallest with the least of all answers.
func TestSmallestIsLiteral(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := search{budget: 1 << 40}
		r := drawRand(t)
		drawProblem(r, &s.problem)
		q := drawQuery(r, s.problem.nodes)
		q.keep = 0
		least := mask.Mask(0)
		for _, m := range answers(&s.problem, q) {
			if least == 0 || m < least {
				least = m
			}
		}
		if m := s.smallest(q); m != least {
			t.Fatalf("got %v, want %v of %+v %+v", m, least, s.problem, q)
		}
	})
}
