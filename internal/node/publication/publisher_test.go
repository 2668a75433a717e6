package publication_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/codec/objects"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/engine"
	"github.com/paddock-project/paddock/internal/node/publication"
	"github.com/paddock-project/paddock/internal/testing/objectstest"
)

// world is a Publisher with a server, a clock that the test advances, and a view that the test
// sets.
type world struct {
	t      *testing.T
	server *objectstest.Server
	clock  time.Time
	view   publication.View
	*publication.Publisher
	errors int
}

func (w *world) Published(_ time.Duration, err error) {
	if err != nil {
		w.errors++
	}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, server: objectstest.New(t), clock: time.Now()}
	w.server.AddNode("n7", "node-uid")
	client, err := publication.NewClient(w.server.Config())
	if err != nil {
		t.Fatal(err)
	}
	w.view = publication.View{State: eight(t), Listing: &handover.Listing{}}
	w.Publisher = publication.New(publication.Config{
		Node: "n7", Client: client, View: func() publication.View { return w.view }, Now: func() time.Time { return w.clock },
		After: time.After, Observer: w, Log: slog.New(slog.DiscardHandler),
	})
	return w
}

// eight returns a node with CPUs 0-7 on one NUMA node. CPU 0 is reserved.
func eight(t *testing.T) *node.State {
	t.Helper()
	m, err := machine.New(machine.Description{Nodes: []machine.NodeDescription{{
		Memory: 1 << 34, Cores: []machine.CoreDescription{{Threads: []int{0, 1}}, {Threads: []int{2, 3}}, {Threads: []int{4, 5}}, {Threads: []int{6, 7}}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := node.New(m, node.Policy{Topology: node.TopologyRestricted, StaticCPU: true, ReservedCPUs: cpuset.Of(0)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func exclusive(uid string, cpus int) request.Pod {
	return request.Pod{Identity: request.Identity{UID: uid, Namespace: "default", Name: uid}, Ask: request.Ask{QoS: request.Guaranteed, Containers: []request.Container{{Name: "main", Type: request.App, CPUs: cpus}}}}
}

// round advances the clock, runs one round and returns its number of writes.
func (w *world) round(after time.Duration) int {
	w.t.Helper()
	w.clock = w.clock.Add(after)
	before := w.server.Writes()
	w.Round(w.t.Context())
	return w.server.Writes() - before
}

func (w *world) object() *v1alpha1.PaddockNode {
	w.t.Helper()
	var o v1alpha1.PaddockNode
	if !w.server.Get(w.t, v1alpha1.PaddockNodes, "n7", &o) {
		w.t.Fatal("there is no PaddockNode")
	}
	return &o
}

// admit adds pods to the view.
func (w *world) admit(pods ...request.Pod) {
	w.t.Helper()
	for _, pod := range pods {
		next, err := w.view.State.Apply(w.view.State.Plan(pod))
		if err != nil {
			w.t.Fatal(err)
		}
		w.view.State = next
	}
}

// annotate makes the view list the pods with their grants in their annotations.
func (w *world) annotate(uids ...string) {
	w.t.Helper()
	o := w.object()
	listing := &handover.Listing{Pods: map[string]handover.Bound{}}
	for _, uid := range uids {
		g, _ := w.view.State.Grant(uid)
		text, err := handover.Encode("n7", o.Status.Machine, o.Status.PolicyDigest, g)
		if err != nil {
			w.t.Fatal(err)
		}
		listing.Pods[uid] = handover.Bound{Pod: g.Pod, Annotation: text}
	}
	w.view.Listing = listing
}

// TestWrites checks what is written and how often, and that nothing is written without a change.
func TestWrites(t *testing.T) {
	w := newWorld(t)
	if n := w.round(0); n != 2 {
		t.Fatalf("%d writes at the start, want the machine and the node", n)
	}
	o := w.object()
	if owner := o.OwnerReferences; len(owner) != 1 || owner[0].UID != "node-uid" || owner[0].Kind != "Node" {
		t.Errorf("owned by %v", owner)
	}
	if s := o.Status.Summary; s.Policy != "restricted, container" || s.FreeCPUs != "0:7" || s.LargestPod != "7 CPUs" || s.Condition != "Managing" {
		t.Errorf("summary %+v", s)
	}
	if n := w.round(time.Hour); n != 0 {
		t.Errorf("%d writes without a change", n)
	}
	w.admit(exclusive("a", 2), exclusive("b", 2))
	w.view.Listing = &handover.Listing{}
	if n := w.round(time.Second); n != 1 || len(w.object().Status.Grants) != 2 {
		t.Errorf("%d writes for two pods without annotations, published %d", n, len(w.object().Status.Grants))
	}
	w.annotate("a", "b")
	if n := w.round(time.Second); n != 1 || len(w.object().Status.Grants) != 0 {
		t.Errorf("%d writes when annotations have the grants, published %d", n, len(w.object().Status.Grants))
	}
	w.admit(exclusive("c", 2))
	w.annotate("a", "b", "c")
	if n := w.round(time.Second); n != 0 {
		t.Errorf("%d writes for a pod whose annotation has its grant", n)
	}
	if n := w.round(publication.Lazy); n != 1 || w.object().Status.Summary.FreeCPUs != "0:1" {
		t.Errorf("%d writes of the revision after a while, free %s", n, w.object().Status.Summary.FreeCPUs)
	}
	w.view.State = w.view.State.RemoveContainer("a", "main")
	if n := w.round(time.Second); n != 1 || w.object().Status.Grants[0].UID != "a" {
		t.Errorf("%d writes for a pod that has less than its annotation", n)
	}
	w.annotate("b")
	if n := w.round(time.Second); n != 1 || len(w.object().Status.Grants) != 1 || w.object().Status.Grants[0].UID != "c" {
		t.Errorf("%d writes for a pod that is not listed any more: %v", n, w.object().Status.Grants)
	}
}

// TestAway checks that nothing is lost and nothing accumulates while the API server fails.
func TestAway(t *testing.T) {
	w := newWorld(t)
	w.round(0)
	w.server.Fail(func(*http.Request) int { return http.StatusInternalServerError })
	for i := range 5 {
		w.admit(exclusive(fmt.Sprint(i), 1))
		w.round(time.Second)
	}
	w.server.Fail(nil)
	if n := w.round(time.Second); n != 1 || len(w.object().Status.Grants) != 5 || w.errors != 5 {
		t.Errorf("%d writes when it is back, published %d, %d errors", n, len(w.object().Status.Grants), w.errors)
	}
}

// TestNodeIsCreatedAgain checks that the object is deleted with its Node, and created again for the
// new Node.
func TestNodeIsCreatedAgain(t *testing.T) {
	w := newWorld(t)
	w.round(0)
	old := w.object()
	w.server.Delete("nodes", "n7")
	publication.Seen(w.Publisher, nil)
	if w.round(time.Second); w.errors != 1 {
		t.Errorf("%d errors without a Node", w.errors)
	}
	w.server.AddNode("n7", "new-uid")
	w.round(time.Second)
	if o := w.object(); o.UID == old.UID || o.OwnerReferences[0].UID != "new-uid" {
		t.Errorf("object %s of Node %s", o.UID, o.OwnerReferences[0].UID)
	}
	// If the garbage collector is slower than the new Node, the owner of the object changes.
	w.server.AddNode("n7", "third-uid")
	w.round(time.Hour)
	if o := w.object(); o.OwnerReferences[0].UID != "third-uid" {
		t.Errorf("owned by Node %s", o.OwnerReferences[0].UID)
	}
}

// TestMachineDeleted checks that an agent creates its machine again if it was deleted, as unused,
// at the moment at which it came into use again.
func TestMachineDeleted(t *testing.T) {
	w := newWorld(t)
	w.round(0)
	name := w.object().Status.Machine
	w.server.Delete(v1alpha1.PaddockMachines, name)
	w.round(9 * time.Minute)
	w.round(2 * time.Minute)
	if !w.server.Get(t, v1alpha1.PaddockMachines, name, &v1alpha1.PaddockMachine{}) {
		t.Errorf("PaddockMachine %s is not there again", name)
	}
}

// TestOthersWrite checks that a change by another writer is overwritten, once.
func TestOthersWrite(t *testing.T) {
	w := newWorld(t)
	w.round(0)
	changed := w.object()
	changed.Status.Revision, changed.Status.Policy.ReservedCPUs = 99, "1-7"
	client, err := objects.NewClient(w.server.Config())
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Put().Resource(v1alpha1.PaddockNodes).Name("n7").Body(changed).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	publication.Seen(w.Publisher, w.object())
	if n := w.round(time.Second); n != 1 || w.object().Status.Policy.ReservedCPUs != "0" {
		t.Errorf("%d writes, reserved %s", n, w.object().Status.Policy.ReservedCPUs)
	}
	publication.Seen(w.Publisher, w.object())
	if n := w.round(time.Second); n != 0 {
		t.Errorf("%d more writes", n)
	}
}

func TestConditions(t *testing.T) {
	w := newWorld(t)
	w.round(0)
	is := func(kind string) bool { return meta.IsStatusConditionTrue(w.object().Status.Conditions, kind) }
	if !is(v1alpha1.ConditionManaging) || is(v1alpha1.ConditionDegraded) || !is(v1alpha1.ConditionComplete) {
		t.Errorf("conditions %v", w.object().Status.Conditions)
	}
	w.admit(exclusive("a", 2))
	less, err := w.view.State.Machine().Without(w.view.State.Grants()[0].CPUs())
	if err != nil {
		t.Fatal(err)
	}
	if w.view.State, err = w.view.State.OnMachine(less); err != nil {
		t.Fatal(err)
	}
	w.view.Unmanaged = errors.New("another manager pins containers")
	w.round(time.Second)
	o := w.object()
	if is(v1alpha1.ConditionManaging) || !is(v1alpha1.ConditionDegraded) || o.Status.Summary.Condition != "Unmanaged" {
		t.Errorf("conditions %v", o.Status.Conditions)
	}
	if !w.server.Get(t, v1alpha1.PaddockMachines, o.Status.Machine, &v1alpha1.PaddockMachine{}) {
		t.Error("the machine with fewer CPUs is not there")
	}
	w.view.State, w.view.Unmanaged = eight(t), nil
	for i := range 3 {
		pod := exclusive(fmt.Sprint(i), 1)
		pod.Containers[0].Name = strings.Repeat("x", publication.MaxGrants/2)
		w.admit(pod)
	}
	w.round(time.Second)
	if is(v1alpha1.ConditionComplete) || len(w.object().Status.Grants) != 1 {
		t.Errorf("%d grants, conditions %v", len(w.object().Status.Grants), w.object().Status.Conditions)
	}
}

// TestDecided checks that an admission counts once and is published as late as the revision, and
// that neither a known pod nor a grant that is not durable counts.
func TestDecided(t *testing.T) {
	w := newWorld(t)
	w.round(0)
	plan := w.view.State.Plan(exclusive("new", 1))
	known := *plan
	known.Known = true
	for _, d := range []engine.Decision{{Plan: plan}, {Plan: &known}, {Plan: plan, Err: errors.New("the disk is full")}} {
		w.Decided(d)
	}
	w.round(time.Second)
	if n := w.object().Status.Rejections.Decided; n != 0 {
		t.Errorf("%d decisions are published at once", n)
	}
	w.round(publication.Lazy)
	if n := w.object().Status.Rejections.Decided; n != 1 {
		t.Errorf("%d decisions are published, want 1", n)
	}
}

func TestRejections(t *testing.T) {
	w := newWorld(t)
	w.round(0)
	for i := range 100 {
		pod := exclusive(fmt.Sprint("p", i), 8+i)
		w.Decided(engine.Decision{Plan: w.view.State.Plan(pod), Base: w.view.State})
	}
	w.Decided(engine.Decision{Plan: w.view.State.Plan(exclusive("again", 8)), Base: w.view.State})
	begun := w.object().Status.Rejections.Since
	w.round(time.Second)
	r := w.object().Status.Rejections
	if r.Decided != 101 || r.Since == nil || !r.Since.Equal(begun) {
		t.Errorf("%d decisions since %v, which began at %v", r.Decided, r.Since, begun)
	}
	if r.Total != 101 || len(r.Counts) != 65 || len(r.Last) != 10 || r.Last[0].Pod != "default/again" || r.Last[0].Cause != "NotAligned" {
		t.Errorf("%d rejections in %d classes, the last %+v", r.Total, len(r.Counts), r.Last)
	}
	for _, c := range r.Counts {
		if c.Class == "8 CPUs" && c.Count != 2 {
			t.Errorf("%+v", c)
		}
	}
}

// TestRun checks that a change reaches the server, even after the watch saw that the object is
// gone.
func TestRun(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	client, err := publication.NewClient(w.server.Config())
	if err != nil {
		t.Fatal(err)
	}
	p := publication.New(publication.Config{
		Node: "n7", Client: client, View: func() publication.View { return publication.View{State: eight(t), Listing: &handover.Listing{}} }, Now: time.Now,
		After: func(d time.Duration) <-chan time.Time { return time.After(d / 100) }, Observer: w, Log: slog.New(slog.DiscardHandler),
	})
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	there := func() {
		t.Helper()
		for !w.server.Get(t, v1alpha1.PaddockNodes, "n7", &v1alpha1.PaddockNode{}) {
			select {
			case <-time.After(time.Millisecond):
			case <-t.Context().Done():
				t.Fatal("no object")
			}
		}
	}
	there()
	w.server.Delete(v1alpha1.PaddockNodes, "n7")
	there()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestResize checks that the grant of a resized pod is published, because its annotation does not
// have it. The grant is also published while the kubelet lists the pod with a larger request than
// it was granted. Rejected resizes are counted separately. There is a condition for a missing veto,
// and it changes when the veto is back.
func TestResize(t *testing.T) {
	w := newWorld(t)
	w.admit(exclusive("a", 2))
	w.round(0)
	w.annotate("a")
	w.round(time.Second)
	if n := len(w.object().Status.Grants); n != 0 {
		t.Fatalf("%d grants are published that annotations have", n)
	}
	has := func(what, cpus string) {
		t.Helper()
		grants := w.object().Status.Grants
		if len(grants) != 1 {
			t.Fatalf("%s: %d grants are published", what, len(grants))
		}
		if g, err := objects.ReadGrant(grants[0]); err != nil || g.CPUs().String() != cpus {
			t.Errorf("%s: published is %v, %v; want %s", what, g, err, cpus)
		}
	}
	listed := w.view.Listing.Pods["a"]
	before, _ := w.view.State.Grant("a")
	listed.Pod = exclusive("a", 3)
	w.view.Listing = &handover.Listing{Pods: map[string]handover.Bound{"a": listed}}
	w.round(time.Second)
	has("listed with more", before.CPUs().String())
	plan := w.view.State.Resize("a", exclusive("a", 3))
	next, err := w.view.State.Apply(plan)
	if err != nil {
		t.Fatal(err)
	}
	w.view.State = next
	w.round(time.Second)
	has("resized", plan.Grant.CPUs().String())
	w.Resized(engine.Decision{Plan: w.view.State.Resize("a", exclusive("a", 99))})
	w.view.NoVeto = errors.New("the runtime does not ask")
	w.round(time.Second)
	o := w.object()
	if c := o.Status.Rejections.Counts; len(c) != 1 || !strings.HasPrefix(c[0].Class, "resize to 99 CPUs") {
		t.Errorf("counted are %v", c)
	}
	if c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionResizeVeto); c == nil || c.Status != metav1.ConditionFalse || c.Message != "the runtime does not ask" {
		t.Errorf("the condition is %v", c)
	}
	w.view.NoVeto = nil
	w.round(time.Second)
	if !meta.IsStatusConditionTrue(w.object().Status.Conditions, v1alpha1.ConditionResizeVeto) {
		t.Error("the veto is missing for ever")
	}
}

// TestSlowAnswers: a node whose agent answers the runtime almost too late says so, and says when
// that is over.
func TestSlowAnswers(t *testing.T) {
	w := newWorld(t)
	w.round(0)
	condition := func() *metav1.Condition {
		return meta.FindStatusCondition(w.object().Status.Conditions, v1alpha1.ConditionAnswersInTime)
	}
	if c := condition(); c != nil {
		t.Errorf("at first the condition is %v", c)
	}
	w.view.Slow = errors.New("RunPodSandbox took long")
	w.round(time.Second)
	if c := condition(); c == nil || c.Status != metav1.ConditionFalse || c.Reason != "Slow" || c.Message != "RunPodSandbox took long" {
		t.Errorf("the condition is %v", c)
	}
	w.view.Slow = nil
	w.round(time.Second)
	if c := condition(); c == nil || c.Status != metav1.ConditionTrue || c.Message != "" {
		t.Errorf("afterwards the condition is %v", c)
	}
}

// TestMaxContainers checks that the limit on containers is published outside of the policy, whose
// digest stays the same. So a scheduler of an older version can still plan for the node.
func TestMaxContainers(t *testing.T) {
	w := newWorld(t)
	w.round(0)
	before := w.object().Status
	p := w.view.State.Policy()
	p.MaxContainers = 512
	s, err := node.Restore(w.view.State.Machine(), p, w.view.State.Grants())
	if err != nil {
		t.Fatal(err)
	}
	w.view.State = s.Resume(w.view.State.Generation() + 1)
	w.round(time.Hour)
	if o := w.object(); o.Status.MaxContainersPerPod != 512 || before.MaxContainersPerPod != 0 || o.Status.PolicyDigest != before.PolicyDigest {
		t.Errorf("the node publishes a bound of %d, before %d", o.Status.MaxContainersPerPod, before.MaxContainersPerPod)
	}
}
