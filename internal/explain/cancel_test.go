package explain_test

import (
	"context"
	"errors"
	"testing"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/explain"
)

// countdown is a context that ends after Err was called a given number of times.
type countdown struct {
	context.Context
	left *int
}

func (c countdown) Err() error {
	if *c.left--; *c.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestSearchEndsWithItsContext checks that, wherever the context ends, there is no answer and
// hardly any further plan: the search checks the context before each plan.
func TestSearchEndsWithItsContext(t *testing.T) {
	s := filled(t, "../../examples/machines/epyc-2s-nps4.json", node.TopologyRestricted, node.PodScope)
	for looks := 0; ; looks++ {
		left := looks
		r, err := explain.Search(countdown{t.Context(), &left}, s, greedy(s))
		if err == nil {
			if looks < 20 || r.Plans() == 0 {
				t.Errorf("the search looks at its context %d times for %d plans", looks, r.Plans())
			}
			return
		}
		if !errors.Is(err, context.Canceled) || len(r.Proposals)+len(r.Tried) > 0 {
			t.Fatalf("after %d looks: %v, %+v", looks, err, r)
		}
		if -left > 400 {
			t.Fatalf("the search goes on after its context has ended: it looks %d times more", -left)
		}
	}
}
