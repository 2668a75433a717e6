package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/podsource/manifests"
	"github.com/paddock-project/paddock/internal/store/crashfs"
)

// TestRefusedPodIsAdmittedWhenThereIsRoom: and is not planned again before something changed.
func TestRefusedPodIsAdmittedWhenThereIsRoom(t *testing.T) {
	b := newBench(t)
	a := b.start()
	follow(t, a, "big 5", "later 4", "web")
	same(t, "running", runs(a), "big/c=1,4-7 web/c=0,2-3")
	contains(t, "log", b.log.take(), `"msg":"pod refused"`, `"pod":"default/later"`)
	a.keeper.tick(t.Context()) // Something has changed: web came after it.
	b.log.take()
	a.keeper.tick(t.Context())
	if log := b.log.take(); strings.Contains(log, "refused") {
		t.Errorf("asked again although nothing changed:\n%s", log)
	}
	follow(t, a, "later 4", "web")
	same(t, "running", runs(a), "later/c=4-7 web/c=0-3")
	contains(t, "log", b.log.take(), `"msg":"pod released"`, `"msg":"pod admitted"`)
}

// TestLostUpdateIsRepaired by the next tick, and so is what somebody else wrote.
func TestLostUpdateIsRepaired(t *testing.T) {
	a := newBench(t).start()
	follow(t, a, "web")
	for range 2 { // One comparison before the pod is made, one after it.
		a.runtime.LoseNextUpdate("web", "c")
	}
	follow(t, a, "web", "db 2")
	same(t, "after the loss", runs(a), "db/c=1-2 web/c=0-7")
	a.keeper.tick(t.Context())
	same(t, "after the tick", runs(a), "db/c=1-2 web/c=0,3-7")
	if err := a.runtime.Drift("db", "c", converge.Setting{CPUs: cpuset.Of(7)}); err != nil {
		t.Fatal(err)
	}
	a.keeper.tick(t.Context())
	same(t, "after the drift", runs(a), "db/c=1-2 web/c=0,3-7")
}

// TestContainerThatIsNotMade keeps its pod's grant, and the next tick tries again.
func TestContainerThatIsNotMade(t *testing.T) {
	b := newBench(t)
	a := b.start()
	a.runtime.FailNextCreate("db", "c", errors.New("no image"))
	follow(t, a, "db 2")
	same(t, "running", runs(a), "")
	contains(t, "log", b.log.take(), `"msg":"pod not started"`, "no image")
	a.keeper.tick(t.Context())
	same(t, "running", runs(a), "db/c=1-2")
}

// TestManifestsThatCannotBeRead: no pod is released for a typo.
func TestManifestsThatCannotBeRead(t *testing.T) {
	b := newBench(t)
	a := b.start()
	follow(t, a, "db 2")
	broken := manifests.Set{Partial: true, Broken: []manifests.Problem{{File: "x.yaml", Err: errors.New("x.yaml: line 1")}}}
	for range 2 {
		a.keeper.follow(t.Context(), broken)
	}
	same(t, "held", holds(a.engine.State()), "db=1-2")
	log := b.log.take()
	contains(t, "log", log, "no pod is released", `"file":"x.yaml"`)
	if strings.Count(log, "manifest not usable") != 1 {
		t.Errorf("want the problem once:\n%s", log)
	}
}

// TestFullDisk: nobody is admitted, who was there runs on, and readiness says what is wrong; when
// there is space again, all is as it should be at the next tick.
func TestFullDisk(t *testing.T) {
	b := newBench(t)
	a := b.start()
	follow(t, a, "db 2", "gone 1")
	b.disk.Inject(crashfs.From(0, syscall.ENOSPC, crashfs.Full...))
	b.log.take()
	follow(t, a, "db 2", "new 3", "other 1")
	same(t, "running", runs(a), "db/c=1-2")
	same(t, "held", holds(a.engine.State()), "db=1-2 gone=3")
	log := b.log.take()
	contains(t, "log", log, "no space left on device", "free some space on the file system of /var/lib/paddock", "holds its CPUs until the state can be written")
	if strings.Count(log, "pod not admitted") != 1 {
		t.Errorf("want one attempt to write a new pod, not one for each:\n%s", log)
	}
	if err := a.health.ready(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("ready with a full disk: %v", err)
	}
	b.disk.Inject(nil)
	a.keeper.tick(t.Context())
	same(t, "running", runs(a), "db/c=1-2 new/c=4-6 other/c=3")
	if err := a.health.ready(); err != nil {
		t.Error(err)
	}
}

// TestDiskIsFullAtTheStart: an agent with pods is better than none.
func TestDiskIsFullAtTheStart(t *testing.T) {
	b := newBench(t)
	a := b.start()
	follow(t, a, "db 2")
	b.disk.Kill()
	b.disk.Inject(crashfs.From(0, syscall.ENOSPC, crashfs.Full[1:]...))
	a = b.start()
	follow(t, a, "db 2", "new 3")
	same(t, "running", runs(a), "db/c=1-2")
	if a.health.ready() == nil {
		t.Error("ready with a full disk")
	}
	b.disk.Inject(nil)
	follow(t, a, "db 2")
	a.keeper.tick(t.Context())
	if err := a.health.ready(); err != nil {
		t.Errorf("nothing changes, and the disk works again: %v", err)
	}
}

// TestEndComesBetweenTwoPods: an agent that is to end does not work through all manifests first.
func TestEndComesBetweenTwoPods(t *testing.T) {
	a := newBench(t).start()
	follow(t, a, "a 1")
	ctx, end := context.WithCancel(t.Context())
	end()
	a.keeper.follow(ctx, manifests.Set{})
	same(t, "held", holds(a.engine.State()), "a=1")
	a.keeper.asked = append(a.keeper.asked, request.Pod{UID: "b", Name: "b"})
	a.keeper.tick(ctx)
	same(t, "held", holds(a.engine.State()), "a=1")
	a.keeper.tick(t.Context())
	same(t, "held", holds(a.engine.State()), "a=1 b=")
}

// TestFlows: every line belongs to a flow; an admission is one from the decision to the start, and
// two admissions are two.
func TestFlows(t *testing.T) {
	b := newBench(t)
	a := b.start()
	a.runtime.FailNextCreate("db", "c", errors.New("no image"))
	follow(t, a, "db 2", "web")
	a.keeper.tick(t.Context())
	follow(t, a, "web")
	flows := map[string][]float64{}
	for line := range strings.Lines(b.log.take()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatal(err)
		}
		op, ok := fields["op"].(float64)
		if !ok {
			t.Errorf("no flow: %s", line)
		}
		key := fmt.Sprint(fields["msg"])
		if pod, about := fields["pod"]; about {
			key += fmt.Sprint(" ", pod)
		}
		flows[key] = append(flows[key], op)
	}
	admitted, failed, web := flows["pod admitted default/db"], flows["pod not started default/db"], flows["pod admitted default/web"]
	if len(admitted) != 1 || len(failed) != 1 || len(web) != 1 || admitted[0] != failed[0] || admitted[0] == web[0] {
		t.Errorf("flows: %v", flows)
	}
	if released := flows["pod released default/db"]; len(released) != 1 || released[0] <= web[0] {
		t.Errorf("flows: %v", flows)
	}
}
