package device

import (
	"fmt"
	"testing"

	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/mask"
)

// BenchmarkAdmission measures the hints, the allocation and the accounting for one container: on
// eight NUMA nodes with a device each, and with 10,000 shares of a device.
func BenchmarkAdmission(b *testing.B) {
	for _, n := range []int{8, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var devices []Device
			for i := range n {
				devices = append(devices, Device{ID: fmt.Sprintf("d%05d", i), Healthy: true, Nodes: mask.Of(i % 8)})
			}
			inv, err := NewInventory(machineOf(b, 0, 1, 2, 3, 4, 5, 6, 7), map[string][]Device{gpu: devices})
			if err != nil {
				b.Fatal(err)
			}
			u := NewUsage(inv)
			b.ReportAllocs()
			for b.Loop() {
				f := u.Hints(gpu, int64(n/4), nil)
				ids, err := u.Allocate(gpu, int64(n/4), hint.Choice{Mask: f.Candidates, HasMask: true}, nil)
				if err == nil {
					_, err = u.Take(gpu, ids)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
