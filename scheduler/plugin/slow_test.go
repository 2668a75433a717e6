package plugin

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
)

// stuck is an allocator that searches until its time is over.
type stuck struct{ structured.Allocator }

func (stuck) Allocate(ctx context.Context, _ *v1.Node, _ []*resourceapi.ResourceClaim) ([]resourceapi.AllocationResult, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestSlowAllocation checks that claims whose allocation takes too long cost a cycle this time once
// and not once for each node, and that a cycle that has ended is not taken for a slow one.
func TestSlowAllocation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &chosen{known: true, allocator: stuck{}, pending: []*resourceapi.ResourceClaim{{}}}
		c.once.Do(func() {})
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if c.on(ended, nodeNamed("ended"), fleet.Pod{}) != nil || c.slow.Load() {
			t.Error("a cycle that has ended is slow")
		}
		begun := time.Now()
		for i := range 5000 {
			if c.on(t.Context(), nodeNamed(fmt.Sprint(i)), fleet.Pod{}) != nil {
				t.Fatal("the devices are known")
			}
		}
		if took := time.Since(begun); took > 2*allocationTime {
			t.Errorf("5,000 nodes took %s", took)
		}
	})
}

func nodeNamed(name string) *v1.Node { return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }
