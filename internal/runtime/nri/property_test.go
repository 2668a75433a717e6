package nri_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/runtime/nri"
)

// history is a random life of a node.
type history struct {
	*bench
	uids []string
	// estimates tells whether what is not listed is estimated.
	estimates bool
	// pinned is what containers with CPUs of their own, or of their pod's estimated pool, ran on first.
	pinned map[string]cpuset.Set
}

// TestHistories: pods, containers, the agent, its connection and the kubelet come and go in any
// order, updates that may fail get lost, and creations fail after the reply. No empty cpuset is sent, nobody
// ever runs on CPUs that another has for its own, no such CPUs change while a container runs, and in the end
// everything runs where it should, and what is gone holds nothing.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &history{pinned: map[string]cpuset.Set{}, estimates: rapid.Bool().Draw(t, "estimates")}
		h.bench = newBench(t.Context(), func(c *nri.Config) {
			if h.estimates {
				c.Estimate = func(error) bool { return true }
			}
		})
		h.policy.Scope = rapid.SampledFrom([]node.Scope{node.PodScope, node.ContainerScope}).Draw(t, "scope")
		h.lose = func(*api.ContainerUpdate) bool { return rapid.IntRange(0, 3).Draw(t, "lost") == 0 }
		h.fail = func() bool { return rapid.IntRange(0, 5).Draw(t, "fails") == 0 }
		h.between = func() {
			if rapid.IntRange(0, 3).Draw(t, "looks in between") == 0 {
				h.plugin.Reconcile(t.Context())
			}
		}
		h.start()
		defer h.disconnect()
		t.Repeat(map[string]func(*rapid.T){
			"":    func(t *rapid.T) { h.hold(t) },
			"run": h.runOne,
			"again": func(t *rapid.T) {
				uid := h.any(t)
				h.stop(uid)
				_ = h.run(uid)
			},
			"restart": h.restart,
			"stop":    func(t *rapid.T) { h.stop(h.any(t)) },
			"unlist": func(t *rapid.T) {
				uid := h.any(t)
				h.unlist(uid)
				h.stop(uid)
			},
			"disconnect": func(*rapid.T) { h.disconnect() },
			"connect": func(*rapid.T) {
				h.disconnect()
				h.connect()
			},
			"kill": func(*rapid.T) {
				h.disconnect()
				h.boot()
			},
			"appear": func(t *rapid.T) {
				if pod, hidden := h.hidden[h.any(t)]; hidden {
					h.list(pod)
				}
			},
			"reconcile": func(*rapid.T) { h.plugin.Reconcile(h.ctx) },
			"deaf": func(t *rapid.T) {
				h.deaf = rapid.SampledFrom([]error{nil, nil, errors.New("the kubelet restarts")}).Draw(t, "deaf")
			},
			"wait": func(t *rapid.T) {
				h.clock.pass(time.Duration(rapid.IntRange(1, 40).Draw(t, "seconds")) * time.Second)
			},
		})
		h.end(t)
	})
}

func (h *history) any(t *rapid.T) string {
	if len(h.uids) == 0 {
		return "none"
	}
	return rapid.SampledFrom(h.uids).Draw(t, "pod")
}

func (h *history) runOne(t *rapid.T) {
	uid := fmt.Sprint("p", len(h.uids))
	h.uids = append(h.uids, uid)
	pod := burstable(uid)
	if cpus := rapid.IntRange(0, 4).Draw(t, "CPUs"); cpus > 0 {
		pod = guaranteed(uid, cpus)
	}
	if rapid.IntRange(0, 3).Draw(t, "hidden") == 0 {
		h.hide(pod)
	} else {
		h.list(pod)
	}
	_ = h.run(uid) // It may be refused.
}

// container is the id of any container.
func (h *history) container(t *rapid.T) (string, bool) {
	ids := h.of(h.any(t))
	if len(ids) == 0 {
		return "", false
	}
	return rapid.SampledFrom(ids).Draw(t, "container"), true
}

func (h *history) restart(t *rapid.T) {
	id, there := h.container(t)
	if !there {
		return
	}
	c := h.runs[id].c
	h.exit(id)
	_, _ = h.create(h.boxes[c.GetPodSandboxId()], c.GetName())
}

// hold holds the node to what was promised.
func (h *history) hold(t *rapid.T) {
	if h.wrong != nil {
		t.Fatalf("%v\n%s", h.wrong, h.said.String())
	}
	s := h.engine.State()
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	for _, g := range s.Grants() {
		if g.Pod.Estimated && (!h.estimates || g.LiftsPodQuota(s.Policy()) || g.Isolation(0) == node.ContainerIsolation) {
			t.Fatalf("pod %s is estimated, which is %v here, and has %s", g.Pod.ID(), h.estimates, g.CPUs())
		}
	}
	for id, r := range h.runs {
		g, known := s.Grant(h.boxes[r.c.GetPodSandboxId()].GetUid())
		if !known || r.setting.CPUs.IsEmpty() {
			continue
		}
		_, i := g.Pod.Container(r.c.GetName())
		if i < 0 || g.Isolation(i) == node.HostIsolation || !r.setting.CPUs.Equal(g.Containers[i].CPUs) {
			continue
		}
		if first, there := h.pinned[id]; there && !first.Equal(r.setting.CPUs) {
			t.Fatalf("container %s ran on %s and runs on %s", id, first, r.setting.CPUs)
		}
		h.pinned[id] = r.setting.CPUs
	}
	for id, cpus := range h.pinned {
		if r := h.runs[id]; r != nil && !r.setting.CPUs.Equal(cpus) {
			t.Fatalf("container %s ran on %s and runs on %s", id, cpus, r.setting.CPUs)
		}
	}
}

// end lets everything settle and looks whether it is as it should be.
func (h *history) end(t *rapid.T) {
	h.deaf, h.lose, h.fail, h.between = nil, nil, nil, nil
	if h.link == nil {
		h.connect()
	}
	for range 3 {
		h.clock.pass(time.Minute)
		h.plugin.Reconcile(t.Context())
	}
	h.hold(t)
	s := h.engine.State()
	var observed []converge.Observed
	for id, r := range h.runs {
		uid := h.boxes[r.c.GetPodSandboxId()].GetUid()
		g, known := s.Grant(uid)
		if known && g.Pod.Estimated && !g.Pool.IsEmpty() && !r.setting.CPUs.Equal(g.Pool) {
			t.Fatalf("%s/%s runs on %s, the pool that was estimated is %s", uid, r.c.GetName(), r.setting.CPUs, g.Pool)
		}
		if !known {
			if !r.setting.CPUs.Equal(s.SharedCPUs()) {
				t.Fatalf("%s/%s holds nothing and runs on %s, want %s", uid, r.c.GetName(), r.setting.CPUs, s.SharedCPUs())
			}
			continue
		}
		observed = append(observed, converge.Observed{ID: id, Pod: uid, Container: r.c.GetName(), Setting: r.setting})
	}
	if report := converge.Compare(s, observed); len(report.Updates) > 0 {
		t.Fatalf("in the end something runs elsewhere: %v\n%s", report.Updates, h.said.String())
	}
	for _, g := range s.Grants() {
		if _, listed := h.source[g.Pod.UID]; !listed && len(h.of(g.Pod.UID)) == 0 && !h.starting(g) {
			t.Fatalf("pod %s is gone and holds %s", g.Pod.UID, g.CPUs())
		}
	}
}

// starting tells whether a pod may still get a container: its request was estimated, so that it is no news
// that it is not listed, and it has a sandbox.
func (h *history) starting(g *node.Grant) bool {
	for _, box := range h.boxes {
		if g.Pod.Estimated && box.GetUid() == g.Pod.UID {
			return true
		}
	}
	return false
}
