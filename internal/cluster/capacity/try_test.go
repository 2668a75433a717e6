package capacity

import (
	"context"
	"errors"
	"testing"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/core/node"
)

// TestTry checks that the nodes as they are come first, that they keep their amounts, and that an
// error ends the comparison with the trials before it.
func TestTry(t *testing.T) {
	k := kind(t, 2)
	k.Used = fleet.Amounts{Milli: 8000, Pods: 1} // of a pod that belongs to the node
	items := []Item{item("a", 5, 4)}
	wrong, calls := errors.New("enough"), 0
	ask := func(most int) func(context.Context, []Kind, fleet.Scoring) (*Result, error) {
		calls = 0
		return func(ctx context.Context, kinds []Kind, scoring fleet.Scoring) (*Result, error) {
			if calls++; calls > most {
				return nil, wrong
			}
			return Fit(ctx, kinds, items, Options{Scoring: scoring})
		}
	}
	all, err := Try(t.Context(), []Kind{k}, fleet.LeastStranded, ask(NumTrials()))
	if err != nil || len(all) != NumTrials() || len(all[0].Now) != 1 || all[0].Policy != node.TopologySingleNUMANode || all[0].Result.Placed != 2 {
		t.Fatalf("%d trials, the first is %+v: %v", len(all), all[0], err)
	}
	for _, trial := range all[1:] {
		if trial.Now != nil {
			t.Errorf("%+v is not that of the nodes as they are", trial)
		}
	}
	for _, most := range []int{0, 1, 3, 8, NumTrials() - 1} {
		if some, err := Try(t.Context(), []Kind{k}, fleet.LeastStranded, ask(most)); !errors.Is(err, wrong) || len(some) != most {
			t.Errorf("%d trials and %v, expected %d", len(some), err, most)
		}
	}
}
