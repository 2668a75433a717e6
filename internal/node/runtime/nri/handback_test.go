package nri_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paddock-project/paddock/internal/core/node"
)

// After the hand-back all containers run on all CPUs, the state is empty, and containers that start
// later are not changed. An agent that starts later finds no setting of another manager. The same
// is true on a runtime that takes updates only in replies.
func TestHandBack(t *testing.T) {
	for name, old := range map[string]bool{"containerd 2.4": false, "containerd 2.1": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := live(t)
				b.old = old
				b.policy.Quota = node.QuotaPolicy{Isolated: true, EphemeralMilli: 500}
				b.start()
				b.list(guaranteed("g", 2), burstable("y"), guaranteed("h", 2))
				b.mustRun(t, "g", "y")
				b.debug(t, "g")
				begin := time.Now()
				done := make(chan error)
				go func() { done <- b.plugin.HandBack(b.ctx) }()
				if old {
					b.reconnect()
				}
				if err := <-done; err != nil || time.Since(begin) > 15*time.Second {
					t.Fatalf("after %v: %v", time.Since(begin), err)
				}
				b.mustRun(t, "h")
				b.want(t, "handed back", map[string]string{"g/app": "0-7 on {0-1}", "g/debugger": "0-7 on {} no quota", "g/log": "0-7 on {0-1}", "y/web": "0-7 on {}", "h/app": " on {}", "h/log": " on {}"})
				if n := len(b.engine.State().Grants()); n != 0 {
					t.Errorf("%d grants are left", n)
				}
				b.disconnect()
				b.disk.Store(nil) // The state was removed.
				b.start()
				if err := b.plugin.Ready(); err != nil {
					t.Errorf("a new agent: %v", err)
				}
				b.check(t)
			})
		})
	}
}

// debug runs an ephemeral container in a pod. Its quota is the agent's.
func (b *bench) debug(t *testing.T, uid string) {
	t.Helper()
	id, err := b.create(b.box(uid), "debugger")
	b.broke(err)
	b.mu.Lock()
	defer b.mu.Unlock()
	if got := b.runs[id].setting.Quota; got != 50_000 {
		t.Errorf("it has a quota of %s, want half a CPU", got)
	}
}

// A container that is being created has its CPUs from the reply, and no update reaches it before
// its start. It is handed back after its start, and the grants stay until then.
func TestHandBackDuringACreation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := live(t)
		b.start()
		b.list(guaranteed("g", 2))
		box, err := b.sandbox("g")
		b.broke(err)
		c := b.container(box, "app")
		b.broke(c.ask())
		done := make(chan error, 1)
		go func() { done <- b.plugin.HandBack(b.ctx) }()
		pass(5 * time.Second)
		if n := len(b.engine.State().Grants()); len(done) > 0 || n != 1 {
			t.Errorf("%d grants while a container is being created; ended: %t", n, len(done) > 0)
		}
		c.runs()
		b.broke(c.report())
		b.broke(c.start())
		if err := <-done; err != nil {
			t.Error(err)
		}
		b.want(t, "handed back", map[string]string{"g/app": "0-7 on {0-1}"})
		b.check(t)
	})
}

// If the runtime is gone, or does not take the updates, HandBack writes the cgroups itself. What it
// cannot write it reports in time, with the number of containers that are left.
func TestHandBackWithoutRuntime(t *testing.T) {
	for name, c := range map[string]struct {
		fails error
		want  map[string]string
	}{
		"it writes the cgroups":   {nil, map[string]string{"g/app": "0-7 on {0-1}", "g/log": "0-7 on {0-1}", "y/web": "0-7 on {}"}},
		"they cannot be written":  {errors.New("read-only file system"), map[string]string{"g/app": "2-3 on {0} no quota", "g/log": "0-1,4-7 on {0}", "y/web": "0-1,4-7 on {}"}},
		"the containers are gone": {fs.ErrNotExist, map[string]string{"g/app": "2-3 on {0} no quota", "g/log": "0-1,4-7 on {0}", "y/web": "0-1,4-7 on {}"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := live(t)
				b.start()
				b.list(guaranteed("g", 2), burstable("y"))
				b.mustRun(t, "g", "y")
				b.disconnect()
				b.setUnwritable(c.fails)
				ctx, cancel := context.WithTimeout(b.ctx, 20*time.Second)
				defer cancel()
				begin := time.Now()
				err := b.plugin.HandBack(ctx)
				grants := len(b.engine.State().Grants())
				switch fails := c.fails != nil && !errors.Is(c.fails, fs.ErrNotExist); {
				case fails && (!errors.Is(err, c.fails) || !strings.Contains(err.Error(), "3 containers still run") || grants != 2):
					t.Errorf("%d grants, error %v, want what is left", grants, err)
				case !fails && (err != nil || grants != 0):
					t.Errorf("%d grants, error %v", grants, err)
				}
				if took := time.Since(begin); took > 15*time.Second {
					t.Errorf("it took %v", took)
				}
				b.want(t, "in the end", c.want)
				b.check(t)
			})
		})
	}
}
