package intake_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/codec/objects"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/engine"
	"github.com/paddock-project/paddock/internal/node/intake"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

// large returns a node with 256 CPUs on 8 NUMA nodes, and 100 pods with one CPU each.
func large(b *testing.B) *node.State {
	m := scenario.Machine("sockets=2 numa=4 cores=16 threads=2 memory=64Gi")
	s, err := node.New(m, node.Policy{Topology: node.TopologyRestricted, Scope: node.PodScope, StaticCPU: true, ReservedCPUs: cpuset.Of(0, 128), StaticMemory: true})
	if err != nil {
		b.Fatal(err)
	}
	for i := range 100 {
		if s, err = s.Apply(s.Plan(pod(fmt.Sprint("resident", i), 1))); err != nil {
			b.Fatal(err)
		}
	}
	return s
}

func pod(uid string, cpus int) request.Pod {
	return request.Pod{Identity: request.Identity{UID: uid, Namespace: "default", Name: uid}, Ask: request.Ask{QoS: request.Guaranteed, Containers: []request.Container{
		{Name: "main", Type: request.App, CPUs: cpus, Equivalent: true, Memory: request.Amounts{{Resource: request.Memory, Value: 1 << 30}}},
	}}}
}

// BenchmarkPlan measures what the handover adds to a decision. "alone" is the planner. "handed" is
// a pod with its grant. "besides" is a pod without a grant, in a state that is new every time, on a
// node with 20 promises.
func BenchmarkPlan(b *testing.B) {
	s := large(b)
	o, err := objects.Machine(s.Machine())
	if err != nil {
		b.Fatal(err)
	}
	policy, err := handover.PolicyDigest(s.Policy())
	if err != nil {
		b.Fatal(err)
	}
	listing := &handover.Listing{Pods: map[string]handover.Bound{}}
	with := s
	for i := range 20 {
		p := pod(fmt.Sprint("promised", i), 4)
		plan := with.Plan(p)
		text, err := handover.Encode("n7", o.Name, policy, plan.Grant)
		if err != nil {
			b.Fatal(err)
		}
		if with, err = with.Apply(plan); err != nil {
			b.Fatal(err)
		}
		listing.Pods[p.UID] = handover.Bound{Pod: p, Annotation: text}
	}
	c := intake.Config{Node: "n7", Listing: func() *handover.Listing { return listing }, Now: time.Now, Log: slog.New(slog.DiscardHandler)}
	i := intake.New(c)
	first := listing.Pods["promised0"]
	b.Run("alone", func(b *testing.B) {
		for b.Loop() {
			s.Plan(first.Pod)
		}
	})
	b.Run("handed", func(b *testing.B) {
		for b.Loop() {
			if plan, o := i.Plan(s, engine.Candidate{Pod: first.Pod, Handed: first.Annotation}); plan.Grant == nil || !o.Applied() {
				b.Fatal(plan.Rejection, o.Err)
			}
		}
	})
	b.Run("besides", func(b *testing.B) {
		foreign := pod("foreign", 4)
		for b.Loop() {
			reserved := s.WithReservations(i.Reservations(s))
			if plan, _ := i.Plan(reserved, engine.Candidate{Pod: foreign}); plan.Grant == nil {
				b.Fatal(plan.Rejection)
			}
		}
	})
}
