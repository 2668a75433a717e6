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
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/moves"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/quota"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/runtime/nri"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

// history is a random life of a node.
type history struct {
	*bench
	uids []string
	// estimates is set if the requests of pods that are not listed are estimated.
	estimates bool
	// pinned has, by container ID, the CPUs on which a container ran first since its pod got its
	// present size or place. It has containers with CPUs of their own or of their pod's estimated
	// pool.
	pinned map[string]pinned
	// actuated is what the kubelet has applied of resizes, by pod.
	actuated map[string]*resizing
	watched  watcher
	// besides has, by pod, the CPUs that it has of a promised place. waiting is the pod with the
	// promise.
	besides map[string]cpuset.Set
	waiting string
}

// pinned are the CPUs of a container, and the revision of the change after which it had them.
type pinned struct {
	cpus    cpuset.Set
	resized uint64
}

// TestHistories: pods, containers, the agent, its connection and the kubelet come and go in any
// order, updates that may fail get lost, and creations fail after the reply. These invariants are
// checked:
//
//   - No empty cpuset is sent.
//   - No container ever runs on CPUs that another container has for its own.
//   - Such CPUs do not change while a container runs and is not resized.
//   - No container ever loses CPUs with which it was admitted.
//   - In the end every container runs where it should, pods that are gone have no grant, and every
//     pod that can be resized is.
func TestHistories(t *testing.T) {
	begun, done := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		h := drawHistory(t)
		h.start()
		defer h.disconnect()
		t.Repeat(map[string]func(*rapid.T){
			"":             func(t *rapid.T) { h.hold(t) },
			"run":          h.runOne,
			"again":        h.again,
			"restart":      h.restart,
			"resize":       h.resizeOne,
			"odd":          h.oddNumbers,
			"retry":        h.retry,
			"update fails": func(*rapid.T) { h.broken = errors.New("device or resource busy") },
			"stop":         func(t *rapid.T) { h.stop(h.any(t)) },
			"unlist":       h.unlistOne,
			"disconnect":   func(*rapid.T) { h.disconnect() },
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
			"move":      h.carry,
			"deaf": func(t *rapid.T) {
				h.deaf = rapid.SampledFrom([]error{nil, nil, errors.New("the kubelet restarts")}).Draw(t, "deaf")
			},
			"wait": func(t *rapid.T) {
				h.clock.pass(time.Duration(rapid.IntRange(1, 40).Draw(t, "seconds")) * time.Second)
			},
		})
		h.end(t)
		begun += len(h.watched.begun())
		for _, ok := range h.watched.ended() {
			if ok {
				done++
			}
		}
	})
	t.Logf("%d moves begun, %d done", begun, done)
}

// drawHistory returns a node with a policy, and a runtime that fails now and then.
func drawHistory(t *rapid.T) *history {
	h := &history{pinned: map[string]pinned{}, actuated: map[string]*resizing{}, estimates: rapid.Bool().Draw(t, "estimates")}
	h.bench = newBench(t.Context(), func(c *nri.Config) {
		if h.estimates {
			c.Estimate = func(error) bool { return true }
		}
	})
	h.policy.Scope = rapid.SampledFrom([]node.Scope{node.PodScope, node.ContainerScope}).Draw(t, "scope")
	if rapid.Bool().Draw(t, "dynamic") {
		h.policy.Moves = node.MovePolicy{Pods: 2, Bytes: 1 << 30, All: rapid.Bool().Draw(t, "moves all")}
		h.moves = nri.MovesConfig{Notice: time.Duration(rapid.IntRange(0, 3).Draw(t, "notice")) * time.Second, Interval: time.Minute, Observer: &h.watched}
	}
	h.deafToPods = rapid.IntRange(0, 3).Draw(t, "the runtime does not ask about pods") == 0
	h.lose = func(*api.ContainerUpdate) bool { return rapid.IntRange(0, 3).Draw(t, "lost") == 0 }
	h.fail = func() bool { return rapid.IntRange(0, 5).Draw(t, "fails") == 0 }
	h.between = func() {
		if rapid.IntRange(0, 3).Draw(t, "looks in between") == 0 {
			h.plugin.Reconcile(t.Context())
		}
	}
	return h
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
		pod = consents(guaranteed(uid, cpus), request.Consent(rapid.IntRange(-1, 2).Draw(t, "consent")))
	}
	if rapid.IntRange(0, 3).Draw(t, "hidden") == 0 {
		h.hide(pod)
	} else {
		h.list(pod)
	}
	h.runAgain(uid)
}

func (h *history) again(t *rapid.T) {
	uid := h.any(t)
	h.stop(uid)
	h.runAgain(uid)
}

func (h *history) unlistOne(t *rapid.T) {
	uid := h.any(t)
	h.unlist(uid)
	h.stop(uid)
}

// retry makes the kubelet continue a resize.
func (h *history) retry(t *rapid.T) {
	if uid := h.any(t); h.actuated[uid] != nil && h.box(uid) != nil {
		_ = h.resize(h.actuated[uid], h.asked(uid))
	}
}

// runAgain starts a pod, which may be rejected.
func (h *history) runAgain(uid string) {
	h.actuated[uid] = actuated(h.asked(uid))
	if err := h.run(uid); errors.Is(err, nri.ErrMoving) {
		h.settle()
	}
}

// settle makes the updates of a move land before the runtime asks again. They wait for the
// runtime's lock, which this runtime has only while it applies a reply.
func (h *history) settle() { h.plugin.Reconcile(h.ctx) }

// asked returns the present request of a pod.
func (h *history) asked(uid string) request.Pod {
	if pod, listed := h.source[uid]; listed {
		return pod
	}
	return h.hidden[uid]
}

// resizeOne changes the request of a pod. The kubelet accepts the change and applies as much of it
// as it can.
func (h *history) resizeOne(t *rapid.T) {
	uid := h.any(t)
	pod, listed := h.source[uid]
	if !listed || pod.QoS != request.Guaranteed || h.box(uid) == nil {
		return
	}
	pod = guaranteed(uid, rapid.IntRange(1, 5).Draw(t, "CPUs"))
	pod.Containers[0].Memory = request.Amounts{{Resource: machine.Memory, Value: rapid.Int64Range(1, 3).Draw(t, "memory") * (64 << 20)}}
	h.list(pod)
	_ = h.resize(h.actuated[uid], pod)
}

// oddNumbers makes the kubelet apply numbers that were not requested, out of order: the numbers of
// any request, for the pod or a container, with a limit that no request has. At times another list
// or a request that the kubelet has not accepted comes with them.
func (h *history) oddNumbers(t *rapid.T) {
	uid := h.any(t)
	box, pod := h.box(uid), h.asked(uid)
	if box == nil {
		return
	}
	odd := []int64{-1, 0, 1, 1000, 2000, 3000, 4000, 5000, 1 << 40, -1 << 62}
	to := sizes{rapid.SampledFrom(odd).Draw(t, "milli"), rapid.SampledFrom([]int64{-1, 0, 1, 64 << 20, 128 << 20, 192 << 20, 1 << 62}).Draw(t, "memory")}
	if _, listed := h.source[uid]; listed && pod.QoS == request.Guaranteed && rapid.Bool().Draw(t, "another list") {
		h.list(guaranteed(uid, rapid.IntRange(1, 5).Draw(t, "CPUs")))
	}
	h.mu.Lock()
	delete(h.pending, uid)
	if rapid.IntRange(0, 2).Draw(t, "pending") == 0 {
		h.pending[uid] = "Infeasible: not accepted"
	}
	h.mu.Unlock()
	if name := rapid.SampledFrom([]string{"", "app", "log", "web", "none"}).Draw(t, "container"); name != "" {
		_ = h.updateContainer(box, name, to)
	} else if h.link != nil {
		_ = h.plugin.UpdatePodSandbox(h.ctx, box, nil, to.message())
	}
}

// carry moves a pod as an operator would.
func (h *history) carry(t *rapid.T) {
	s := h.engine.State()
	for _, uid := range rapid.Permutation(h.uids).Draw(t, "whom") {
		g, there := s.Grant(uid)
		if !there {
			continue
		}
		p := scenario.Elsewhere(s, g)
		if p.Rejection == nil && h.plugin.Carry(h.ctx, []moves.Move{{From: g, To: p.Grant}}, false) == nil {
			h.settle()
			return // Other pods do not consent, or are not quiet.
		}
	}
}

// container returns the ID of a random container.
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
	uid := h.boxes[c.GetPodSandboxId()].GetUid()
	if a := h.actuated[uid]; a != nil { // A container that is created again has the resources that its pod now requests.
		a.containers[c.GetName()] = containerSizes(h.asked(uid))[c.GetName()]
	}
	_, _ = h.create(h.boxes[c.GetPodSandboxId()], c.GetName())
}

// hold checks the invariants of TestHistories.
func (h *history) hold(t *rapid.T) {
	if h.wrong != nil {
		t.Fatalf("%v\n%s", h.wrong, h.said.String())
	}
	s := h.engine.State()
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	h.keepPromise(t, s)
	for _, g := range s.Grants() {
		if g.Pod.Estimated && (!h.estimates || quota.PodHasNone(g, s.Policy()) || g.Isolation(0) == node.ContainerIsolation) {
			t.Fatalf("pod %s is estimated, which is %v here, and has %s", g.Pod.ID(), h.estimates, g.CPUs())
		}
	}
	for id, r := range h.runs {
		g, known := s.Grant(h.boxes[r.c.GetPodSandboxId()].GetUid())
		if !known || r.setting.CPUs.IsEmpty() {
			continue
		}
		if g.Moving != nil {
			delete(h.pinned, id)
			continue
		}
		_, i := g.Pod.Container(r.c.GetName())
		if i < 0 || g.Isolation(i) == node.HostIsolation || !r.setting.CPUs.Equal(g.Containers[i].CPUs) {
			continue
		}
		if first, there := h.pinned[id]; there && first.resized == g.Resized && !first.cpus.Equal(r.setting.CPUs) {
			t.Fatalf("container %s ran on %s and runs on %s", id, first.cpus, r.setting.CPUs)
		}
		h.pinned[id] = pinned{r.setting.CPUs, g.Resized}
	}
	for id, first := range h.pinned {
		r := h.runs[id]
		if r == nil {
			continue
		}
		g, known := s.Grant(h.boxes[r.c.GetPodSandboxId()].GetUid())
		switch {
		case r.setting.CPUs.Equal(first.cpus):
		case !known || g.Resized == first.resized:
			t.Fatalf("container %s ran on %s and runs on %s", id, first.cpus, r.setting.CPUs)
		default:
			if _, i := g.Pod.Container(r.c.GetName()); !r.setting.CPUs.Contains(g.BaselineOf(i)) {
				t.Fatalf("container %s was admitted with %s and runs on %s", id, g.BaselineOf(i), r.setting.CPUs)
			}
		}
	}
}

// keepPromise checks that other pods get no more of a promised place than they had.
func (h *history) keepPromise(t *rapid.T, s *node.State) {
	uid, place := h.kept.promised(s, h.now())
	has := map[string]cpuset.Set{}
	for _, g := range s.Grants() {
		has[g.Pod.UID] = g.CPUs().Intersection(place)
		if uid != "" && uid == h.waiting && !h.besides[g.Pod.UID].Contains(has[g.Pod.UID]) {
			t.Fatalf("pod %s has %s, which is promised to %s\n%s", g.Pod.UID, has[g.Pod.UID], uid, h.said.String())
		}
	}
	h.waiting, h.besides = uid, has
}

// end lets everything settle and checks the final state.
func (h *history) end(t *rapid.T) {
	h.deaf, h.lose, h.fail, h.between, h.broken = nil, nil, nil, nil, nil
	h.mu.Lock()
	clear(h.pending)
	h.mu.Unlock()
	if h.link == nil {
		h.connect()
	}
	for i := range 15 { // A move has four steps, and each may wait for a round.
		h.clock.pass(5 * time.Second * time.Duration(1+11*(i/12)))
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
	if report := converge.Want(s).Compare(observed); len(report.Updates) > 0 {
		t.Fatalf("in the end something runs elsewhere: %v\n%s", report.Updates, h.said.String())
	}
	for _, g := range s.Grants() {
		if g.Moving != nil {
			t.Fatalf("pod %s is still being moved from %s to %s\n%s", g.Pod.UID, g.CPUs(), g.Moving.CPUs(), h.said.String())
		}
		wanted, listed := h.source[g.Pod.UID]
		if listed && !g.Pod.Estimated && !wanted.Equal(g.Pod) && h.engine.State().Resize(wanted.UID, wanted).Rejection == nil {
			t.Fatalf("pod %s can be resized, and was not: it has %s\n%s", g.Pod.UID, g.CPUs(), h.said.String())
		}
		if _, listed := h.source[g.Pod.UID]; !listed && len(h.of(g.Pod.UID)) == 0 && !h.starting(g) {
			t.Fatalf("pod %s is gone and holds %s", g.Pod.UID, g.CPUs())
		}
	}
}

// starting reports whether a pod may still get a container. It may if its request was estimated, so
// that it was never listed anyway, and it has a sandbox.
func (h *history) starting(g *node.Grant) bool {
	for _, box := range h.boxes {
		if g.Pod.Estimated && box.GetUid() == g.Pod.UID {
			return true
		}
	}
	return false
}
