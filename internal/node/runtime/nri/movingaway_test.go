package nri_test

import (
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/core/moves"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/runtime/nri"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

// While the agent is away, the containers of a pod that is being moved are created again and run on
// all CPUs, and the time for the step passes. The agent moves them to the new place, and then takes
// the move back before it has seen that they are there. No container may get CPUs that another
// container of the pod may still have alone.
func TestMoveIsTakenBackAfterAnAbsence(t *testing.T) {
	b, w := newBench(t.Context()), &watcher{}
	b.policy.Scope = node.ContainerScope
	b.policy.Moves = node.MovePolicy{Pods: 2, Bytes: 1 << 30}
	b.moves = nri.MovesConfig{Interval: time.Minute, Observer: w}
	b.list(consents(guaranteed("c", 2), request.MoveMemory), burstable("web"))
	b.start()
	defer b.check(t)
	b.mustRun(t, "c", "web")
	b.clock.pass(15 * time.Second)
	b.plugin.Reconcile(t.Context())
	b.pages = map[string]map[int]int64{}
	for _, id := range b.of("c") { // pages that do not move
		b.pages[b.runs[id].c.GetLinux().GetCgroupsPath()] = map[int]int64{0: 32 << 20, 1: 32 << 20}
	}
	s := b.engine.State()
	from, _ := s.Grant("c")
	place := scenario.Elsewhere(s, from)
	if err := b.plugin.Carry(t.Context(), []moves.Move{{From: from, To: place.Grant}}, false); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		b.clock.pass(time.Second)
		b.plugin.Reconcile(t.Context())
	}
	b.want(t, "in the last step", map[string]string{"c/app": "4-5 on {1} no quota", "c/log": "0-1,6-7 on {0}", "web/web": "0-1,6-7 on {}"})

	b.disconnect()
	b.stop("c")
	b.mustRun(t, "c")
	b.clock.pass(40 * time.Second)
	b.connect()
	for range 6 {
		b.clock.pass(5 * time.Second) // The agent does not wait for replies any more.
		b.plugin.Reconcile(t.Context())
	}
	b.want(t, "taken back", map[string]string{"c/app": "2-3 on {0} no quota", "c/log": "0-1,4-7 on {0}", "web/web": "0-1,4-7 on {}"})
	if ended := w.ended(); len(ended) != 1 || ended[0] {
		t.Errorf("the move ended %v", ended)
	}
}
