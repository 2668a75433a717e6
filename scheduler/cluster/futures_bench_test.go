package cluster_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/scheduler/cluster"
)

// BenchmarkReserveInEveryOrder measures a reservation on an observed node beside pods that wait for
// the kubelet's decision, and pods that ended after those were bound.
func BenchmarkReserveInEveryOrder(b *testing.B) {
	for _, n := range []struct{ waiting, gone int }{{0, 0}, {1, 0}, {3, 0}, {1, 2}, {2, 2}} {
		b.Run(fmt.Sprintf("%d-wait-%d-ended", n.waiting, n.gone), func(b *testing.B) {
			w := &world{pods: map[string]*v1.Pod{}}
			c := w.cluster(func(error) {})
			c.Update("n", &cluster.Source{Node: observed(b)})
			var grants []*node.Grant
			for i := range n.gone {
				w.set(bound(pod(fmt.Sprint("old", i), 1), ""))
			}
			for i := range n.gone {
				g, _ := c.After("n").View.State.Grant(fmt.Sprint("old", i))
				grants = append(grants, g)
			}
			c.Update("n", &cluster.Source{Node: observed(b, grants...)})
			for i := range n.waiting {
				w.set(bound(pod(fmt.Sprint("waits", i), 1), ""))
			}
			asked, err := cluster.Read(pod("asked", 1), c.After("n").Gates)
			if err != nil {
				b.Fatal(err)
			}
			for i := range n.gone {
				w.remove(fmt.Sprint("old", i))
			}
			c.After("n")
			for b.Loop() {
				if _, err := c.Reserve("n", asked); err != nil {
					b.Fatal(err)
				}
				c.Unreserve("n", "asked")
			}
		})
	}
}
