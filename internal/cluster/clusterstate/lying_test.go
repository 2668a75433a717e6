package clusterstate_test

import (
	"math"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/cluster/clusterstate"
	"github.com/paddock-project/paddock/internal/testing/clustertest"
)

// TestLyingCounters checks that no counters make a sum negative, or more rejected than decided.
func TestLyingCounters(t *testing.T) {
	k := clustertest.New(t, 4)
	since := &metav1.Time{Time: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)}
	at := func(numbers ...[2]int64) *clusterstate.Moment {
		c := newCluster(k)
		for i, n := range numbers {
			setNode(c, k, string(rune('a'+i)), func(_ *v1.Node, p *v1alpha1.PaddockNode) {
				p.Status.Rejections = v1alpha1.Rejections{Since: since, Decided: n[0], Counts: []v1alpha1.RejectionCount{{Class: "6 CPUs", Cause: "x", Count: n[1]}, {Class: "7 CPUs", Cause: "x", Count: n[1]}}}
			})
		}
		return c.Moment()
	}
	for name, c := range map[string]struct {
		before, now       *clusterstate.Moment
		decided, rejected int64
	}{
		"too large":             {at(), at([2]int64{math.MaxInt64, math.MaxInt64}, [2]int64{math.MaxInt64, math.MaxInt64}), math.MaxInt64, math.MaxInt64},
		"negative":              {at(), at([2]int64{-5, -5}, [2]int64{10, 2}), 10, 4},
		"rejected, not decided": {at(), at([2]int64{1, 10}, [2]int64{100, 10}), 120, 40},
		"negative before":       {at([2]int64{math.MinInt64, math.MinInt64}), at([2]int64{100, 10}), 100, 20},
	} {
		rows, all := c.now.Since(c.before)
		if len(all) != 1 || all[0].Decided != c.decided || all[0].Rejected != c.rejected {
			t.Errorf("%s: %+v, want %d of %d", name, all, c.rejected, c.decided)
		}
		for _, r := range rows {
			if r.Pods < 0 {
				t.Errorf("%s: %+v", name, r)
			}
		}
	}
}
