package nri_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paddock-project/paddock/internal/core/quota"
	"github.com/paddock-project/paddock/internal/node/runtime/nri"
)

// This file tests neighbours that behave badly, and what Paddock must not do because of them.

// rejectedFor tries to run a pod every second, and returns the time for which it could not be
// created.
func (b *bench) rejectedFor(uid string) time.Duration {
	begin := time.Now()
	for time.Since(begin) < 5*time.Minute && b.run(uid) != nil {
		b.stop(uid)
		pass(time.Second)
	}
	return time.Since(begin)
}

// TestPhantoms: a container that was never created does not block other pods for long, even if its
// end is not reported or is reported first.
func TestPhantoms(t *testing.T) {
	for name, c := range map[string]struct {
		phantom func(b *bench, c *creation)
		atMost  time.Duration
	}{
		"CRI-O restarts while it creates a container": {func(b *bench, c *creation) {
			b.broke(c.ask())
			b.disconnect()
			pass(5 * time.Second)
			b.connect()
		}, 25 * time.Second},
		"the end of a creation overtakes it": {func(b *bench, c *creation) {
			c.remove()
			if c.ask() == nil {
				b.broke(errors.New("a creation is answered after its end"))
			}
		}, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := inspected(t)
				b.runtime = "cri-o"
				b.start()
				b.list(burstable("y"), guaranteed("x", 2))
				box, err := b.sandbox("y")
				b.broke(err)
				c.phantom(b, b.container(box, "web"))
				if took := b.rejectedFor("x"); took > c.atMost {
					t.Errorf("another pod was rejected for %v", took)
				}
				b.check(t)
			})
		})
	}
}

// stuck are cgroups in which the write of a quota blocks.
type stuck struct {
	nri.Cgroups
	stall chan struct{}
}

func (s stuck) SetQuota(string, quota.Quota) (bool, error) { <-s.stall; return false, nil }

// TestSandboxDoesNotWait: a sandbox waits neither for a write in the kernel nor for a busy loop
// beyond its time.
func TestSandboxDoesNotWait(t *testing.T) {
	for name, prepare := range map[string]func(b *bench, stall chan struct{}){
		"the kernel": func(_ *bench, stall chan struct{}) {
			time.AfterFunc(30*time.Second, func() { close(stall) })
		},
		"the loop": func(b *bench, stall chan struct{}) {
			close(stall)
			b.slowKubelet = time.Second
			go func() { pass(500 * time.Millisecond); b.plugin.Block(b.ctx, 10*time.Second) }()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stall := make(chan struct{})
				b := newBench(t.Context(), func(c *nri.Config) {
					c.Now, c.After, c.Cgroups = time.Now, time.After, stuck{c.Cgroups, stall}
				})
				b.start()
				b.list(guaranteed("x", 2))
				prepare(b, stall)
				begin := time.Now()
				_, _ = b.sandbox("x")
				if took := time.Since(begin); took > time.Second+time.Second/16 {
					t.Errorf("the answer took %v", took)
				}
				pass(time.Minute)
				b.check(t)
			})
		})
	}
}

// TestNoAlarmOnABusyNode: exclusive pods come and go continuously, so the node shared pool changes
// all the time. The verification reports no fault.
func TestNoAlarmOnABusyNode(t *testing.T) {
	for _, every := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 3 * time.Second, 8 * time.Second} {
		t.Run(every.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var b *bench
				b = newBench(t.Context(), func(c *nri.Config) {
					c.Now, c.After = time.Now, time.After
					c.Seen = func(context.Context, map[string]string) ([]nri.Seen, error) {
						list, err := b.seen()
						pass(50 * time.Millisecond) // The kubelet and the kernel take time.
						return list, err
					}
				})
				b.start()
				b.list(burstable("b"))
				b.mustRun(t, "b")
				random := rand.New(rand.NewPCG(1, uint64(every)))
				begin := time.Now()
				for i := 0; time.Since(begin) < 5*time.Minute; i++ {
					uid := fmt.Sprint("g", i)
					b.list(guaranteed(uid, 2))
					synctest.Wait() // While an update of its neighbour is under way, the kubelet has to try again.
					b.mustRun(t, uid)
					pass(every * time.Duration(50+random.IntN(100)) / 100)
					b.end(uid)
					if err := b.plugin.Status().Verified(); err != nil {
						t.Fatalf("after %v: %v", time.Since(begin), err)
					}
				}
				b.check(t)
			})
		})
	}
}
