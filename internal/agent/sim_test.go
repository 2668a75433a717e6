package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/node/podsource/manifests"
	"github.com/paddock-project/paddock/internal/testing/crashfs"
)

// TestRejectedPodIsAdmittedWhenThereIsRoom checks that a rejected pod is admitted within moments
// when there is room, and is not planned again before something changed.
func TestRejectedPodIsAdmittedWhenThereIsRoom(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		a := b.start()
		b.follow(a, "big 5", "later 4", "web")
		same(t, "running", runs(a), "big/c=1,4-7 web/c=0,2-3")
		contains(t, "log", b.log.take(), `"msg":"pod rejected"`, `"pod":"default/later"`)
		b.tick()
		if log := b.log.take(); strings.Contains(log, "rejected") {
			t.Errorf("planned again although nothing changed:\n%s", log)
		}
		b.follow(a, "later 4", "web")
		same(t, "running", runs(a), "later/c=4-7 web/c=0-3")
		contains(t, "log", b.log.take(), `"msg":"pod released"`, `"msg":"pod admitted"`)
	})
}

// TestStaticOrder checks that pods are admitted in the order of their manifests.
func TestStaticOrder(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		a := b.start()
		b.follow(a, "z 1", "a 1", "m 1", "b 1", "k 2")
		same(t, "held", holds(a.engine.State()), "a=2 b=4 k=5-6 m=3 z=1")
	})
}

// TestLostUpdateIsRepaired checks that the next comparison repairs a lost update, and settings that
// another process wrote.
func TestLostUpdateIsRepaired(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		a := b.start()
		b.follow(a, "web")
		a.runtime.LoseNextUpdate("web", "c")
		b.follow(a, "web", "db 2")
		b.tick()
		same(t, "after the loss", runs(a), "db/c=1-2 web/c=0,3-7")
		contains(t, "history", fmt.Sprint(a.runtime.History("web", "c")), "created cpus 0-7", "lost cpus 0,3-7", "updated cpus 0,3-7")
		if err := a.runtime.Drift("db", "c", converge.Setting{CPUs: cpuset.Of(7)}); err != nil {
			t.Fatal(err)
		}
		b.tick()
		same(t, "after the drift", runs(a), "db/c=1-2 web/c=0,3-7")
	})
}

// TestContainerThatIsNotMade checks that a pod whose container cannot be created keeps its grant,
// and that the creation is tried again.
func TestContainerThatIsNotMade(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		a := b.start()
		a.runtime.FailNextCreate("db", "c", errors.New("no image"))
		b.follow(a, "db 2")
		contains(t, "log", b.log.take(), `"msg":"pod not started; the simulated kubelet tries again"`, "no image")
		same(t, "running", runs(a), "db/c=1-2")
	})
}

// TestManifestsThatCannotBeRead checks that no pod is released because of an invalid manifest,
// however long it stays, and that other pods are admitted.
func TestManifestsThatCannotBeRead(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		a := b.start()
		b.follow(a, "db 2")
		b.kill(a)
		a = b.start()
		broken := manifests.Set{Partial: true, Broken: []manifests.Problem{{File: "x.yaml", Err: errors.New("x.yaml: line 1")}}}
		follow := a.follower()
		follow(t.Context(), broken)
		b.deliver(a, broken)
		follow(t.Context(), broken)
		for range 10 {
			b.tick()
		}
		same(t, "held", holds(a.engine.State()), "db=1-2")
		contains(t, "log", b.log.take(), "no pod is released", `"file":"x.yaml"`)
		b.follow(a, "web")
		b.tick()
		same(t, "held when they can be read", holds(a.engine.State()), "web=")
	})
}

// TestBrokenManifestIsLoggedOnce checks that a broken manifest is logged once, although the set is
// delivered repeatedly.
func TestBrokenManifestIsLoggedOnce(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		follow := b.start().follower()
		for range 3 {
			follow(t.Context(), manifests.Set{Broken: []manifests.Problem{{File: "x.yaml", Err: errors.New("x.yaml: line 1")}}})
		}
		if n := strings.Count(b.log.take(), "a manifest cannot be used"); n != 1 {
			t.Errorf("logged %d times", n)
		}
	})
}

// TestManifestsAndReadiness checks that readiness, a metric and the page report a manifest with an
// error.
func TestManifestsAndReadiness(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		a := b.start()
		follow := a.follower()
		broken := []manifests.Problem{{File: "x.yaml", Err: errors.New("x.yaml: line 1")}, {File: "y.yaml", Err: errors.New("y.yaml: empty")}}
		for _, c := range []struct {
			broken       []manifests.Problem
			ready, shown string
		}{
			{nil, "manifests: ready", ""},
			{broken[:1], "manifests: not ready: x.yaml: line 1\n", "Manifests cannot be used: x.yaml: line 1"},
			{broken, "x.yaml: line 1 (and 1 other files or directories)", "Manifests cannot be used: x.yaml: line 1 (and 1 other"},
			{nil, "manifests: ready", ""},
		} {
			follow(t.Context(), manifests.Set{Broken: c.broken})
			get := func(path string) string {
				answer := httptest.NewRecorder()
				a.handler(t.Context()).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://localhost"+path, http.NoBody))
				return answer.Body.String()
			}
			contains(t, "readiness", get("/readyz"), c.ready)
			contains(t, "metrics", get("/metrics"), fmt.Sprintf("\npaddock_unusable_manifests %d\n", len(c.broken)))
			if page := get("/api/history"); strings.Contains(page, `"warning"`) != (c.shown != "") || !strings.Contains(page, c.shown) {
				t.Errorf("the page has %s, want %q", page, c.shown)
			}
		}
	})
}

// TestFullDisk checks that no pod is admitted, that running pods keep running, and that readiness
// has the reason. When there is space again, everything is soon as it should be.
func TestFullDisk(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		a := b.start()
		b.follow(a, "db 2", "gone 1")
		b.disk.Inject(crashfs.From(0, syscall.ENOSPC, crashfs.Full...))
		b.log.take()
		b.follow(a, "db 2", "new 3", "other 1")
		same(t, "running", runs(a), "db/c=1-2")
		same(t, "held", holds(a.engine.State()), "db=1-2 gone=3")
		contains(t, "log", b.log.take(), "no space left on device", "free some space on the file system of /var/lib/paddock", "keep their CPUs until the state can be written")
		if err := a.health.ready(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("ready with a full disk: %v", err)
		}
		b.disk.Inject(nil)
		b.tick()
		same(t, "running", runs(a), "db/c=1-2 new/c=4-6 other/c=3")
		if err := a.health.ready(); err != nil {
			t.Error(err)
		}
	})
}

// TestDiskIsFullAtTheStart checks that the agent starts with a full disk, because a node with pods
// is better off with an agent than without.
func TestDiskIsFullAtTheStart(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		a := b.start()
		b.follow(a, "db 2")
		b.kill(a)
		b.disk.Inject(crashfs.From(0, syscall.ENOSPC, crashfs.Full[1:]...))
		a = b.start()
		b.follow(a, "db 2", "new 3")
		same(t, "running", runs(a), "db/c=1-2")
		if a.health.ready() == nil {
			t.Error("ready with a full disk")
		}
		b.disk.Inject(nil)
		b.follow(a, "db 2")
		b.tick()
		if err := a.health.ready(); err != nil {
			t.Errorf("nothing changes, and the disk works again: %v", err)
		}
	})
}

// TestFlows checks that every log line belongs to a flow, and that two admissions are two flows.
func TestFlows(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		a := b.start()
		a.runtime.FailNextCreate("db", "c", errors.New("no image"))
		b.follow(a, "db 2", "web")
		b.follow(a, "web")
		flows := map[string][]float64{}
		for line := range strings.Lines(b.log.take()) {
			var fields map[string]any
			if err := json.Unmarshal([]byte(line), &fields); err != nil {
				t.Fatal(err)
			}
			op, ok := fields["op"].(float64)
			if !ok && fields["msg"] != "connected to the runtime" {
				t.Errorf("no flow: %s", line)
			}
			key := fmt.Sprint(fields["msg"])
			if pod, about := fields["pod"]; about {
				key += fmt.Sprint(" ", pod)
			}
			flows[key] = append(flows[key], op)
		}
		admitted, failed, web := flows["pod admitted default/db"], flows["pod not started; the simulated kubelet tries again default/db"], flows["pod admitted default/web"]
		if len(admitted) != 1 || len(failed) != 1 || len(web) != 1 || admitted[0] == web[0] {
			t.Errorf("flows: %v", flows)
		}
		if released := flows["pod released default/db"]; len(released) != 1 || released[0] <= web[0] {
			t.Errorf("flows: %v", flows)
		}
	})
}

// TestReleaseIsQuick checks that a pod whose manifest is removed releases its CPUs within a second.
func TestReleaseIsQuick(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		a := b.start()
		b.follow(a, "db 2", "web")
		a.follower()(t.Context(), manifests.Set{})
		time.Sleep(time.Second) //nolint:forbidigo // The time is that of the bubble.
		same(t, "held", holds(a.engine.State()), "")
		same(t, "running", runs(a), "")
	})
}

// TestSimulationLeavesNothing checks that no socket and no file except the state is left. It logs
// the time until the first pod is admitted.
func TestSimulationLeavesNothing(t *testing.T) {
	b := newBench(t)
	b.write("a.yaml", manifest("a 2"))
	admitted := b.log.when("pod admitted")
	begin := time.Now()
	r := b.run()
	await(t, "the pod", admitted)
	t.Logf("the first pod was admitted after %v", time.Since(begin))
	r.stop(t)
	left, err := filepath.Glob(filepath.Join(b.config.Pods[0], "*"))
	if err != nil || len(left) != 1 {
		t.Errorf("%q is left, %v", left, err)
	}
	if _, err := os.Stat(b.config.NRI.Socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: %v, want nothing", b.config.NRI.Socket, err)
	}
}
