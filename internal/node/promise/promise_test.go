package promise_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/moves"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/promise"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

func pod(uid string, cpus int) request.Pod {
	return request.Pod{Identity: request.Identity{UID: uid, Namespace: "default", Name: uid}, Ask: request.Ask{QoS: request.Guaranteed, Containers: []request.Container{
		{Name: "app", Type: request.App, CPUs: cpus, Equivalent: true, Memory: request.Amounts{{Resource: machine.Memory, Value: 64 << 20}}},
	}}}
}

// world returns an empty node with eight CPUs on two NUMA nodes.
func world(t *testing.T) *node.State {
	t.Helper()
	m := scenario.Machine("numa=2 cores=4 memory=1Gi")
	s, err := node.New(m, node.Policy{
		Topology: node.TopologyRestricted, Scope: node.PodScope, StaticCPU: true, ReservedCPUs: cpuset.Of(0),
		StaticMemory: true, ReservedMemory: map[int]map[string]int64{0: {machine.Memory: 64 << 20}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// promised returns a state with the reservations of a keeper.
func promised(s *node.State, k *promise.Keeper) *node.State {
	return s.WithReservations(k.Reservations())
}

// beside returns a state in which the free parts of these grants are reserved, so that no pod gets
// them.
func beside(s *node.State, grants ...*node.Grant) *node.State {
	var list []node.Reservation
	for _, g := range grants {
		place := *g
		place.Pod.UID = ""
		list = append(list, node.Reservation{Grant: &place})
	}
	return s.WithReservations(list)
}

func admit(t *testing.T, s *node.State, p request.Pod) *node.State {
	t.Helper()
	made := s.Plan(p)
	if made.Rejection != nil {
		t.Fatal(made.Rejection)
	}
	next, err := s.Apply(made)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// TestPromise: "big" has a promise of NUMA node 1, which "small" leaves for NUMA node 0. Other pods
// get neither place until the promise ends.
func TestPromise(t *testing.T) {
	now := time.Unix(0, 0)
	k := promise.New(func() time.Time { return now })
	plan := func(s *node.State, p request.Pod) *node.Plan { return promised(s, k).Plan(p) }
	s := admit(t, world(t), pod("first", 3)) // It has NUMA node 0.
	s = admit(t, s, pod("small", 1))
	s = s.Release("first")
	big, other := pod("big", 4), pod("other", 3)
	small, _ := s.Grant("small")
	to := beside(s.Release("small"), small, world(t).Plan(big).Grant).Replan(small)
	place := s.Release("small").Plan(big)
	if to.Rejection != nil || place.Rejection != nil {
		t.Fatal(to.Rejection, place.Rejection)
	}
	k.Keep(big.UID, place.Grant, []*node.Grant{to.Grant})
	if made := plan(s, big); made.Rejection == nil {
		t.Error("big fits before small has moved")
	}
	if made := plan(s, other); made.Rejection == nil {
		t.Errorf("other gets %v", made.Grant)
	}
	moving, err := s.BeginMove(to.Grant)
	if err != nil {
		t.Fatal(err)
	}
	if made := plan(moving, other); made.Rejection == nil {
		t.Errorf("other gets %s during the move", made.Grant.CPUs())
	}
	moved := moving.EndMove("small", true)
	if made := plan(moved, pod("tiny", 1)); made.Rejection != nil || made.Grant.CPUs().Intersects(place.Grant.CPUs()) {
		t.Errorf("tiny: %v, %v", made.Rejection, made.Grant)
	}
	made := plan(moved, big)
	if made.Rejection != nil || !made.Grant.CPUs().Equal(place.Grant.CPUs()) {
		t.Errorf("big: %v, %v", made.Rejection, made.Grant)
	}
	k.Until(big.UID, now.Add(time.Minute))
	if made := plan(moved, pod("four", 4)); made.Rejection == nil {
		t.Error("the place is given away while it is promised")
	}
	now = now.Add(time.Minute)
	if made := plan(moved, pod("four", 4)); made.Rejection != nil {
		t.Error(made.Rejection)
	}
	k.Keep(big.UID, place.Grant, nil)
	k.Drop("another")
	if made := plan(moved, pod("four", 4)); made.Rejection == nil {
		t.Error("the promise of another pod has ended")
	}
	if kept := admit(t, promised(moved, k), big); kept.SharedCPUs().Intersects(place.Grant.CPUs()) {
		t.Error("big does not have its place")
	} else if made := plan(kept, pod("tiny", 1)); made.Rejection != nil {
		t.Errorf("the promise counts twice once it is kept: %v", made.Rejection)
	}
	k.Drop(big.UID)
	if made := plan(moved, pod("four", 4)); made.Rejection != nil {
		t.Error(made.Rejection)
	}
}

// TestResize: a pod that grows takes neither the place that is promised to "big", nor the place to
// which "small" moves for it. This is checked before the move, during the move and after it.
func TestResize(t *testing.T) {
	now := time.Unix(0, 0)
	k := promise.New(func() time.Time { return now })
	resize := func(s *node.State, p request.Pod) *node.Plan { return promised(s, k).Resize(p.UID, p) }
	s := admit(t, world(t), pod("first", 2)) // With "grows" it has NUMA node 0.
	s = admit(t, s, pod("grows", 1))
	s = admit(t, s, pod("small", 1))
	s = s.Release("first")
	big := pod("big", 4)
	small, _ := s.Grant("small")
	place := s.Release("small").Plan(big)
	to := beside(s.Release("small"), small, place.Grant).Replan(small)
	if place.Rejection != nil || to.Rejection != nil {
		t.Fatal(place.Rejection, to.Rejection)
	}
	reserved := place.Grant.CPUs().Union(to.Grant.CPUs())
	k.Keep(big.UID, place.Grant, []*node.Grant{to.Grant})
	check := func(when string, s *node.State) {
		t.Helper()
		if alone := s.Resize("grows", pod("grows", 2)); when == "before" && !alone.Grant.CPUs().Intersects(reserved) {
			t.Fatalf("%s: alone it gets %s, which is not promised", when, alone.Grant.CPUs())
		}
		plan := resize(s, pod("grows", 2))
		next, err := s.Apply(plan)
		if err != nil || plan.Grant == nil || plan.Grant.CPUs().Intersects(reserved) {
			t.Fatalf("%s: %v, %v; it gets %+v, and %s is promised", when, err, plan.Rejection, plan.Grant, reserved)
		}
		if err := next.Check(); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		if plan := resize(s, pod("grows", 8)); plan.Rejection == nil || plan.Rejection.Reason != rejection.Infeasible {
			t.Errorf("%s: 8 CPUs: %v", when, plan.Rejection)
		}
	}
	check("before", s)
	if plan := resize(s, pod("grows", 3)); plan.Rejection == nil || plan.Rejection.Reason != rejection.Deferred || !strings.Contains(plan.Rejection.Detail, "reserved for pod default/big") {
		t.Errorf("it grows into what is promised: %v, %+v", plan.Rejection, plan.Grant)
	}
	moving, err := s.BeginMove(to.Grant)
	if err != nil {
		t.Fatal(err)
	}
	check("during the move", moving)
	moved := moving.EndMove("small", true)
	check("after the move", moved)
	k.Until(big.UID, now.Add(time.Minute))
	check("until it ends", moved)
	if now = now.Add(time.Minute); resize(moved, pod("grows", 2)).Rejection != nil {
		t.Error("a promise that has ended is kept")
	}
}

// TestPromiseIsKept: other pods come, grow and go while the moves for a pod are under way. All
// moves can still be made, and then the pod gets its place.
func TestPromiseIsKept(t *testing.T) {
	sets, grown, vetoed := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		k, h := promise.New(time.Now), drawn{T: t}
		h.s = h.fragmented()
		big := h.pod("big", 4, 8)
		found := moves.Find(h.s, big, moves.Terms{Bytes: 1 << 40, BothPlaces: true})
		if found.Set == nil {
			return
		}
		sets++
		place, left := found.Set.Plan.Grant, found.Set.Moves
		var targets []*node.Grant
		for _, m := range left {
			targets = append(targets, m.To)
		}
		k.Keep(big.UID, place, targets)
		h.s = promised(h.s, k)
		for len(left) > 0 {
			for range rapid.IntRange(0, 4).Draw(t, "steps") {
				done, deferred := h.step(found.Set.Moves)
				grown, vetoed = grown+done, vetoed+deferred
			}
			uid := left[0].To.Pod.UID
			if g, _ := h.s.Grant(uid); g.Moving != nil {
				h.s, left = h.s.EndMove(uid, true), left[1:]
				continue
			}
			moving, err := h.s.BeginMove(left[0].To)
			if err != nil {
				t.Fatalf("a move of the set is not possible any more: %v", err)
			}
			h.s = moving
		}
		h.step(found.Set.Moves)
		plan := h.s.Plan(big)
		if plan.Rejection != nil || !plan.Grant.SameAssignments(place) {
			t.Fatalf("%v; it gets %+v, and %s was promised", plan.Rejection, plan.Grant, place.CPUs())
		}
		if _, err := h.s.Apply(plan); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("%d sets of moves, %d pods resized beside them, %d resizes rejected", sets, grown, vetoed)
}

// drawn is a random node. Its state has the reservations of a promise once that was made.
type drawn struct {
	*rapid.T
	s    *node.State
	pods int
}

func (h *drawn) pod(uid string, least, most int) request.Pod {
	p := pod(uid, rapid.IntRange(least, most).Draw(h.T, "CPUs"))
	p.Containers[0].Memory[0].Value *= rapid.Int64Range(1, 6).Draw(h.T, "memory")
	p.Moves = rapid.SampledFrom([]request.Consent{request.MoveMemory, request.MoveCPUs, request.NeverMoves}).Draw(h.T, "consent")
	return p
}

// fragmented returns a machine with two to four NUMA nodes from which some of the pods have gone.
func (h *drawn) fragmented() *node.State {
	m := scenario.Machine(fmt.Sprintf("numa=%d cores=4 threads=2 numbering=adjacent memory=2Gi", rapid.IntRange(2, 4).Draw(h.T, "NUMA nodes")))
	policy := node.Policy{
		Topology:  rapid.SampledFrom([]node.TopologyPolicy{node.TopologyRestricted, node.TopologySingleNUMANode, node.TopologyBestEffort}).Draw(h.T, "topology"),
		StaticCPU: true, ReservedCPUs: cpuset.Of(0), Scope: node.PodScope,
	}
	if rapid.Bool().Draw(h.T, "static memory") {
		policy.StaticMemory, policy.ReservedMemory = true, map[int]map[string]int64{0: {machine.Memory: 64 << 20}}
	}
	s, err := node.New(m, policy)
	if err != nil {
		h.Fatal(err)
	}
	for range rapid.IntRange(4, 16).Draw(h.T, "pods") {
		h.pods++
		if next, err := s.Apply(s.Plan(h.pod(fmt.Sprint("p", h.pods), 1, 4))); err == nil {
			s = next
		}
	}
	for _, g := range slices.Clone(s.Grants()) {
		if rapid.IntRange(0, 2).Draw(h.T, "goes") == 0 {
			s = s.Release(g.Pod.UID)
		}
	}
	return s
}

// step adds, removes or resizes a pod. It does not remove a pod of the set.
func (h *drawn) step(set []moves.Move) (resized, rejected int) {
	h.pods++
	if grants := h.s.Grants(); len(grants) > 0 && rapid.IntRange(0, 2).Draw(h.T, "an old pod") > 0 {
		g := rapid.SampledFrom(grants).Draw(h.T, "pod")
		if rapid.IntRange(0, 4).Draw(h.T, "goes") == 0 {
			if !slices.ContainsFunc(set, func(m moves.Move) bool { return m.To.Pod.UID == g.Pod.UID }) {
				h.s = h.s.Release(g.Pod.UID)
			}
			return 0, 0
		}
		asked := h.pod(g.Pod.UID, g.Pod.Containers[0].CPUs, 8)
		asked.Moves = g.Pod.Moves
		plan := h.s.Resize(asked.UID, asked)
		if plan.Rejection != nil {
			return 0, 1
		}
		h.apply(plan)
		return 1, 0
	}
	if plan := h.s.Plan(h.pod(fmt.Sprint("p", h.pods), 1, 4)); plan.Rejection == nil {
		h.apply(plan)
	}
	return 0, 0
}

func (h *drawn) apply(plan *node.Plan) {
	next, err := h.s.Apply(plan)
	if err == nil {
		err = next.Check()
	}
	if err != nil {
		h.Fatal(err)
	}
	h.s = next
}
