package hint

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/mask"
)

// drawNodes draws the NUMA nodes of a machine, with dense or sparse ids.
func drawNodes(t *rapid.T, most int) mask.Mask {
	n := most - rapid.IntRange(0, most-1).Draw(t, "fewer nodes")
	if rapid.IntRange(0, 3).Draw(t, "sparse") > 0 {
		return (^mask.Mask(0)).First(n)
	}
	var m mask.Mask
	for id := 0; m.Len() < n; id++ {
		id += rapid.IntRange(0, (mask.MaxNode-id-n+m.Len())/2).Draw(t, "gap")
		m = m.With(id)
	}
	return m
}

func drawSubset(t *rapid.T, of mask.Mask, name string) mask.Mask {
	var m mask.Mask
	for id := range of.All() {
		if rapid.Bool().Draw(t, name) {
			m = m.With(id)
		}
	}
	return m
}

// drawNeed draws free amounts, many of them equal, as on real machines. The amounts come from a
// seed, because rapid prefers small numbers, which make few hard cases.
func drawNeed(t *rapid.T, nodes mask.Mask) Need {
	n := Need{Offer: make([]int64, nodes.Highest()+1)}
	unit := rapid.SampledFrom([]int64{1, 1 << 30, 1 << 52}).Draw(t, "unit")
	most := rapid.SampledFrom([]int64{1, 3, 8, 100}).Draw(t, "most")
	r := drawRand(t)
	alike, usual := r.IntN(2), r.Int64N(most+1)
	sum := int64(0)
	for id := range nodes.All() {
		offer := usual
		if alike == 0 || r.IntN(4) == 0 {
			offer = r.Int64N(most + 1)
		}
		n.Offer[id] = offer * unit
		sum += offer
	}
	if rapid.IntRange(0, 2).Draw(t, "shared") == 0 {
		for range rapid.IntRange(1, 4).Draw(t, "groups") {
			offer := r.Int64N(most + 1)
			n.Shared = append(n.Shared, SharedOffer{Nodes: mask.Mask(r.Uint64()) & nodes, Amount: offer * unit})
			sum += offer
		}
	}
	n.Amount = (r.Int64N(sum+1) + r.Int64N(2)) / (1 + r.Int64N(3)) * unit
	return n
}

func drawSet(t *rapid.T, nodes mask.Mask) Set {
	f := Set{Kind: Fits, Candidates: nodes}
	switch rapid.IntRange(0, 19).Draw(t, "kind") {
	case 0:
		return Set{}
	case 1:
		return Set{Kind: None}
	}
	if rapid.IntRange(0, 2).Draw(t, "narrowed") == 0 {
		f.Candidates = drawSubset(t, nodes, "candidates")
	}
	for range rapid.IntRange(1, 3).Draw(t, "needs") {
		f.Needs = append(f.Needs, drawNeed(t, nodes))
	}
	if rapid.IntRange(0, 5).Draw(t, "reused") == 0 {
		f.Required = mask.Of(rapid.SampledFrom(nodes.Nodes()).Draw(t, "required"))
	}
	if rapid.IntRange(0, 5).Draw(t, "touches") == 0 {
		f.Touch = append(f.Touch, drawSubset(t, nodes, "touch"), drawSubset(t, nodes, "touch"))
	}
	if rapid.IntRange(0, 2).Draw(t, "grouped") == 0 {
		for range rapid.IntRange(1, 3).Draw(t, "explicit") {
			if e := drawSubset(t, nodes, "mask"); e != 0 {
				f.Explicit = append(f.Explicit, e)
			}
		}
		f.Copies = rapid.IntRange(0, 3).Draw(t, "copies")
	}
	f.Preferred = rapid.IntRange(1, nodes.Len()).Draw(t, "preferred")
	if least, ok := MinSize(f.Candidates, f.Needs); ok && rapid.IntRange(0, 2).Draw(t, "typical") > 0 {
		f.Preferred = least
	}
	return f
}

func drawSockets(t *rapid.T, nodes mask.Mask) *SocketRule {
	r := SocketRule{Sockets: make([]mask.Mask, rapid.IntRange(1, 4).Draw(t, "sockets"))}
	for id := range nodes.All() {
		s := rapid.IntRange(0, len(r.Sockets)-1).Draw(t, "socket")
		r.Sockets[s] = r.Sockets[s].With(id)
	}
	r.Count = rapid.IntRange(1, len(r.Sockets)).Draw(t, "on")
	return &r
}

func drawRules(t *rapid.T, nodes mask.Mask) Rules {
	r := Rules{Nodes: nodes, Policy: Policy(rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "policy"))}
	if !rapid.Bool().Draw(t, "closest") {
		return r
	}
	most := rapid.SampledFrom([]int{0, 1, 2, 20}).Draw(t, "farthest")
	symmetric := rapid.IntRange(0, 2).Draw(t, "symmetric") > 0
	r.Distances = make([][]int, nodes.Highest()+1)
	for i := range r.Distances {
		r.Distances[i] = make([]int, nodes.Highest()+1)
	}
	for a := range nodes.All() {
		r.Distances[a][a] = 10
		for b := range nodes.All() {
			switch {
			case a < b || !symmetric:
				r.Distances[a][b] = 10 + rapid.IntRange(0, most).Draw(t, "distance")
			case a > b:
				r.Distances[a][b] = r.Distances[b][a]
			}
		}
	}
	return r
}

func drawCase(t *rapid.T, most int) ([]Set, Rules) {
	nodes := drawNodes(t, most)
	sets := make([]Set, 0, 9)
	lists := 0
	for range 4 - rapid.IntRange(0, 4).Draw(t, "fewer sets") {
		f := drawSet(t, nodes)
		if lists += f.copies(); lists <= 6 {
			sets = append(sets, f)
		}
	}
	if len(sets) > 0 && rapid.IntRange(0, 3).Draw(t, "align-by-socket") == 0 {
		sets[0].Sockets = drawSockets(t, nodes)
	}
	return sets, drawRules(t, nodes)
}

func show(sets []Set, rules Rules) string {
	text := fmt.Sprintf("%v %v %v", rules.Policy, rules.Nodes, rules.Distances)
	for _, f := range sets {
		text += fmt.Sprintf("\n%+v %+v", f, f.Sockets)
	}
	return text
}

// TestMain sets 1,000 checks for rapid, more than its default, unless -rapid.checks is given.
func TestMain(m *testing.M) {
	flag.Parse()
	told := false
	flag.Visit(func(f *flag.Flag) { told = told || f.Name == "rapid.checks" })
	if !told {
		if err := flag.Set("rapid.checks", "1000"); err != nil {
			panic(err)
		}
	}
	m.Run()
}

// largest returns the largest number of NUMA nodes for comparisons with the definition. It is
// higher if -rapid.checks asks for more than 10,000 checks.
func largest() int {
	if checks, err := strconv.Atoi(flag.Lookup("rapid.checks").Value.String()); err == nil && checks > 10_000 {
		return 10
	}
	return 6
}

// TestMergeIsLiteral compares Merge with the definition on machines that are small enough to list
// every mask.
func TestMergeIsLiteral(t *testing.T) {
	most := largest()
	rapid.Check(t, func(t *rapid.T) {
		sets, rules := drawCase(t, most)
		want, got := literally(sets, rules), Merge(sets, rules)
		if rules.Policy == Restricted && !want.Admit {
			want.Mask = got.Mask
		}
		got.Steps = 0
		if got != want {
			t.Fatalf("got %+v, want %+v of\n%s", got, want, show(sets, rules))
		}
	})
}

// drawSmall draws a case that often fits on single NUMA nodes.
func drawSmall(t *rapid.T) ([]Set, Rules) {
	sets, rules := drawCase(t, mask.MaxNode+1)
	for i := range sets {
		f := &sets[i]
		if rapid.IntRange(0, 9).Draw(t, "large") == 0 {
			continue
		}
		if f.Preferred = 1; rapid.Bool().Draw(t, "on singles") {
			f.Explicit = append(f.Explicit, mask.Of(rapid.SampledFrom(rules.Nodes.Nodes()).Draw(t, "single")))
		}
		for k := range f.Needs {
			n := &f.Needs[k]
			n.Amount = min(n.Amount, rapid.SampledFrom(n.Offer).Draw(t, "amount"))
		}
	}
	return sets, rules
}

// saturated reports whether a sum of offers is capped at the largest int64. The search then rejects
// masks that offer enough.
func saturated(sets []Set, nodes mask.Mask) bool {
	return slices.ContainsFunc(sets, func(s Set) bool {
		return slices.ContainsFunc(s.Needs, func(n Need) bool { return n.Offered(nodes) == math.MaxInt64 })
	})
}

// TestSingleIsMerged compares the result of single with that of both phases.
func TestSingleIsMerged(t *testing.T) {
	singles, others := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		sets, rules := drawSmall(t)
		rules.Policy = Policy(rapid.IntRange(0, 1).Draw(t, "merged by"))
		m := merger{rules: rules}
		if m.single(sets); m.best == 0 {
			others++
			return
		}
		singles++
		want := Choice{Mask: rules.Nodes, HasMask: true, Admit: true}
		full := merger{rules: rules}
		full.merge(&want, sets)
		if want.Unproven || saturated(sets, rules.Nodes) {
			return
		}
		want.Steps = 0
		if got := Merge(sets, rules); got != want {
			t.Fatalf("got %+v, want %+v of\n%s", got, want, show(sets, rules))
		}
	})
	if singles < others/10 || others < singles/10 {
		t.Errorf("%d cases fit on a single NUMA node and %d do not: one kind is not tested", singles, others)
	}
}

// drawRand returns a generator with a random seed, because rapid itself prefers small numbers.
func drawRand(t *rapid.T) *rand.Rand {
	return rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), uint64(rapid.Uint32().Draw(t, "more seed"))))
}
