package explain_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/explain"
)

// TestSpreadIsCured checks that a reported pod has CPUs on several sockets, and that on a node with
// the proposed options it has CPUs on one socket, as reported.
func TestSpreadIsCured(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := drawNode(rt)
		s, pod, ok := d.state()
		if !ok {
			return
		}
		plan := s.Plan(pod)
		found := explain.SpreadOf(s, plan)
		if found == nil {
			return
		}
		sockets := func(g *node.Grant) int {
			n := 0
			for _, u := range s.Machine().Sockets() {
				cpus := g.CPUs()
				for i := range g.Containers {
					if g.Pod.Containers[i].Name == found.Container {
						cpus = g.Containers[i].CPUs
					}
				}
				if u.CPUs.IntersectionLen(cpus) > 0 {
					n++
				}
			}
			return n
		}
		policy := s.Policy()
		switch found.Settings[0].Field {
		case "topologyManagerPolicyOptions[prefer-closest-numa-nodes]":
			policy.PreferClosest = true
		case "cpuManagerPolicyOptions[align-by-socket]":
			policy.CPU.AlignBySocket = true
		case "cpuManagerPolicyOptions[distribute-cpus-across-numa]":
			policy.CPU.DistributeAcrossNUMA = false
		}
		with, err := node.Restore(s.Machine(), policy, s.Grants())
		if err != nil {
			d.fatalf("%s: %v", found.Text, err)
		}
		cured := with.Plan(pod)
		if before := sockets(plan.Grant); before != len(found.Sockets) || before < 2 {
			d.fatalf("it is on %d sockets, and named with %v", before, found.Sockets)
		}
		if cured.Grant == nil || sockets(cured.Grant) != 1 {
			d.fatalf("%s: it is not on one socket: %v", found.Text, cured.Rejection)
		}
	})
}
