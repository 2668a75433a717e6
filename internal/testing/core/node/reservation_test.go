package node_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// TestReservations checks that, beside grants that are on their way, a pod comes and grows as if
// their pods had started. What is reserved stays reserved, each of the pods can have it, and a
// restart has none of the reservations.
func TestReservations(t *testing.T) {
	setChecksTo(t, histories)
	decided, grown := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		h := start(t)
		for range h.intn(1, 6, "steps") {
			h.step()
		}
		s := h.state()
		with, list := s, []node.Reservation{}
		for range h.intn(1, 4, "reserved") {
			pod, is := h.another(with)
			if plan := with.Plan(pod); is && plan.Grant != nil {
				with = h.apply(with, plan)
				list = append(list, node.Reservation{Grant: plan.Grant, Why: node.OnItsWay})
			}
		}
		beside := s.WithReservations(list)
		h.sound(beside, len(list))
		if pod, is := h.another(with); is {
			decided++
			h.sameDecision(beside.Plan(pod), with.Plan(pod))
			h.sound(h.apply(beside, beside.Plan(pod)), len(list))
		}
		if len(s.Grants()) > 0 {
			g := s.Grants()[h.intn(0, len(s.Grants())-1, "pod")]
			if _, unknown := h.n.Request(g.Pod.Name); unknown == nil && h.describeResized(g.Pod.Name) {
				asked, err := h.n.Request(g.Pod.Name)
				if err != nil {
					h.fatalf("%v", err)
				}
				grown++
				h.sameDecision(beside.Resize(asked.UID, asked), with.Resize(asked.UID, asked))
				h.sound(h.apply(beside, beside.Resize(asked.UID, asked)), len(list))
			}
		}
		for i, r := range list {
			plan, err := beside.PlanGrant(r.Grant.Pod, r.Grant)
			if err != nil || !plan.Grant.SameAssignments(r.Grant) {
				h.fatalf("%s does not get what is reserved for it: %v", r.Grant.Pod.ID(), err)
			}
			beside = h.apply(beside, plan)
			h.sound(beside, len(list)-1-i)
		}
	})
	t.Logf("%d pods planned, %d resized beside reservations", decided, grown)
}

// another describes a new pod.
func (h *history) another(s *node.State) (request.Pod, bool) {
	name := h.describePod()
	if _, known := s.Grant(name); known || name == "" {
		return request.Pod{}, false
	}
	pod, err := h.n.Request(name)
	if err != nil {
		h.fatalf("%v", err)
	}
	return pod, true
}

func (h *history) apply(s *node.State, plan *node.Plan) *node.State {
	next, err := s.Apply(plan)
	if err != nil {
		h.fatalf("%v", err)
	}
	return next
}

// sound checks a state in which that many reservations are in force, and that it is the same state
// without them.
func (h *history) sound(s *node.State, inForce int) {
	again := s.WithReservations(s.Reservations())
	for _, s := range []*node.State{s, again, s.WithReservations(nil)} {
		if err := s.Check(); err != nil {
			h.fatalf("%v", err)
		}
	}
	if n := s.Reserved(node.OnItsWay); n != inForce || again.Reserved(node.OnItsWay) != n {
		h.fatalf("%d reservations are in force, want %d", n, inForce)
	}
	if again.WithReservations(s.Reservations()) != again {
		h.fatalf("the same reservations make a new state")
	}
}

func (h *history) sameDecision(a, b *node.Plan) {
	switch {
	case (a.Rejection == nil) != (b.Rejection == nil) || a.Trace.Cause != b.Trace.Cause:
		h.fatalf("beside what is reserved the answer is %v, and beside the pods themselves %v", a.Rejection, b.Rejection)
	case a.Rejection == nil && !a.Grant.SameAssignments(b.Grant):
		h.fatalf("beside what is reserved a pod gets %s, and beside the pods themselves %s", a.Grant.CPUs(), b.Grant.CPUs())
	}
}

// TestReservationYields checks that a grant that was made elsewhere takes what is reserved for
// another pod on its way, which then has no place. When the grant ends, that pod has its place
// again.
func TestReservationYields(t *testing.T) {
	s := timingNode(t, 2, node.TopologyRestricted)
	waits, comes := timingPod(false), timingPod(false)
	waits.UID, waits.Name, comes.UID, comes.Name = "waits", "waits", "comes", "comes"
	place := s.Plan(waits).Grant
	s = s.WithReservations([]node.Reservation{{Grant: place, Why: node.OnItsWay}})
	if own := s.Plan(comes).Grant; own.CPUs().Intersects(place.CPUs()) {
		t.Errorf("a pod gets %s, and %s is reserved", own.CPUs(), place.CPUs())
	}
	plan, err := s.PlanGrant(comes, place)
	if err != nil {
		t.Fatal(err)
	}
	taken, err := s.Apply(plan)
	if err != nil {
		t.Fatal(err)
	}
	for state, want := range map[*node.State]int{s: 1, taken: 0, taken.Release("comes"): 1} {
		if n := state.Reserved(node.OnItsWay); n != want || state.Check() != nil {
			t.Errorf("%d reservations are in force, want %d; %v", n, want, state.Check())
		}
	}
	s = s.WithReservations([]node.Reservation{{Grant: place, Why: node.RoomForPod}})
	if _, err := s.PlanGrant(comes, place); err == nil {
		t.Error("room that moves make is taken")
	}
	if own := s.Plan(waits).Grant; own == nil || !own.SameAssignments(place) {
		t.Error("the pod does not get its room")
	}
}
