package node_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// TestSlicesPairwise compares Restore, which walks the containers of a pool once, with a walk over
// all pairs of them.
func TestSlicesPairwise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := &node.Grant{Sequence: 1, Pool: cpuset.Of(0, 1, 2, 3, 4, 5)}
		g.Pod = request.Pod{Identity: request.Identity{UID: "u", Namespace: "default", Name: "p"}, Ask: request.Ask{QoS: request.Guaranteed, Kind: request.PodLevel, BudgetCPUs: 6, BudgetCPUMilli: 6000}}
		for i := range rapid.IntRange(1, 6).Draw(t, "containers") {
			cpus := cpuset.Of(rapid.SliceOfNDistinct(rapid.IntRange(0, 5), 0, 3, rapid.ID[int]).Draw(t, "cpus")...)
			c := request.Container{Name: fmt.Sprintf("c%d", i), Type: rapid.SampledFrom([]request.ContainerType{request.Init, request.Sidecar, request.App}).Draw(t, "lane")}
			if rapid.Bool().Draw(t, "exclusive") {
				c.CPUs = max(1, cpus.Len())
			}
			g.Pod.Containers = append(g.Pod.Containers, c)
			g.Containers = append(g.Containers, node.ContainerGrant{CPUs: cpus})
		}
		want := firstPair(g)
		err := node.CheckSlices(g)
		if (err == nil) != (want == "") || err != nil && !strings.HasSuffix(err.Error(), want) {
			t.Fatalf("%+v\ngot  %v\nwant %s", g, err, want)
		}
	})
}

// firstPair returns the first container, and the first one before it, that have a CPU in common and
// must not.
func firstPair(g *node.Grant) string {
	for i := range g.Containers {
		for k := range i {
			a, b := g.Pod.Containers[k], g.Pod.Containers[i]
			both := g.Containers[k].CPUs.Intersection(g.Containers[i].CPUs)
			exclusive := a.CPUs > 0 || b.CPUs > 0 && b.Type != request.Init
			if a.Type != request.Init && exclusive && !both.IsEmpty() {
				return fmt.Sprintf("containers %s and %s both have CPUs %s", a.Name, b.Name, both)
			}
		}
	}
	return ""
}
