package cluster_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/cluster/fleet/memo"
	"github.com/paddock-project/paddock/internal/cluster/fleetsource"
	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/behavior"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/shown"
	"github.com/paddock-project/paddock/scheduler/cluster"
)

// world is an API server with one node. It has the pods of the node by UID.
type world struct {
	mu   sync.Mutex
	pods map[string]*v1.Pod
}

func (w *world) cluster(report func(error)) *cluster.Cluster {
	return cluster.New(fleet.NewRanking(fleet.LeastStranded, nil), cluster.World{
		Pods:       w.bound,
		Exists:     w.exists,
		AgentReady: func([]*v1.Pod) bool { return true },
		Report:     func(_, _ string, err error) { report(err) },
	})
}

func (w *world) bound(string) []*v1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	var bound []*v1.Pod
	for _, pod := range w.pods {
		if pod.Spec.NodeName != "" {
			bound = append(bound, pod)
		}
	}
	return bound
}

func (w *world) exists(_, _, uid string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pods[uid] != nil
}

func (w *world) set(pod *v1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pods[string(pod.UID)] = pod
}

func (w *world) remove(uid string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pods, uid)
}

// source returns a node of two NUMA nodes of 8 CPUs.
func source(t interface{ Fatal(args ...any) }) *fleetsource.Node {
	var d machine.Description
	for id := range 2 {
		n := machine.NodeDescription{ID: id, Memory: 1 << 36}
		for k := 8 * id; k < 8*id+8; k += 2 {
			n.Cores = append(n.Cores, machine.CoreDescription{Threads: []int{k, k + 1}})
		}
		d.Nodes = append(d.Nodes, n)
	}
	m, err := machine.New(d)
	if err != nil {
		t.Fatal(err)
	}
	return &fleetsource.Node{
		Here: handover.Here{Node: "n", Machine: "m", Policy: "p"}, Machine: m, Managing: true, Complete: true,
		Policy: node.Policy{Topology: node.TopologySingleNUMANode, Scope: node.PodScope, StaticCPU: true, ReservedCPUs: cpuset.Of(0)},
	}
}

// pod returns a pod that is not bound.
func pod(uid string, cpus int) *v1.Pod {
	amounts := v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(int64(cpus), resource.DecimalSI), v1.ResourceMemory: resource.MustParse("1Gi")}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: uid, UID: types.UID(uid)},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: amounts, Limits: amounts}}}},
	}
}

func bound(p *v1.Pod, text string) *v1.Pod {
	p = p.DeepCopy()
	p.Spec.NodeName = "n"
	if text != "" {
		p.Annotations = map[string]string{handover.Annotation: text}
	}
	return p
}

// history is a cluster of one node, with the facts that must be true of it.
type history struct {
	*world
	*cluster.Cluster
	node *fleetsource.Node
	// texts has the annotations of pods. known has the CPUs of those that have not ended.
	texts map[string]string
	known map[string]cpuset.Set
	// gone has the grants of pods that have ended. late has those of them that the node still
	// shows, because it wrote them before the end of the pod.
	gone, late map[string]*node.Grant
}

// some returns the key of one of the pods of a map.
func some[T any](t *rapid.T, of map[string]T) string {
	return rapid.SampledFrom(slices.Sorted(maps.Keys(of))).Draw(t, "pod")
}

// publish shows the next revision of the node, with the grant of a pod, or without it if g is nil.
func (h *history) publish(uid string, g *node.Grant) {
	h.node = published(h.node, uid, g)
	h.Update("n", &cluster.Source{Node: h.node})
}

// step performs a random action.
func (h *history) step(t *rapid.T, uid string) {
	switch action := rapid.IntRange(0, 8).Draw(t, "action"); {
	case action <= 2:
		p := pod(uid, rapid.IntRange(1, 6).Draw(t, "cpus"))
		h.set(p)
		if grant := reserve(t, h.Cluster, p); grant != nil {
			text, err := handover.Encode("n", h.node.Here.Machine, h.node.Here.Policy, grant)
			if err != nil {
				t.Fatal(err)
			}
			h.Hand("n", uid, text)
			h.texts[uid], h.known[uid] = text, grant.CPUs()
		}
	case action == 7 && len(h.gone) > 0: // The node wrote before the pod ended.
		uid := some(t, h.gone)
		h.late[uid] = h.gone[uid]
		h.publish(uid, h.gone[uid])
	case action == 8 && len(h.late) > 0:
		uid := some(t, h.late)
		delete(h.late, uid)
		delete(h.gone, uid)
		h.publish(uid, nil)
	case len(h.known) == 0 || action >= 7:
	case action == 3: // The binding succeeds. The scheduler may believe that it failed.
		uid := some(t, h.known)
		h.set(bound(h.pods[uid], h.texts[uid]))
		if rapid.Bool().Draw(t, "seen") {
			h.After("n")
		}
		if rapid.Bool().Draw(t, "timeout") {
			h.Unreserve("n", uid)
		}
	case action == 4: // The binding fails.
		if uid := some(t, h.known); h.pods[uid].Spec.NodeName == "" {
			h.Unreserve("n", uid)
			delete(h.known, uid)
		}
	case action == 5: // The pod ends.
		uid := some(t, h.known)
		h.gone[uid], _ = h.After("n").View.State.Grant(uid)
		h.remove(uid)
		delete(h.known, uid)
		h.publish(uid, nil)
	default: // The node publishes the grant unchanged.
		uid := some(t, h.known)
		if g, has := h.After("n").View.State.Grant(uid); has && h.pods[uid].Spec.NodeName != "" {
			h.publish(uid, g)
		}
	}
}

// TestHistories runs random histories: reservations, bindings that succeed or fail, pods that end
// or that other schedulers bind, and publications that may be late. It checks that no CPU is
// assigned twice, that a pod keeps its reserved CPUs until its node publishes something else, and
// that another scheduler that starts then finds the same state. A full comparison must find the
// same as an incremental one.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{pods: map[string]*v1.Pod{}}
		h := &history{
			world: w, Cluster: w.cluster(func(err error) { t.Logf("not used: %v", err) }), node: source(t), texts: map[string]string{},
			known: map[string]cpuset.Set{}, gone: map[string]*node.Grant{}, late: map[string]*node.Grant{},
		}
		h.Update("n", &cluster.Source{Node: h.node})
		for i := range rapid.IntRange(1, 40).Draw(t, "steps") {
			h.step(t, fmt.Sprint("p", i))
			compare(t, h.Cluster, h.known, h.late)
			h.fleetAgrees(t)
			quick := h.Show("n")
			h.CompareInFull("n")
			if whole := h.Show("n"); !reflect.DeepEqual(quick, whole) {
				t.Fatalf("known was %+v, and with everything compared again it is %+v", quick, whole)
			}
		}
		for uid := range h.known {
			if w.pods[uid].Spec.NodeName == "" {
				delete(h.known, uid)
			}
		}
		other := w.cluster(func(err error) { t.Errorf("not used by another scheduler: %v", err) })
		other.Update("n", &cluster.Source{Node: h.node})
		compare(t, other, h.known, h.late)
	})
}

// fleetAgrees checks the fleet, which makes a state of the same objects. It must always give the
// bound pods the same CPUs. Both must have the same grants if no pod is about to be bound.
func (h *history) fleetAgrees(t *rapid.T) {
	var list []shown.Bound
	underWay := false
	for _, pod := range h.pods {
		if pod.Spec.NodeName == "" {
			_, reserved := h.known[string(pod.UID)]
			underWay = underWay || reserved
			continue
		}
		b, err := fleetsource.ReadBound(pod, h.node.Policy)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, b)
	}
	built, err := h.node.State(list)
	if err != nil {
		t.Fatal(err)
	}
	scheduler := h.After("n").View.State
	for _, b := range list {
		g, has := built.State.Grant(b.Pod.UID)
		want, wanted := scheduler.Grant(b.Pod.UID)
		if has != wanted || has && !g.SameAssignments(want) {
			t.Fatalf("pod %s: the fleet has %v (%t), the scheduler %v (%t)", b.Pod.UID, g, has, want, wanted)
		}
	}
	if a, b := len(built.State.Grants()), len(scheduler.Grants()); !underWay && a != b {
		t.Fatalf("the fleet has %d grants, the scheduler %d", a, b)
	}
}

// reserve plans a pod. It returns nil if the pod does not fit.
func reserve(t *rapid.T, c *cluster.Cluster, p *v1.Pod) *node.Grant {
	asked, err := cluster.Read(p, podspec.Gates{})
	if err != nil {
		t.Fatal(err)
	}
	done, err := c.Reserve("n", asked)
	if err != nil {
		t.Fatal(err)
	}
	return done.Plan.Grant
}

// published returns the next revision of a node, with the grant of a pod, or without it if g is
// nil.
func published(n *fleetsource.Node, uid string, g *node.Grant) *fleetsource.Node {
	next := *n
	next.Revision++
	next.Published = maps.Clone(n.Published)
	if delete(next.Published, uid); g != nil {
		if next.Published == nil {
			next.Published = map[string]*node.Grant{}
		}
		next.Published[uid] = g
	}
	return &next
}

// compare checks that a cluster has these pods with these CPUs, and no others except late ones.
func compare(t *rapid.T, c *cluster.Cluster, known map[string]cpuset.Set, late map[string]*node.Grant) {
	state := c.After("n").View.State
	if err := state.Check(); err != nil {
		t.Fatal(err)
	}
	for _, g := range state.Grants() {
		if _, is := known[g.Pod.UID]; !is && late[g.Pod.UID] == nil {
			t.Fatalf("pod %s has a grant, want those of %v", g.Pod.UID, slices.Sorted(maps.Keys(known)))
		}
	}
	for uid, cpus := range known {
		if g, has := state.Grant(uid); !has || !g.CPUs().Equal(cpus) {
			t.Fatalf("pod %s has CPUs %v (%t), want %s", uid, g, has, cpus)
		}
	}
}

// TestConcurrency reads, reserves and releases in many goroutines, for the race detector. It checks
// that everything is free at the end.
func TestConcurrency(t *testing.T) {
	w := &world{pods: map[string]*v1.Pod{}}
	c := w.cluster(func(err error) { t.Error(err) })
	n := source(t)
	c.Update("n", &cluster.Source{Node: n})
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 50 {
				p := pod(fmt.Sprint(g, "-", i), 1+i%3)
				asked, err := cluster.Read(p, podspec.Gates{})
				if err != nil {
					t.Error(err)
					return
				}
				w.set(p)
				at := c.At("n", int64(100*g+i), func() (allocatable, used fleet.Amounts) { return fleet.Amounts{Milli: 16000}, fleet.Amounts{} })
				at.View.Answer(c.Questions.Of(asked))
				if done, err := c.Reserve("n", asked); err != nil {
					t.Error(err)
				} else if done.Plan.Grant != nil && i%2 == 0 {
					w.set(bound(p, ""))
				}
				c.Update("n", &cluster.Source{Node: n})
				c.Unreserve("n", asked.UID)
				w.remove(asked.UID)
			}
		})
	}
	wg.Wait()
	if grants := c.After("n").View.State.Grants(); len(grants) > 0 {
		t.Errorf("%d pods are left, such as %s", len(grants), grants[0].Pod.ID())
	}
}

// TestProblems checks that a node for which nothing can be planned has a problem, and that it has
// none when its objects are right.
func TestProblems(t *testing.T) {
	w := &world{pods: map[string]*v1.Pod{}}
	c := w.cluster(func(err error) { t.Error(err) })
	if c.After("n") != nil || c.At("n", 1, nil) != nil {
		t.Error("a node without objects is known")
	}
	c.Update("n", &cluster.Source{Problem: "its machine is not here yet"})
	if at := c.After("n"); at.Problem == "" || at.View != nil {
		t.Errorf("problem %q", at.Problem)
	}
	n := source(t)
	c.Update("n", &cluster.Source{Node: n})
	if at := c.After("n"); at.Problem != "" {
		t.Errorf("problem %q", at.Problem)
	}
	wrong := *n
	wrong.Here.Policy, wrong.Policy.ReservedMemory = "other", map[int]map[string]int64{7: {"memory": 1}}
	wrong.Policy.StaticMemory = true
	c.Update("n", &cluster.Source{Node: &wrong})
	if at := c.After("n"); at.Problem == "" {
		t.Error("memory is reserved on a NUMA node that the machine does not have, and there is no problem")
	}
	c.Update("n", &cluster.Source{Node: n})
	if at := c.After("n"); at.Problem != "" {
		t.Errorf("problem %q", at.Problem)
	}
	if c.Update("n", nil); c.After("n") != nil || len(c.Names()) != 0 {
		t.Error("a node without objects is known")
	}
}

// TestResize has a pod that was handed its grant and then requests more. Until its node publishes
// the result of the resize, the pod has what its annotation has, whatever it requests. Then it has
// what the node published. A scheduler that starts later must find the same state.
func TestResize(t *testing.T) {
	w := &world{pods: map[string]*v1.Pod{}}
	c := w.cluster(func(err error) { t.Error(err) })
	n := source(t)
	c.Update("n", &cluster.Source{Node: n})
	p := pod("p", 2)
	w.set(p)
	asked, err := cluster.Read(p, podspec.Gates{})
	if err != nil {
		t.Fatal(err)
	}
	done, err := c.Reserve("n", asked)
	if err != nil {
		t.Fatal(err)
	}
	text, err := handover.Encode("n", n.Here.Machine, n.Here.Policy, done.Plan.Grant)
	if err != nil {
		t.Fatal(err)
	}
	c.Hand("n", "p", text)
	w.set(bound(p, text))
	want := func(what string, c *cluster.Cluster, cpus string) {
		t.Helper()
		if g, has := c.After("n").View.State.Grant("p"); !has || g.CPUs().String() != cpus {
			t.Errorf("%s: it has %v (%t), want %s", what, g, has, cpus)
		}
	}
	c.Update("n", &cluster.Source{Node: n})
	want("bound", c, "2-3")
	w.set(bound(pod("p", 4), text)) // The pod is resized. The node has not accepted it, or has no room.
	c.Update("n", &cluster.Source{Node: n})
	want("asking for more", c, "2-3")
	resized, err := cluster.Read(pod("p", 4), podspec.Gates{})
	if err != nil {
		t.Fatal(err)
	}
	plan := c.After("n").View.State.Resize("p", resized.Pod)
	for what, published := range map[string]*fleetsource.Node{
		"2-3": published(n, "p", done.Plan.Grant), // The pod requests more than its annotation has, so the node publishes the grant.
		"2-5": published(n, "p", plan.Grant),
	} {
		c.Update("n", &cluster.Source{Node: published})
		want("published", c, what)
		other := w.cluster(func(err error) { t.Error(err) })
		other.Update("n", &cluster.Source{Node: published})
		want("published, another scheduler", other, what)
	}
}

// observed returns source as a node whose kubelet decides. Its grants take CPUs out of the shared
// pool.
func observed(t testing.TB, grants ...*node.Grant) *fleetsource.Node {
	n := source(t)
	version, err := behavior.Named("kubelet-1.36")
	if err != nil {
		t.Fatal(err)
	}
	rules, err := behavior.Of(version)
	if err != nil {
		t.Fatal(err)
	}
	n.Managing, n.Policy = false, n.Policy.As(rules)
	n.Kubelet = &fleetsource.Kubelet{Version: version, Kubelet: shown.Kubelet{Shared: n.Machine.AllCPUs()}, Certainty: v1alpha1.Certainty{Answer: v1alpha1.CertaintyExact}}
	n.Published = map[string]*node.Grant{}
	for _, g := range grants {
		n.Published[g.Pod.UID] = g
		n.Kubelet.Shared = n.Kubelet.Shared.Difference(g.CPUs())
	}
	return n
}

// TestOrders checks that pods about which a kubelet has not decided are planned in every order, that
// a node with many of them takes no other, and that what the kubelet wrote replaces the predictions.
func TestOrders(t *testing.T) {
	w := &world{pods: map[string]*v1.Pod{}}
	c := w.cluster(func(err error) { t.Error(err) })
	c.Update("n", &cluster.Source{Node: observed(t)})
	fits := func(cpus int) bool {
		t.Helper()
		at := c.After("n")
		asked, err := cluster.Read(pod("asked", cpus), at.Gates)
		if err != nil {
			t.Fatal(err)
		}
		all := true
		for _, view := range append([]*memo.Node{at.View}, at.Others...) {
			answer, _ := view.Answer(c.Questions.Of(asked))
			all = all && answer.Fits
		}
		return all
	}
	// NUMA node 0 has 7 CPUs for pods, and NUMA node 1 has 8. The first pod gets CPUs of NUMA node 0.
	small, large := bound(pod("small", 4), ""), bound(pod("large", 5), "")
	small.CreationTimestamp, large.CreationTimestamp = metav1.Unix(1, 0), metav1.Unix(2, 0)
	w.set(small)
	if at := c.After("n"); len(at.Others) != 0 || !fits(8) {
		t.Errorf("with one pod that waits: %d other orders, 8 CPUs fit: %t", len(at.Others), fits(8))
	}
	w.set(large)
	if at := c.After("n"); len(at.Others) != 1 || fits(4) || !fits(3) {
		t.Errorf("with two: %d other orders, 4 CPUs fit: %t, 3 CPUs: %t", len(at.Others), fits(4), fits(3))
	}
	w.set(bound(pod("third", 1), ""))
	w.set(bound(pod("fourth", 1), ""))
	if at := c.After("n"); at.Problem == "" || len(at.Others) != 0 {
		t.Errorf("with four: problem %q, %d other orders", at.Problem, len(at.Others))
	}
	w.remove("third")
	w.remove("fourth")
	g, _ := c.After("n").View.State.Grant("large")
	c.Update("n", &cluster.Source{Node: observed(t, g)})
	at := c.After("n")
	if got, _ := at.View.State.Grant("large"); at.Problem != "" || len(at.Others) != 0 || !got.SameAssignments(g) {
		t.Errorf("when it has decided about one: problem %q, %d other orders, %v", at.Problem, len(at.Others), got)
	}
	if err := at.View.State.Check(); err != nil {
		t.Error(err)
	}
}

// TestReservesInEveryOrder checks that no pod is reserved for which a pod that waits would find no
// room if the kubelet decided about it later.
func TestReservesInEveryOrder(t *testing.T) {
	w := &world{pods: map[string]*v1.Pod{}}
	c := w.cluster(func(err error) { t.Error(err) })
	c.Update("n", &cluster.Source{Node: observed(t)})
	reserve := func(name string, cpus int) error {
		t.Helper()
		asked, err := cluster.Read(pod(name, cpus), c.After("n").Gates)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Reserve("n", asked)
		c.Unreserve("n", name)
		return err
	}
	// NUMA node 0 has 7 CPUs for pods, and NUMA node 1 has 8. In both orders of these pods, 3 CPUs are
	// left on NUMA node 1. If the kubelet decided about a pod of 3 CPUs first, it would take them of
	// NUMA node 0, and only one of the others would fit.
	w.set(bound(pod("first", 5), ""))
	w.set(bound(pod("second", 5), ""))
	if err := reserve("small", 2); err != nil {
		t.Errorf("2 CPUs: %v", err)
	}
	if err := reserve("large", 3); err == nil || !strings.Contains(err.Error(), "has not decided about pod") {
		t.Errorf("3 CPUs: %v", err)
	}
	w.remove("second")
	if err := reserve("large", 3); err != nil {
		t.Errorf("3 CPUs beside one pod: %v", err)
	}
}

// TestEnds checks that pods which have ended, and are still in the kubelet's files, have ended before
// or after it decides about a pod that was bound before that, and otherwise before it.
func TestEnds(t *testing.T) {
	w := &world{pods: map[string]*v1.Pod{}}
	c := w.cluster(func(err error) { t.Error(err) })
	c.Update("n", &cluster.Source{Node: observed(t)})
	w.set(bound(pod("old", 6), ""))
	g, _ := c.After("n").View.State.Grant("old")
	c.Update("n", &cluster.Source{Node: observed(t, g)})
	shared := func() (all []string) {
		at := c.After("n")
		for _, view := range append([]*memo.Node{at.View}, at.Others...) {
			s := view.State.SharedCPUs()
			m := view.State.Machine()
			all = append(all, fmt.Sprintf("%d+%d", s.Intersection(m.Nodes()[0].CPUs).Len(), s.Intersection(m.Nodes()[1].CPUs).Len()))
		}
		slices.Sort(all)
		return all
	}
	want := func(what string, lists ...string) {
		t.Helper()
		if got := shared(); !slices.Equal(got, lists) {
			t.Errorf("%s: free CPUs by NUMA node %q, want %q", what, got, lists)
		}
	}
	// One reserved CPU of NUMA node 0 is in the shared pool.
	want("published", "2+8")
	w.set(bound(pod("before", 5), ""))
	want("with a pod that waits", "2+3")
	ending := bound(pod("old", 6), "")
	ending.DeletionTimestamp = &metav1.Time{Time: time.Unix(3, 0)}
	w.set(ending)
	want("when the old one is deleted", "2+3", "3+8", "8+3")
	w.remove("old")
	want("when the old one has ended", "2+3", "3+8", "8+3")
	w.remove("before")
	want("without the one that waited", "2+8", "8+8")
	w.set(bound(pod("after", 5), ""))
	want("with one that was bound later", "2+3", "3+8")
}

// TestUnsure checks when an observed node takes every pod, or none.
func TestUnsure(t *testing.T) {
	for name, source := range map[string]*cluster.Source{
		"its objects cannot be read": {Unsure: "manager x is not known"},
		"unsure":                     {Node: func() *fleetsource.Node { n := observed(t); n.Kubelet.Certainty.Answer = "unsure"; return n }()},
		"too many grants":            {Node: func() *fleetsource.Node { n := observed(t); n.Complete = false; return n }()},
		"it contradicts itself": {Node: func() *fleetsource.Node {
			n := observed(t)
			n.Here.Policy = "other"
			n.Policy.StaticMemory, n.Policy.ReservedMemory = true, map[int]map[string]int64{7: {"memory": 1}}
			return n
		}()},
	} {
		for _, problem := range []bool{false, true} {
			c := cluster.New(fleet.NewRanking(fleet.LeastStranded, nil), cluster.World{
				Pods: func(string) []*v1.Pod { return nil }, Exists: func(_, _, _ string) bool { return true },
				AgentReady: func([]*v1.Pod) bool { return true }, UnsureIsProblem: problem, Report: func(_, _ string, err error) { t.Error(err) },
			})
			c.Update("n", source)
			at := c.After("n")
			if (at.Unsure != "") == problem || (at.Problem != "") != problem || c.Unsure("n") == problem {
				t.Errorf("%s: unsure %q, problem %q", name, at.Unsure, at.Problem)
			}
			asked, err := cluster.Read(pod("p", 2), podspec.Gates{})
			if err != nil {
				t.Fatal(err)
			}
			if done, err := c.Reserve("n", asked); done != nil || (err != nil) != problem {
				t.Errorf("%s: reserved %+v, error %v", name, done, err)
			}
			c.Update("n", &cluster.Source{Node: observed(t)})
			if at := c.After("n"); at.Unsure != "" || at.Problem != "" || at.View == nil {
				t.Errorf("%s, and then exact: unsure %q, problem %q", name, at.Unsure, at.Problem)
			}
		}
	}
}
