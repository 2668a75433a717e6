package nri_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/runtime/nri"
)

// watcher records the notifications of an observer of moves.
type watcher struct {
	mu    sync.Mutex
	moves []nri.Moving
	ends  []bool
}

func (w *watcher) Begun(m nri.Moving) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.moves = append(w.moves, m)
}

func (w *watcher) Ended(_ nri.Moving, done bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ends = append(w.ends, done)
}

func (w *watcher) begun() []nri.Moving {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.moves)
}

func (w *watcher) ended() []bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.ends)
}

func consents(pod request.Pod, to request.Consent) request.Pod {
	pod.Moves = to
	return pod
}

// fragmented returns a live node under the policy dynamic. Pod "big" of 4 CPUs fits on no NUMA
// node, because pod "c" has two CPUs of NUMA node 1. "c" may be moved anywhere.
func fragmented(t *testing.T, change ...func(*bench)) (*bench, *watcher) {
	t.Helper()
	b, w := live(t), &watcher{}
	b.policy.Moves = node.MovePolicy{Pods: 2, Bytes: 1 << 30}
	b.moves = nri.MovesConfig{Notice: time.Second, Interval: 10 * time.Minute, Observer: w}
	b.list(guaranteed("a", 2), guaranteed("b", 2), consents(guaranteed("c", 2), request.MoveMemory), guaranteed("big", 4), burstable("web"), guaranteed("small", 1))
	for _, f := range change {
		f(b)
	}
	b.start()
	b.mustRun(t, "a", "b", "c", "web")
	for _, uid := range []string{"a", "b"} {
		b.stop(uid)
		b.unlist(uid)
	}
	pass(30 * time.Second)
	if b.old { // It hung up, because updates waited.
		<-b.link.ended
		b.connect()
	}
	return b, w
}

// A pod that does not fit causes a move of another pod, with its memory. The next attempt of the
// pod gets the place, and no pod that comes in between gets it.
func TestMoveForAPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, w := fragmented(t)
		begin := time.Now()
		err := b.run("big")
		if !errors.Is(err, nri.ErrMoving) || time.Since(begin) > time.Second {
			t.Fatalf("after %v: %v", time.Since(begin), err)
		}
		if err = b.run("big"); !errors.Is(err, nri.ErrMoving) || !strings.Contains(err.Error(), "default/c moves from CPUs") {
			t.Errorf("asked again: %v", err)
		}
		synctest.Wait()
		b.want(t, "at once", map[string]string{"c/app": "6-7 on {0-1} no quota", "c/log": "0-1,4-5 on {0-1}", "web/web": "0-1,4-5 on {}"})
		b.mustRun(t, "small")
		pass(10 * time.Second)
		if len(w.begun()) != 1 || len(w.ended()) != 1 || !w.ended()[0] || w.begun()[0].Bytes != 128<<20 || len(w.begun()[0].Changes) != 2 {
			t.Errorf("begun %v, ended %v", w.begun(), w.ended())
		}
		b.mustRun(t, "big")
		pass(10 * time.Second)
		b.apart()
		b.want(t, "moved", map[string]string{
			"big/app": "4-7 on {1} no quota", "big/log": "0 on {1}", "c/app": "2-3 on {0} no quota", "c/log": "0 on {0}",
			"small/app": "1 on {0} no quota", "small/log": "0 on {0}", "web/web": "0 on {}",
		})
		b.check(t)
	})
}

// The agent dies after every write and every update of a move. The next agent ends the move, and
// big gets its place.
func TestMoveAndCrash(t *testing.T) {
	for cut := int64(1); cut <= 8; cut++ {
		t.Run(fmt.Sprint(cut), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, w := fragmented(t)
				b.cut.Store(cut)
				if err := b.run("big"); !errors.Is(err, nri.ErrMoving) {
					t.Fatal(err)
				}
				pass(20 * time.Second)
				b.disconnect()
				b.start()
				pass(20 * time.Second)
				for _, g := range b.engine.State().Grants() {
					if g.Moving != nil {
						t.Errorf("pod %s is still being moved", g.Pod.UID)
					}
				}
				if !slices.Contains(w.ended(), true) {
					t.Errorf("begun %v, ended %v", w.begun(), w.ended())
				}
				b.mustRun(t, "big")
				b.apart()
				b.check(t)
			})
		})
	}
}

// If something prevents a move from ending, the pod gets its old place again, and the pod that
// waits is decided as without moves.
func TestMoveThatFails(t *testing.T) {
	for name, hinder := range map[string]func(*bench) (heal func()){
		"the runtime loses every update": func(b *bench) func() {
			b.setUpdates(errors.New("the runtime is busy"))
			return func() { b.setUpdates(nil) }
		},
		"an update hangs": func(b *bench) func() {
			hold := make(chan struct{})
			b.link.holds(hold)
			return func() { b.link.holds(nil); close(hold) }
		},
		"pages are pinned": func(b *bench) func() {
			for _, id := range b.of("c") {
				b.pages = map[string]map[int]int64{b.runs[id].c.GetLinux().GetCgroupsPath(): {0: 32 << 20, 1: 32 << 20}}
			}
			return func() {}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, w := fragmented(t)
				before := b.shown()
				heal := hinder(b)
				if err := b.run("big"); !errors.Is(err, nri.ErrMoving) {
					t.Fatal(err)
				}
				pass(45 * time.Second)
				heal()
				pass(45 * time.Second)
				if len(w.begun()) != 1 || len(w.ended()) != 1 || w.ended()[0] {
					t.Errorf("begun %v, ended %v", w.begun(), w.ended())
				}
				b.want(t, "as before", before)
				if err := b.run("big"); !errors.Is(err, nri.ErrRejected) {
					t.Errorf("decided again: %v", err)
				}
				b.apart()
				b.check(t)
			})
		})
	}
}

// A pod ends while it is being moved, or one of its containers starts again.
func TestMoveOfAPodThatEnds(t *testing.T) {
	for name, ends := range map[string]func(*testing.T, *bench){
		"the pod ends": func(_ *testing.T, b *bench) { b.stop("c"); b.unlist("c") },
		"a container starts again": func(t *testing.T, b *bench) {
			id := b.of("c")[0]
			c := b.runs[id].c
			b.exit(id)
			pass(time.Second)
			if _, err := b.create(b.boxes[c.GetPodSandboxId()], c.GetName()); err != nil {
				t.Error(err)
			}
		},
	} {
		for _, after := range []time.Duration{0, 500 * time.Millisecond, 1100 * time.Millisecond} {
			t.Run(fmt.Sprint(name, " after ", after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b, w := fragmented(t)
					if err := b.run("big"); !errors.Is(err, nri.ErrMoving) {
						t.Fatal(err)
					}
					pass(after)
					ends(t, b)
					pass(20 * time.Second)
					if len(w.ended()) != 1 {
						t.Errorf("begun %v, ended %v", w.begun(), w.ended())
					}
					b.mustRun(t, "big")
					b.apart()
					b.check(t)
				})
			})
		}
	}
}

// Pods without consent are not moved, nor are pods that were just started or moved. No pod is moved
// while the runtime accepts no unsolicited updates.
func TestWhoIsNotMoved(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*bench)
		moved  bool
	}{
		"consents":                         {func(*bench) {}, true},
		"does not consent":                 {func(b *bench) { b.list(guaranteed("c", 2)) }, false},
		"CPUs only":                        {func(b *bench) { b.list(consents(guaranteed("c", 2), request.MoveCPUs)) }, false},
		"memory is above the bound":        {func(b *bench) { b.policy.Moves.Bytes = 64 << 20 }, false},
		"all, but not to other NUMA nodes": {func(b *bench) { b.policy.Moves.All = true; b.list(guaranteed("c", 2)) }, false},
		"the policy is static":             {func(b *bench) { b.policy.Moves = node.MovePolicy{} }, false},
		"someone objects":                  {func(b *bench) { b.moves.May = func(string) error { return errors.New("not now") } }, false},
		"the runtime is too old":           {func(b *bench) { b.old = true }, false},
		"its program pins its threads":     {func(b *bench) { b.inner = map[string]cpuset.Set{"podc": cpuset.Of(4)} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, _ := fragmented(t, c.change)
				want := nri.ErrRejected
				if c.moved {
					want = nri.ErrMoving
				}
				if err := b.run("big"); !errors.Is(err, want) {
					t.Errorf("%v, want %v", err, want)
				}
				pass(15 * time.Second)
				b.check(t)
			})
		})
	}
}

// Under "moves: all", a pod without consent that is on both NUMA nodes anyway gets other CPUs of
// them. Its memory stays.
func TestMoveWithinNUMANodes(t *testing.T) {
	for _, consent := range []request.Consent{request.NoMoves, request.NeverMoves} {
		t.Run(consent.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, w := live(t), &watcher{}
				b.policy.Moves, b.policy.StaticMemory, b.policy.ReservedMemory = node.MovePolicy{Pods: 2, All: true}, false, nil
				b.moves = nri.MovesConfig{Interval: 10 * time.Minute, Observer: w}
				b.start()
				b.list(guaranteed("p", 1), guaranteed("q", 2), guaranteed("r", 1), consents(guaranteed("wide", 5), consent), guaranteed("two", 2))
				end := func(uid string) {
					b.stop(uid)
					b.unlist(uid)
					pass(30 * time.Second)
				}
				b.mustRun(t, "p", "q", "r")
				end("q")
				b.mustRun(t, "wide")
				end("p")
				end("r")
				err := b.run("two")
				if consent == request.NeverMoves {
					if !errors.Is(err, nri.ErrRejected) {
						t.Errorf("%v", err)
					}
					b.check(t)
					return
				}
				if !errors.Is(err, nri.ErrMoving) {
					t.Fatal(err)
				}
				pass(10 * time.Second)
				if len(w.ended()) != 1 || !w.ended()[0] || w.begun()[0].Bytes != 0 {
					t.Errorf("begun %v, ended %v", w.begun(), w.ended())
				}
				b.mustRun(t, "two")
				b.apart()
				b.check(t)
			})
		})
	}
}

// A pod that grows gets nothing of a place that is promised to another pod. When the promise has
// ended without that pod, it does, although nothing else has changed.
func TestResizeBesideAPromise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := fragmented(t, func(b *bench) { b.policy.StaticMemory, b.policy.ReservedMemory = false, nil })
		if err := b.run("big"); !errors.Is(err, nri.ErrMoving) {
			t.Fatal(err)
		}
		has := actuated(b.source["c"])
		b.list(guaranteed("c", 5)) // three CPUs of NUMA node 0, and two of the place of "big"
		for _, why := range []string{"the pod is being moved", "reserved for pod default/big", "reserved for pod default/big"} {
			err := b.resize(has, b.source["c"])
			if !errors.Is(err, nri.ErrResizeRejected) || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), "Deferred") {
				t.Errorf("it grows: %v, want %q", err, why)
			}
			pass(15 * time.Second)
		}
		b.want(t, "moved", map[string]string{"c/app": "2-3 on {} no quota", "c/log": "0-1,4-7 on {}", "web/web": "0-1,4-7 on {}"})
		pass(2 * time.Minute)
		if err := b.resize(has, b.source["c"]); err != nil {
			t.Error(err)
		}
		if g, _ := b.engine.State().Grant("c"); g.CPUs().Len() != 5 {
			t.Errorf("it has %s", g.CPUs())
		}
		b.apart()
		b.check(t)
	})
}
