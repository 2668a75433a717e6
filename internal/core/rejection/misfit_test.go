package rejection_test

import (
	"fmt"
	"testing"

	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

// TestManyGivenDevices checks that a sentence names a few devices, and counts the others.
func TestManyGivenDevices(t *testing.T) {
	const apart = ": more NUMA nodes than the topology policy admits for them; a retry on this node gets the same devices"
	const sixteen = "d0, d1, d2, d3, d4, d5, d6, d7, d8, d9, d10, d11, d12, d13, d14, d15 on NUMA node 0"
	for _, c := range []struct {
		on   func(i int) int // the NUMA node of a device
		n    int
		want string
	}{
		{func(i int) int { return i }, 2, "d0 on NUMA node 0, d1 on NUMA node 1"},
		{func(i int) int { return i }, 5, "d0 on NUMA node 0, d1 on NUMA node 1, d2 on NUMA node 2 and 2 more devices"},
		{func(int) int { return 0 }, 16, sixteen},
		{func(int) int { return 0 }, 1000, sixteen + " and 984 more devices"},
		{func(i int) int { return i / 16 }, 1000, sixteen + " and 984 more devices"},
	} {
		m := &rejection.Misfit{}
		for i := range c.n {
			m.Devices = append(m.Devices, request.Given{Driver: "gpu.example.com", Name: fmt.Sprintf("d%d", i), Nodes: mask.Of(c.on(i))})
		}
		if got := m.String(); got != c.want+apart {
			t.Errorf("%d devices: %s\nwant %s", c.n, got, c.want+apart)
		}
	}
}
