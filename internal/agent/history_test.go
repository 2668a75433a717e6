package agent

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/codec/journal"
	"github.com/paddock-project/paddock/internal/node/store"
	"github.com/paddock-project/paddock/internal/testing/crashfs"
	"github.com/paddock-project/paddock/internal/ui/web"
)

// explained returns what `paddock explain --agent` gets about a pod.
func explained(t *testing.T, a *Agent, pod string) web.Explained {
	t.Helper()
	var e web.Explained
	shows(t, a, "/api/explain?pod="+pod, &e)
	return e
}

func shows(t *testing.T, a *Agent, path string, into any) {
	t.Helper()
	recorder := httptest.NewRecorder()
	a.web.Handler(t.Context(), http.NotFoundHandler()).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
	if err := json.Unmarshal(recorder.Body.Bytes(), into); err != nil || recorder.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", path, recorder.Code, recorder.Body)
	}
}

// keepHistory runs the writer of the history until the test ends or stop is called.
func keepHistory(t *testing.T, a *Agent) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		_ = a.history.run(ctx)
		close(ended)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// TestHistorySurvivesARestart checks that a restarted agent knows why and since when a pod is
// rejected, and since when another pod has its assignments. The same rejection after the restart
// continues the count.
func TestHistorySurvivesARestart(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		a := b.start()
		stop := keepHistory(t, a)
		b.follow(a, "a 2", "big 9", "late 6")
		since, first := explained(t, a, "default/a").Since, explained(t, a, "default/big").Rejected
		number := explained(t, a, "default/late").Rejected.Number
		b.halts[a]()
		stop()
		if err := a.end(t.Context()); err != nil {
			t.Fatal(err)
		}

		time.Sleep(time.Hour) //nolint:forbidigo // The time is that of the bubble.
		a = b.start()
		contains(t, "log", b.log.take(), `"msg":"history of decisions read"`, `"admissions":1`)
		e := explained(t, a, "default/a")
		if e.Since == nil || !e.Since.Equal(*since) || !e.DecisionUnknown {
			t.Errorf("the admitted pod: since %v, want %v", e.Since, since)
		}
		contains(t, "the admitted pod", strings.Join(e.Standing, "\n"), "since "+since.UTC().Format(time.RFC3339)+", revision ", "before this agent started: CPUs 1-2")
		e = explained(t, a, "default/big")
		if e.Rejected == nil || !e.Rejected.First.Equal(first.First) || e.Rejected.Times < first.Times || e.Rejected.Reason != first.Reason {
			t.Errorf("the rejected pod: %+v, want %+v", e.Rejected, first)
		}
		contains(t, "the rejected pod", e.Text(terminal.Style{}, false), "big", "before this agent started", first.First.UTC().Format(time.RFC3339), "this is how it is decided on the node as it is now")

		var list []web.Rejected
		shows(t, a, "/api/rejections", &list)
		if len(list) != 2 || list[0].Rejection == nil || len(list[0].Rejection.Nodes) == 0 || list[0].Explanation == "" {
			t.Errorf("the page shows %+v", list)
		}
		stop = keepHistory(t, a)
		b.follow(a, "a 2", "big 9")
		e = explained(t, a, "default/big")
		if !e.Rejected.First.Equal(first.First) || e.Rejected.Times <= first.Times || e.Rejected.Number <= number {
			t.Errorf("rejected again: %+v, after %+v", e.Rejected, first)
		}
		b.follow(a)
		e = explained(t, a, "default/late")
		if !e.WouldAdmit || e.Answer.Rejection == nil || e.Answer.Admitted {
			t.Errorf("what would be admitted by now: %+v", e)
		}
		contains(t, "what would be admitted by now", e.Text(terminal.Style{}, false), "decided before the agent was restarted", "it would be admitted: CPUs ")
		b.halts[a]()
		stop()
	})
}

// stuck is a disk that stalls for the history only, until free is closed.
type stuck struct {
	store.FS
	writes atomic.Int64
	free   chan struct{}
}

func (s *stuck) Create(name string) (store.File, error) {
	if strings.HasSuffix(name, ".history.new") {
		s.writes.Add(1)
		<-s.free
	}
	return s.FS.Create(name)
}

// TestHistoryHoldsUpNothing checks that pods are admitted and rejected as usual while the disk
// stalls. Only one write is in progress, the end waits no longer than it may, and a write that ends
// late changes nothing.
func TestHistoryHoldsUpNothing(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		disk := &stuck{FS: b.disk, free: make(chan struct{})}
		a, err := b.try(disk)
		if err != nil {
			t.Fatal(err)
		}
		stop := keepHistory(t, a)
		b.follow(a, "a 2")
		for range 3 {
			begin := time.Now()
			b.follow(a, "a 2", "big 9", "b 1")
			b.follow(a, "a 2")
			if took := time.Since(begin); took != 2*moment {
				t.Errorf("two changes took %v", took)
			}
		}
		b.follow(a, "a 2", "b 1")
		same(t, "running", runs(a), "a/c=1-2 b/c=3")
		if n := disk.writes.Load(); n != 1 {
			t.Errorf("%d writes are under way", n)
		}
		b.halts[a]()
		begin := time.Now()
		stop()
		if err := a.end(t.Context()); err != nil || time.Since(begin) != ending {
			t.Errorf("the end took %v: %v", time.Since(begin), err)
		}
		contains(t, "log", b.log.take(), "the agent ends without the last changes to the history of decisions")
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		close(disk.free)
		synctest.Wait()
		if data, err := b.disk.Peek(b.config.State + ".history"); err == nil {
			t.Errorf("written after the end: %s", data)
		}
	})
}

// TestHistoryComesTogether checks that many decisions result in few writes, and that the last one
// is written.
func TestHistoryComesTogether(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		disk := &stuck{FS: b.disk, free: make(chan struct{})}
		close(disk.free)
		a, err := b.try(disk)
		if err != nil {
			t.Fatal(err)
		}
		stop := keepHistory(t, a)
		begin := time.Now()
		for range 10 {
			b.follow(a, "a 2")
			b.follow(a, "b 1")
		}
		if n, most := disk.writes.Load(), int64(time.Since(begin)/historyEvery)+1; n < 2 || n > most {
			t.Errorf("%d writes in %v", n, time.Since(begin))
		}
		b.halts[a]()
		stop()
		if err := a.end(t.Context()); err != nil {
			t.Fatal(err)
		}
		data, err := b.disk.Peek(b.config.State + ".history")
		if err != nil {
			t.Fatal(err)
		}
		j, err := journal.Decode(data)
		if g, _ := a.engine.State().Grant("b"); err != nil || len(j.Admissions) != 1 || j.Admissions[0].Revision != g.Sequence {
			t.Errorf("%v, %v, want the admission of b", j, err)
		}
	})
}

// TestHistoryThatIsNoUse checks that an agent starts as if the history did not exist, logs that in
// one line, keeps the assignments of pods, and writes a new history.
func TestHistoryThatIsNoUse(t *testing.T) {
	for name, c := range map[string]struct{ data, log string }{
		"empty":     {"", "unexpected end of JSON input"},
		"damaged":   {`{"format":"paddock-hist`, "unexpected end of JSON input"},
		"too large": {strings.Repeat(" ", journal.MaxSize+1), "more than 1 MiB"},
		"newer":     {`{"format":"paddock-history","version":2}`, "written by a newer version"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *bench) {
				a := b.start()
				b.follow(a, "a 2")
				b.kill(a)
				b.disk.Put(b.config.State+".history", []byte(c.data))
				b.log.take()
				a = b.start()
				same(t, "held", holds(a.engine.State()), "a=1-2")
				log := b.log.take()
				contains(t, "log", log, "the history of decisions cannot be read and is ignored", c.log)
				if n := strings.Count(log, "history of decisions"); n != 1 {
					t.Errorf("%d lines in the log:\n%s", n, log)
				}
				stop := keepHistory(t, a)
				b.follow(a, "a 2", "big 9")
				stop()
				data, err := b.disk.Peek(b.config.State + ".history")
				if err != nil {
					t.Fatal(err)
				}
				if j, err := journal.Decode(data); err != nil || len(j.Rejections) != 1 {
					t.Errorf("%v, %v", j, err)
				}
			})
		})
	}
}

// TestHistoryOnAFullDisk checks that consecutive failures are logged once, and that the next
// decision is written when there is room.
func TestHistoryOnAFullDisk(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		a := b.start()
		stop := keepHistory(t, a)
		b.disk.Inject(func(o crashfs.Op) error {
			if strings.Contains(o.Name, ".history") {
				return syscall.ENOSPC
			}
			return nil
		})
		for range 3 {
			b.follow(a, "a 2", "big 9")
			b.tick()
			b.follow(a)
			b.tick()
		}
		if n := strings.Count(b.log.take(), "the history of decisions cannot be written"); n != 1 {
			t.Errorf("logged %d times", n)
		}
		b.disk.Inject(nil)
		b.follow(a, "a 2")
		b.tick()
		stop()
		if _, err := b.disk.Peek(b.config.State + ".history"); err != nil {
			t.Error(err)
		}
	})
}
