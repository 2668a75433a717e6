package capacity

import (
	"context"
	"errors"
	"fmt"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
)

// Way is how pods are placed.
type Way struct {
	Scoring fleet.Scoring
	Order   Order
}

// Ways returns the ways that are worth a try: BestFit in every order that begins with large pods,
// then the other scorings in the first of these orders.
func Ways() []Way {
	var ways []Way
	for _, o := range Orders() {
		if o != Given {
			ways = append(ways, Way{fleet.BestFit, o})
		}
	}
	return append(ways, Way{fleet.LeastStranded, LargestFirst}, Way{fleet.MostAllocated, LargestFirst})
}

// Fewest finds the smallest number of nodes of a kind, at most most, that takes all pods in one of
// the ways, while one node fewer does not in the same way. In rare cases a smaller number also
// takes all pods, although a larger one in between does not. The result is that of the returned
// number of nodes. It is Optimal if no placement needs fewer. Of equal ways, the first wins.
//
// Pods that do not fit on a node without pods are left out: the number is that for the others, and
// the result has them as rejected pods. The error then wraps ErrNever; without others, the result
// has 0 nodes. The error wraps ErrTooFew if most nodes do not take the pods; the result is then
// that of most nodes. A scoring may spread pods over all nodes, so that a pod that needs a node of
// its own finds none, however many nodes there are.
//
// If ctx ends, the result is the best so far, or nil. If o.Enough returns true, it is the best so
// far without an error.
func Fewest(ctx context.Context, kind Kind, items []Item, most int, ways []Way, o Options) (*Result, Way, error) {
	if items = nonempty(items); len(items) == 0 {
		return nil, Way{}, ErrNoPods
	}
	items, left, err := apart([]Kind{kind}, items, o)
	if err != nil {
		return nil, Way{}, err
	}
	if len(items) == 0 {
		return left, ways[0], left.never()
	}
	s := &sizing{ctx: ctx, kind: kind, items: items, most: most, options: o, rankings: map[fleet.Scoring]*fleet.Ranking{}}
	if s.bound, err = s.leastNodes(); err == nil {
		err = s.search(ways)
	}
	if s.best == nil {
		return nil, Way{}, err
	}
	s.best.LowerBound = s.bound
	s.best.Optimal = s.best.Rejected == 0 && s.best.Nodes <= max(1, s.bound)
	s.best.Unfinished = !s.best.Optimal && s.stopped
	s.best.leaveOut(left)
	return s.best, s.way, errors.Join(left.never(), err)
}

// sizing is the state of one search for a number of nodes.
type sizing struct {
	ctx         context.Context //nolint:containedctx // A search is one call.
	kind        Kind
	items       []Item // which an empty node takes
	most, bound int
	options     Options
	rankings    map[fleet.Scoring]*fleet.Ranking
	best        *Result // nil: none; with rejected pods: most nodes are too few
	way         Way
	// stopped is set if o.Enough ended the search.
	stopped bool
}

// leastNodes returns the lower bound.
func (s *sizing) leastNodes() (int, error) {
	bound, err := patterns(s.ctx, s.kind, s.items)
	return max(bound, sumsBound(s.kind, s.items)), err
}

// holes is how many smaller numbers of nodes are tried with each way at the end, although one node
// fewer than the best number is not enough.
const holes = 3

// search tries the ways one after the other. After the first one with a result, each only has to
// be better.
func (s *sizing) search(ways []Way) error {
	for _, w := range ways {
		err := s.first(w)
		if s.found() {
			err = s.descend(w)
		}
		if err != nil || s.ended() {
			return err
		}
	}
	if !s.found() {
		return fmt.Errorf("%d nodes: %w", s.most, ErrTooFew)
	}
	for _, w := range ways {
		for n := range holes {
			if below := s.best.Nodes - 2 - n; below >= s.bound && len(ways) > 1 {
				ok, err := s.better(w, below)
				if err == nil && ok {
					err = s.descend(w)
				}
				if err != nil || s.ended() {
					return err
				}
			}
		}
	}
	return nil
}

// found reports whether a number of nodes is known.
func (s *sizing) found() bool { return s.best != nil && s.best.Rejected == 0 }

// ended reports whether the search need not go on.
func (s *sizing) ended() bool {
	if !s.found() || s.best.Nodes <= max(1, s.bound) {
		return s.found()
	}
	s.stopped = s.stopped || s.options.Enough != nil && s.options.Enough()
	return s.stopped
}

// try places the pods on n nodes.
func (s *sizing) try(w Way, n int) (*Result, error) {
	if s.rankings[w.Scoring] == nil {
		s.rankings[w.Scoring] = rankingOf([]Kind{s.kind}, s.items, w.Scoring)
	}
	o := s.options
	o.Scoring, o.Order, o.ranking = w.Scoring, w.Order, s.rankings[w.Scoring]
	// The last number may be the answer, so its result must be complete.
	o.hasty = n < s.most
	s.kind.Count = n
	return Fit(s.ctx, []Kind{s.kind}, s.items, o)
}

// better tries a number of nodes, and keeps the result if it takes all pods.
func (s *sizing) better(w Way, n int) (bool, error) {
	r, err := s.try(w, n)
	if err != nil || r.Rejected > 0 {
		return false, err
	}
	s.keep(w, r)
	return true, nil
}

func (s *sizing) keep(w Way, r *Result) {
	s.best, s.way = r, w
	if s.options.Found != nil && r.Rejected == 0 {
		s.options.Found(r.Nodes, s.bound)
	}
}

// first looks upwards for the first number that is enough, if none is known.
func (s *sizing) first(w Way) error {
	if s.found() {
		return nil
	}
	n := max(1, min(s.bound, s.most))
	// Slightly more than the bound is usually enough.
	for step := max(1, s.bound/64); ; step *= 2 {
		r, err := s.try(w, n)
		switch {
		case err != nil:
			return err
		case r.Rejected == 0 || n == s.most && s.best == nil:
			s.keep(w, r)
			return nil
		case n == s.most:
			return nil
		}
		n = min(n+step, s.most)
	}
}

// descend looks downwards from the best number, in growing steps and then between the last two,
// until one node fewer is not enough.
func (s *sizing) descend(w Way) error {
	fails, failed := max(1, s.bound)-1, false
	for step := 1; s.best.Nodes-fails > 1 && !s.ended(); step *= 2 {
		n := max(fails+1, s.best.Nodes-step)
		if failed {
			n = fails + (s.best.Nodes-fails)/2
		}
		ok, err := s.better(w, n)
		if err != nil {
			return err
		}
		if !ok {
			fails, failed = n, true
		}
	}
	return nil
}
