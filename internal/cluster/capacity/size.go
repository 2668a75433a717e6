package capacity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
)

// Size finds the number of nodes of a kind, at most most, that takes all pods while one node fewer
// does not. In rare cases a smaller number also takes all pods, although a larger one in between
// does not. The result is that of the returned number of nodes. Pods that do not fit on a node
// without pods are left out: the number is that for the others, and the result has them as rejected
// pods. The error then wraps ErrNever; without others, the result has 0 nodes. The error wraps
// ErrTooFew if most nodes do not take the pods; the result is then that of most nodes. If ctx ends,
// the result is that of the smallest number that is known to take all pods, or nil.
func Size(ctx context.Context, kind Kind, items []Item, most int, o Options) (*Result, error) {
	if items = nonempty(items); len(items) == 0 {
		return nil, ErrNoPods
	}
	items, left, err := apart([]Kind{kind}, items, o)
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return left, left.never()
	}
	bound := LowerBound(kind, items)
	r, err := fewest(ctx, kind, items, max(1, bound), most, o)
	if r == nil {
		return nil, err
	}
	r.LowerBound = bound
	r.leaveOut(left)
	return r, errors.Join(left.never(), err)
}

// fewest finds a number of nodes for pods that an empty node takes.
func fewest(ctx context.Context, kind Kind, items []Item, bound, most int, o Options) (*Result, error) {
	try := func(n int) (*Result, error) {
		kind.Count = n
		// The last number may be the answer, so its result must be complete.
		o.hasty = n < most
		return Fit(ctx, []Kind{kind}, items, o)
	}
	fails, enough := bound-1, min(bound, most)
	result, err := try(enough)
	// Slightly more than the bound is usually enough.
	for step := max(1, bound/16); err == nil && result.Rejected > 0 && enough < most; step *= 2 {
		fails, enough = enough, min(enough+step, most)
		result, err = try(enough)
	}
	switch {
	case err != nil:
		return nil, err
	case result.Rejected > 0:
		return result, fmt.Errorf("%d nodes: %w", most, ErrTooFew)
	}
	for enough-fails > 1 {
		middle := fails + (enough-fails)/2
		r, err := try(middle)
		if err != nil {
			return result, err
		}
		if r.Rejected > 0 {
			fails = middle
		} else {
			enough, result = middle, r
		}
	}
	return result, nil
}

// Fewest is Size under the scoring that needs the fewest nodes. Of equal scorings, the first wins.
// A scoring that leaves the fewest CPUs stranded may use every node, so that a pod that needs a
// node of its own finds none, however many nodes there are. If ctx ends, the result is the best so
// far, or nil.
func Fewest(ctx context.Context, kind Kind, items []Item, most int, scorings []fleet.Scoring, o Options) (best *Result, scoring fleet.Scoring, err error) {
	for _, s := range slices.Backward(scorings) {
		o.Scoring = s
		r, wrong := Size(ctx, kind, items, most, o)
		enough := !errors.Is(wrong, ErrTooFew)
		if r != nil && (enough || best == nil) {
			best, scoring, err = r, s, wrong
		}
		if r == nil || errors.Is(wrong, context.Canceled) || errors.Is(wrong, context.DeadlineExceeded) {
			return best, scoring, wrong
		}
		if enough {
			most = r.Nodes
		}
		if r.Nodes == 0 { // No pod fits, which does not depend on the scoring.
			return r, scorings[0], wrong
		}
	}
	return best, scoring, err
}

// apart returns the items that a node of some kind takes if it has no pods, and a result with the
// others as rejected pods.
func apart(kinds []Kind, items []Item, o Options) (fitting []Item, left *Result, err error) {
	kinds, o.Rules = slices.Clone(kinds), nil // Rules depend on many nodes and the pods on them.
	for i := range kinds {
		kinds[i].Count = 1
	}
	r, err := begin(kinds, items, o)
	if err != nil {
		return nil, nil, err
	}
	for _, item := range items {
		_, found, why, err := r.Fleet.Best(item.Pod)
		if err != nil {
			return nil, nil, err
		}
		if found {
			fitting = append(fitting, item)
			continue
		}
		r.Rejected += item.Count
		r.AskedMilli += item.Count * item.Pod.Asks.Milli
		if _, err := r.reject(nil, item.Pod, why, item.Count); err != nil {
			return nil, nil, err
		}
	}
	r.Asked, r.LeftOut, r.Nodes, r.Order = r.Rejected, r.Rejected, 0, cmp.Or(o.Order, Given)
	left, err = r.end()
	return fitting, left, err
}

// leaveOut adds pods that were left out.
func (r *Result) leaveOut(left *Result) {
	r.Asked += left.Asked
	r.AskedMilli += left.AskedMilli
	r.Rejected += left.Rejected
	r.Never += left.Never
	r.NeverMilli += left.NeverMilli
	r.LeftOut = left.LeftOut
	r.Causes = append(slices.Clip(left.Causes), r.Causes...)
}

// never returns an error if pods were left out.
func (r *Result) never() error {
	if r.LeftOut == 0 {
		return nil
	}
	return fmt.Errorf("%d pods: %w", r.LeftOut, ErrNever)
}

// ErrNever is wrapped by the error of Size if no number of nodes takes some pods.
var ErrNever = errors.New("no node of the kind takes them, however empty")

// ErrTooFew is wrapped by the error of Size if the largest allowed number of nodes is not enough.
var ErrTooFew = errors.New("not all pods fit")

// LowerBound returns the number of nodes of a kind below which the sums of the pods' requests
// cannot fit, whatever the placement is.
func LowerBound(kind Kind, items []Item) int {
	var milli, mib, pods float64
	for _, i := range items {
		n, asks := float64(i.Count), i.Pod.On(&fleet.Node{State: kind.State}).Asks
		milli += n * float64(asks.Milli)
		mib += n * float64(asks.Memory) / (1 << 20)
		pods += n
	}
	least := 0.0
	for _, x := range [][2]float64{
		{milli, float64(kind.Allocatable.Milli - kind.Used.Milli)},
		{mib, float64(kind.Allocatable.Memory-kind.Used.Memory) / (1 << 20)},
		{pods, float64(kind.Allocatable.Pods - kind.Used.Pods)},
	} {
		if x[0] > 0 && x[1] > 0 {
			least = max(least, x[0]/x[1])
		}
	}
	n := int(least)
	if float64(n) < least {
		n++
	}
	return n
}
