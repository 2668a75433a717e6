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
// does not. The result is that of the returned number of nodes. The error wraps ErrTooFew if most
// nodes do not take the pods; the result is then that of most nodes. The error wraps ErrNever if a
// pod does not fit on a node without pods; the result then has 0 nodes and the causes of all such
// pods.
func Size(ctx context.Context, kind Kind, items []Item, most int, o Options) (*Result, error) {
	if items = nonempty(items); len(items) == 0 {
		return nil, ErrNoPods
	}
	if r, err := never(kind, items, o); err != nil {
		return r, err
	}
	try := func(n int) (*Result, error) {
		kind.Count = n
		// The last number may be the answer, so its result must be complete.
		o.hasty = n < most
		return Fit(ctx, []Kind{kind}, items, o)
	}
	bound := max(1, LowerBound(kind, items))
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
			return nil, err
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
// node of its own finds none, however many nodes there are.
func Fewest(ctx context.Context, kind Kind, items []Item, most int, scorings []fleet.Scoring, o Options) (best *Result, scoring fleet.Scoring, err error) {
	for _, s := range slices.Backward(scorings) {
		o.Scoring = s
		r, wrong := Size(ctx, kind, items, most, o)
		switch {
		case wrong == nil:
			best, scoring, err, most = r, s, nil, r.Nodes
		case best == nil:
			best, scoring, err = r, s, wrong
		case !errors.Is(wrong, ErrTooFew):
			return nil, s, wrong
		}
		if errors.Is(err, ErrNever) { // This does not depend on the scoring.
			return best, scorings[0], err
		}
	}
	return best, scoring, err
}

// never looks for pods that do not fit on a node without pods.
func never(kind Kind, items []Item, o Options) (*Result, error) {
	kind.Count, o.Rules = 1, nil // Rules depend on many nodes and the pods on them.
	r, err := begin([]Kind{kind}, items, o)
	if err != nil {
		return nil, err
	}
	for _, item := range items {
		_, found, why, err := r.Fleet.Best(item.Pod)
		if err == nil && !found && item.Count > 0 {
			r.Rejected += item.Count
			_, err = r.reject(nil, item.Pod, why, item.Count)
		}
		if err != nil {
			return nil, err
		}
	}
	if r.Rejected == 0 {
		return nil, nil
	}
	r.Asked, r.Nodes, r.Order = r.Rejected, 0, cmp.Or(o.Order, Given)
	result, err := r.end()
	if err != nil {
		return nil, err
	}
	return result, fmt.Errorf("%d pods: %w", r.Rejected, ErrNever)
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
		n := float64(i.Count)
		milli += n * float64(i.Pod.Asks.Milli)
		mib += n * float64(i.Pod.Asks.Memory) / (1 << 20)
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
