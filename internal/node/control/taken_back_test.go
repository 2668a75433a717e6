package control

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/core/moves"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// TestAbandonedMoves: a set of moves whose sender gave up before it had the answer ends, and its
// pod has no place any more. Another set may begin at once.
func TestAbandonedMoves(t *testing.T) {
	w := newWorld(t)
	p := request.Pod{UID: "big", Namespace: "default", Name: "big"}
	set := Carry{Pod: &p, Left: []moves.Move{{From: &node.Grant{}, To: &node.Grant{}}}}
	begun, _ := w.step(set).(Begun)
	if begun.Err != nil {
		t.Fatal(begun.Err)
	}
	if again, _ := w.step(set).(Begun); !errors.Is(again.Err, errBusy) {
		t.Fatalf("a second set begins: %+v", again)
	}
	if w.step(Abandoned{begun.Room + 1}); w.loop.room == nil {
		t.Error("the end of another set ends this one")
	}
	loop, actions := Step(w.loop, Event{Engine: w.engine(), Of: Abandoned{begun.Room}}, w.now)
	if w.loop = loop; !slices.ContainsFunc(actions, func(a Action) bool { return a == Action(DropPlace{"big"}) }) {
		t.Errorf("the place is still promised: %v", actions)
	}
	if again, _ := w.step(set).(Begun); again.Err != nil {
		t.Errorf("after the set has ended: %v", again.Err)
	}
}

// TestWithdrawnResize: a pod that no longer asks for a resize that was rejected is not reported
// with it any more, once the kubelet's list is certainly newer than the rejection.
func TestWithdrawnResize(t *testing.T) {
	w := newWorld(t)
	p := request.Pod{UID: "g", Namespace: "default", Name: "g", QoS: request.Guaranteed, Containers: []request.Container{{Name: "app", Type: request.App, CPUs: 1}}}
	plan := w.state.Plan(p)
	if plan.Rejection != nil {
		t.Fatal(plan.Rejection)
	}
	next, err := w.state.Apply(plan)
	if err != nil {
		t.Fatal(err)
	}
	w.apply(next)
	w.step(Resized{Of: Rejection{Pod: p, Err: errors.New("no room")}})
	for _, c := range []struct {
		after time.Duration
		want  int
	}{{time.Second, 1}, {carriedOut, 0}} {
		w.now = w.now.Add(c.after)
		w.step(LatestListed{Pods: map[string]Latest{"g": {Pod: p}}})
		if n := len(w.status.Vetoes); n != c.want {
			t.Errorf("%s after the rejection %d resizes are reported as rejected, want %d", c.after, n, c.want)
		}
	}
}
