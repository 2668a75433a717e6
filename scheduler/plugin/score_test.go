package plugin

import (
	"slices"
	"testing"

	fwk "k8s.io/kube-scheduler/framework"
	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/scheduler/cluster"
)

// TestLevels compares the scores with those that a sorted list of all nodes gives.
func TestLevels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		costs := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) fleet.Cost {
			return fleet.Cost{Stranded: rapid.Int64Range(0, 9).Draw(t, "stranded"), Left: rapid.Int64Range(0, 9).Draw(t, "left")}
		}), 1, 200).Draw(t, "costs")
		l := make(levels, 0, fewLevels)
		for _, c := range costs {
			if shared := l.add(&cluster.Priced{Cost: c}); shared.Cost != c {
				t.Fatalf("a node that costs %+v shares %+v", c, shared.Cost)
			}
		}
		l.rank()
		sorted := slices.SortedFunc(slices.Values(costs), fleet.Cost.Compare)
		for _, c := range costs {
			want, ahead := fwk.MaxScore, slices.Index(sorted, c)
			if ahead > 0 {
				want = 1 + (fwk.MaxScore-2)*int64(len(sorted)-ahead)/int64(len(sorted))
			}
			if got := l.score(c); got != want {
				t.Errorf("%+v has score %d, want %d: %d of %d nodes cost less", c, got, want, ahead, len(sorted))
			}
		}
		// A node can change after PreScore.
		if got := l.score(fleet.Cost{Stranded: 10}); got != 1 {
			t.Errorf("a node that costs more than all has score %d, want 1", got)
		}
		if got := l.score(fleet.Cost{Stranded: -1}); got != fwk.MaxScore {
			t.Errorf("a node that costs less than all has score %d", got)
		}
	})
}
