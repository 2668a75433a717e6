package agent

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/node/telemetry"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// setUp asks for the kubelet's version and configuration, and takes in the answers.
func (o *Observing) setUp(ctx context.Context) error { return o.take(ctx, o.ask(ctx)) }

// TestObservingASlowKubelet checks that a kubelet that does not answer with its metrics is looked
// at as before, that another process of it is not trusted before it has answered, and that the
// agent ends meanwhile.
func TestObservingASlowKubelet(t *testing.T) {
	k, c := newStockKubelet(t)
	o, err := NewObserving(c, Here(), telemetry.Build{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	about := questions{o: o, answered: make(chan setUpAnswers, 1)}
	if err := o.setUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	look(t, o)
	ctx, cancel := context.WithCancel(t.Context())
	k.mu.Lock()
	k.hangs = "/metrics"
	k.mu.Unlock()
	now := time.Now().Add(setUpEvery)
	o.world.Now = func() time.Time { return now }
	if about.goOn(ctx); !about.waits || about.trouble() != nil {
		t.Errorf("the same process: it asks %t, %v", about.waits, about.trouble())
	}
	k.admit("a", "2")
	if look(t, o); o.session.Load().trust().Admissions != (view.TrustCount{All: 1, AsPredicted: 1}) {
		t.Errorf("while it does not answer: %+v", o.session.Load().trust())
	}
	now = now.Add(setUpAgain)
	if err := about.trouble(); err != nil {
		t.Errorf("the same process, later: %v", err)
	}
	k.server.CloseClientConnections() // As when it is started again. This also ends the question.
	if _, err := o.endpoint.Pods(t.Context(), func([]byte) error { return nil }); err != nil {
		t.Logf("the first question after the restart: %v", err)
	}
	if err := about.trouble(); err == nil || !strings.Contains(err.Error(), "does not answer which version") {
		t.Errorf("another process: %v", err)
	}
	cancel()
	about.asking.Wait()
	k.mu.Lock()
	k.hangs = ""
	k.mu.Unlock()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); about.another() || about.waits; <-tick.C {
		if about.goOn(t.Context()); time.Since(begin) > patience {
			t.Fatal("it never learns of the other process")
		}
		now = now.Add(setUpAgain)
	}
	if err := about.trouble(); err != nil {
		t.Error(err)
	}
}

// TestObservingABrokenConnection checks that a kubelet that goes on over another connection is
// believed at once when its metrics show the same start, and that one that was started again is
// not, whatever its metrics show later.
func TestObservingABrokenConnection(t *testing.T) {
	k, c := newStockKubelet(t)
	build := k.answers["/metrics"] + "\n# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds "
	k.set("/metrics", build+"1.79e+09\n")
	k.admit("a", "2")
	k.admit("b", "1")
	o := observer(t, c)
	s, now := o.session.Load(), time.Now()
	o.world.Now = func() time.Time { return now }
	// wait looks, and checks whether the pods of before are waited for, and whether users see it.
	wait := func(what string, waits, shown bool) {
		t.Helper()
		err := o.look(t.Context(), s)
		if errors.Is(err, errStarting) != waits || s.patient(err, now) != nil != shown {
			t.Errorf("%s: %v, shown %v", what, err, s.patient(err, now))
		}
	}
	ask := func() {
		t.Helper()
		if err := o.setUp(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	k.server.CloseClientConnections()
	k.end("a")
	wait("a broken connection", true, false)
	if !o.due(s, waitingEvery) {
		t.Error("it does not look again after a second")
	}
	ask()
	wait("the same start", false, false)
	if got := holds(s.shown.Load().snapshot.State); got != "b=3" {
		t.Errorf("after the end of a pod, it shows %s", got)
	}

	k.server.CloseClientConnections()
	all := k.lists(nil)
	wait("another connection", true, false)
	now = now.Add(setUpAgain)
	wait("without an answer for long", true, true)
	k.set("/metrics", build+"1.79000001e+09\n")
	ask()
	wait("another start", true, true)
	ask()
	wait("the other start, again", true, true)
	k.lists(all)
	wait("when it lists all", false, false)

	// The metrics are asked after the first list of the new process, and a pod comes in between.
	k.server.CloseClientConnections()
	wait("a third start", false, false)
	k.set("/metrics", build+strconv.FormatInt(now.Unix()-5, 10)+"\n")
	k.admit("c", "1")
	ask()
	before := s.trust().Admissions
	wait("after the third start", false, false)
	if after := s.trust().Admissions; after.AsPredicted != before.AsPredicted+1 || after.Unsure != before.Unsure {
		t.Errorf("a decision after a start that is known late: %+v, %+v", after, s.trust().Unpredicted)
	}
}

// TestObservingWithoutKeepAlive checks that a list is believed within a minute, and that users see
// after ten seconds that it is not, when each answer comes over another connection.
func TestObservingWithoutKeepAlive(t *testing.T) {
	k, c := newStockKubelet(t)
	k.server.Config.SetKeepAlivesEnabled(false)
	k.set("/metrics", k.answers["/metrics"]+"\nprocess_start_time_seconds 1.79e+09\n")
	k.admit("a", "2")
	o := observer(t, c)
	s, now := o.session.Load(), time.Now()
	o.world.Now = func() time.Time { return now }
	k.end("a")
	for begin := now; ; now = now.Add(waitingEvery) {
		err := o.look(t.Context(), s)
		after := now.Sub(begin)
		if shown := s.patient(err, now) != nil; shown != (after >= setUpAgain && after < startingTime) {
			t.Fatalf("after %v: %v, shown %t", after, err, shown)
		}
		if err == nil {
			break
		}
		if err := o.setUp(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := holds(s.shown.Load().snapshot.State); got != "" {
		t.Errorf("it shows %s", got)
	}
}
