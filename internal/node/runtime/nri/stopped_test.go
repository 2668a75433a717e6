package nri_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paddock-project/paddock/internal/node/runtime/nri"
)

// TestStoppedProcess: a process that was stopped counts as away from the last moment in which it
// ran. The runtime closed the connection meanwhile.
func TestStoppedProcess(t *testing.T) {
	for name, c := range map[string]struct {
		stopped, connected time.Duration // how long it is stopped, and then stays connected
		want               time.Duration // how long it is reported to have been away, at least
	}{
		"stopped for 70 s":                   {70 * time.Second, 0, 70 * time.Second},
		"the connection survives":            {70 * time.Second, time.Minute, 0},
		"a machine that is slow for a while": {time.Second, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var skipped atomic.Int64 // the time in which the process did not run
				b := newBench(t.Context(), func(c *nri.Config) {
					c.Now, c.After = func() time.Time { return time.Now().Add(time.Duration(skipped.Load())) }, time.After
				})
				b.start()
				pass(5 * time.Second)
				skipped.Add(int64(c.stopped))
				pass(c.connected)
				b.disconnect()
				b.connect()
				b.observed.mu.Lock()
				away := b.observed.away
				b.observed.mu.Unlock()
				if away < c.want || away > c.want+2*time.Second {
					t.Errorf("away for %v, want %v", away, c.want)
				}
				if said := strings.Contains(b.said.String(), "the agent did not run"); said != (c.stopped > 2*time.Second) {
					t.Errorf("the log has it: %t", said)
				}
				b.check(t)
			})
		})
	}
}

// TestBusyLoop: if the loop cannot answer a request in time, the request fails in time. The loop
// takes the answer back, and the event is logged and counted by its name.
func TestBusyLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := live(t)
		b.start()
		b.list(guaranteed("x", 2))
		box, err := b.sandbox("x")
		b.broke(err)
		c := b.container(box, "app")
		b.plugin.Block(b.ctx, 5*time.Second)
		begin := time.Now()
		if err := c.ask(); err == nil || time.Since(begin) > time.Second {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
		pass(10 * time.Second)
		if phase := b.plugin.Phase(c.c.GetId()); phase != "none" {
			t.Errorf("the container of a request that failed is %s", phase)
		}
		b.observed.mu.Lock()
		slow := strings.Join(b.observed.slow, " ")
		b.observed.mu.Unlock()
		if !strings.Contains(slow, "Left") || !strings.Contains(b.said.String(), "an event took long") {
			t.Errorf("slow events: %s; the log: %s", slow, b.said.String())
		}
		b.mustRun(t, "x")
		b.check(t)
	})
}

// TestUnreadableList: a source that does not answer is logged when that begins, and then at
// intervals.
func TestUnreadableList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := live(t)
		b.start()
		b.list(guaranteed("x", 2))
		b.mustRun(t, "x")
		b.mu.Lock()
		b.listing = context.DeadlineExceeded
		b.mu.Unlock()
		b.stop("x") // The agent must find out whether it is gone.
		pass(9 * time.Minute)
		if n := strings.Count(b.said.String(), "the list of pods cannot be read"); n != 2 {
			t.Errorf("logged %d times in nine minutes, want 2", n)
		}
		b.mu.Lock()
		b.listing = nil
		b.mu.Unlock()
		pass(time.Minute)
		if !strings.Contains(b.said.String(), "the list of pods can be read again") {
			t.Error("it is not logged that it can be read again")
		}
		b.check(t)
	})
}
