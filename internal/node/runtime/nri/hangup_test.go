package nri_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// traffic requests the sandbox of a pod that is not listed, repeatedly, until the connection ends.
// It counts the requests, and those that failed because the connection is about to end.
func (b *bench) traffic(every time.Duration) (asked, refused int) {
	for {
		select {
		case <-b.link.ended:
			return asked, refused
		default:
		}
		err := b.plugin.RunPodSandbox(b.ctx, sandboxOf("other"))
		if asked++; err != nil && strings.Contains(err.Error(), "is being renewed") {
			refused++
		}
		pass(every)
	}
}

// TestHangUpUnderTraffic: an update waits behind the requests of a runtime that never pauses for as
// long as a quiet moment requires. The connection ends all the same. Creations fail before it ends,
// so that no container is created without Paddock.
func TestHangUpUnderTraffic(t *testing.T) {
	for _, every := range []time.Duration{5 * time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond} {
		t.Run(every.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := live(t)
				b.start()
				b.list(guaranteed("g", 3), burstable("b"), burstable("other"))
				b.mustRun(t, "g", "b")
				goOn := b.stallUpdates()
				b.end("g")
				pass(3 * time.Second) // b is to get all CPUs, and the update hangs.
				begin := time.Now()
				asked, refused := b.traffic(every)
				if took := time.Since(begin); took > 25*time.Second {
					t.Errorf("the connection was there for another %v", took)
				}
				if asked < 50 || refused > asked/2 || every < 50*time.Millisecond && refused == 0 {
					t.Errorf("%d of %d requests were refused before the connection ended", refused, asked)
				}
				goOn()
				b.link = nil
				b.connect()
				if err := b.plugin.RunPodSandbox(b.ctx, sandboxOf("other")); err != nil {
					t.Errorf("on the next connection: %v", err)
				}
				pass(10 * time.Second)
				b.want(t, "synchronised again", map[string]string{"b/web": "0-7 on {}"})
				b.check(t)
			})
		})
	}
}

// TestUpdateThatLandsInTime: a connection that was about to end continues if the update lands
// first.
func TestUpdateThatLandsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := live(t)
		b.start()
		b.list(guaranteed("g", 3), burstable("b"), burstable("other"))
		b.mustRun(t, "g", "b")
		goOn := b.stallUpdates()
		b.end("g")
		pass(3 * time.Second)
		refusing := func() bool {
			err := b.plugin.RunPodSandbox(b.ctx, sandboxOf("other"))
			pass(100 * time.Millisecond)
			return err != nil && strings.Contains(err.Error(), "is being renewed")
		}
		for range 120 {
			if refusing() {
				break
			}
		}
		goOn()
		pass(time.Second)
		if refusing() || b.plugin.Ready() != nil {
			t.Errorf("requests are still refused, or the connection ended: %v", b.plugin.Ready())
		}
		b.check(t)
	})
}

// TestOwedUpdatesWaitForCreations: a runtime that takes updates only in replies is not asked to
// synchronise again while it creates a container, because a container that it creates between two
// connections is created without Paddock. A creation that never ends is not waited for.
func TestOwedUpdatesWaitForCreations(t *testing.T) {
	for name, ends := range map[string]bool{"the creation ends": true, "the creation never ends": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := live(t)
				b.old = true
				b.start()
				b.list(guaranteed("g", 3), burstable("b"), burstable("c"))
				b.mustRun(t, "g", "b")
				box, err := b.sandbox("c")
				b.broke(err)
				made := b.container(box, "web")
				b.broke(made.ask())
				b.end("g") // An update that gives b the CPUs waits, and no reply follows.
				begin := time.Now()
				if ends {
					pass(time.Minute)
					if b.plugin.Ready() != nil {
						t.Error("the connection ended while a container was in creation")
					}
					made.runs()
					b.broke(errors.Join(made.report(), made.start()))
				}
				<-b.link.ended
				if took := time.Since(begin); took > 3*time.Minute {
					t.Errorf("it waited for %v", took)
				}
				b.link = nil
				b.connect()
				pass(time.Second)
				want := map[string]string{"b/web": "0-7 on {}"}
				if ends {
					want["c/web"] = want["b/web"]
				}
				b.want(t, "in the end", want)
				b.check(t)
			})
		})
	}
}
