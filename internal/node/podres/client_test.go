package podres

import (
	"math"
	"slices"
	"testing"

	"github.com/paddock-project/paddock/internal/core/cpuset"
)

// TestPossibleCPUs checks ids that no CPU can have: a server of the PodResources API can send any
// number.
func TestPossibleCPUs(t *testing.T) {
	cpus, odd := CPUs([]int64{3, -1, cpuset.MaxID, cpuset.MaxID + 1, math.MaxInt64, math.MinInt64})
	if !cpus.Equal(cpuset.Of(3, cpuset.MaxID)) || !slices.Equal(odd, []int64{-1, cpuset.MaxID + 1, math.MaxInt64, math.MinInt64}) {
		t.Errorf("CPUs %s, others %v", cpus, odd)
	}
}
