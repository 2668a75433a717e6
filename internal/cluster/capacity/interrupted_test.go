package capacity

import (
	"context"
	"errors"
	"testing"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
)

// counted is a context that is canceled after some calls of Err: one for each placement of a few
// pods.
type counted struct {
	context.Context //nolint:containedctx // It is one.

	left int
}

func (c *counted) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestInterruptedSearches checks after each placement that a search has a result that takes all
// pods, or none, and that a later interruption never has a worse one.
func TestInterruptedSearches(t *testing.T) {
	small, large := named(kind(t, 1), "small"), named(kind(t, 1), "large")
	items := []Item{item("c", 2, 40), item("a", 5, 40), item("b", 6, 31)} // In this order they need more nodes than the bound.
	ways := []Way{{fleet.MostAllocated, Given}, {fleet.LeastStranded, Given}}
	for name, search := range map[string]func(context.Context) (*Result, float64, error){
		"fewest": func(ctx context.Context) (*Result, float64, error) {
			r, _, err := Fewest(ctx, small, items, 1000, ways, Options{})
			if r == nil {
				return nil, 0, err
			}
			return r, float64(r.Nodes), err
		},
		"mix": func(ctx context.Context) (*Result, float64, error) {
			m, err := SizeMix(ctx, []Kind{small, large}, []float64{1, 1.2}, items, 1000, Options{})
			if m == nil {
				return nil, 0, err
			}
			return m.Result, m.Price, err
		},
	} {
		last, some := 0.0, false
		for n := 0; ; n++ {
			r, price, err := search(&counted{t.Context(), n})
			switch {
			case err == nil && n < 3:
				t.Fatalf("%s: it ends after %d placements", name, n)
			case err != nil && !errors.Is(err, context.Canceled):
				t.Fatalf("%s: after %d placements: %v", name, n, err)
			case r == nil && last > 0:
				t.Errorf("%s: after %d placements the earlier result is gone", name, n)
			case r == nil:
				continue
			case r.Rejected > 0 || last > 0 && price > last:
				t.Errorf("%s: after %d placements: %d rejected, %v after %v", name, n, r.Rejected, price, last)
			}
			last = price
			if err == nil {
				break
			}
			some = true
		}
		if !some {
			t.Errorf("%s: no interrupted search has a result", name)
		}
	}
}
