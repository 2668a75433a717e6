package hollow_test

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/cluster/fleetsource"
	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/codec/objects"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/testing/hollow"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

const gib = 1 << 30

// twoNodes returns a machine with two NUMA nodes that have 8 CPUs and 16Gi each, and a policy.
func twoNodes(t testing.TB) (*machine.Machine, node.Policy) {
	t.Helper()
	m := scenario.Machine("sockets=2 cores=4 threads=2 memory=16Gi")
	return m, node.Policy{
		Topology: node.TopologySingleNUMANode, Scope: node.PodScope, StaticCPU: true, ReservedCPUs: cpuset.Of(0, 8), StaticMemory: true,
		ReservedMemory: map[int]map[string]int64{0: {"memory": gib}}, PodLevelResources: true, PodLevelManagers: true,
	}
}

// guaranteed returns a pod that requests the given number of CPUs and GiB of memory.
func guaranteed(uid string, cpus, memory int64) *v1.Pod {
	amounts := v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(cpus, resource.DecimalSI), v1.ResourceMemory: *resource.NewQuantity(memory*gib, resource.BinarySI)}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Namespace: "default", Name: uid, Annotations: map[string]string{}},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{Requests: amounts, Limits: amounts}}}},
	}
}

func newNode(t *testing.T, c hollow.Config) *hollow.Node {
	t.Helper()
	c.Name = "n7"
	if c.Machine == nil {
		c.Machine, c.Policy = twoNodes(t)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.After, c.Log = time.After, slog.New(slog.DiscardHandler)
	n, err := hollow.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// scheduler plans on its own copy of the node's state.
type scheduler struct {
	here  handover.Here
	state *node.State
}

func newScheduler(t *testing.T, s *node.State) *scheduler {
	t.Helper()
	m, err := objects.Machine(s.Machine())
	if err != nil {
		t.Fatal(err)
	}
	policy, err := handover.PolicyDigest(s.Policy())
	if err != nil {
		t.Fatal(err)
	}
	return &scheduler{handover.Here{Node: "n7", Machine: m.Name, Policy: policy}, s}
}

// bind plans a pod and adds the annotation to it.
func (s *scheduler) bind(t *testing.T, pod *v1.Pod) {
	t.Helper()
	b, err := fleetsource.ReadBound(pod, s.state.Policy())
	if err != nil {
		t.Fatal(err)
	}
	plan := s.state.Plan(b.Pod)
	if plan.Grant == nil {
		t.Fatal(plan.Rejection)
	}
	if s.state, err = s.state.Apply(plan); err != nil {
		t.Fatal(err)
	}
	if pod.Annotations[handover.Annotation], err = handover.Encode(s.here.Node, s.here.Machine, s.here.Policy, plan.Grant); err != nil {
		t.Fatal(err)
	}
}

// start lists a pod and runs its sandbox.
func start(t *testing.T, n *hollow.Node, pod *v1.Pod) *node.Plan {
	t.Helper()
	if err := n.List(pod); err != nil {
		t.Fatal(err)
	}
	plan, err := n.RunPodSandbox(t.Context(), fleetsource.UID(pod), pod.Annotations[handover.Annotation])
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// TestHandover checks that pods that are planned in one order and started in another get what the
// scheduler planned.
func TestHandover(t *testing.T) {
	n := newNode(t, hollow.Config{})
	s := newScheduler(t, n.State())
	var pods []*v1.Pod
	for i, cpus := range []int64{2, 4, 2, 4} {
		pod := guaranteed(fmt.Sprint("p", i), cpus, 2)
		s.bind(t, pod)
		pods = append(pods, pod)
	}
	slices.Reverse(pods)
	for _, pod := range pods {
		start(t, n, pod)
	}
	for _, g := range s.state.Grants() {
		if got, there := n.State().Grant(g.Pod.UID); !there || !got.SameAssignments(g) {
			t.Errorf("pod %s has something else than was planned", g.Pod.ID())
		}
	}
	if got := n.Outcomes(); !maps.Equal(got, map[handover.Reason]int{handover.Applied: 4}) {
		t.Errorf("outcomes %v", got)
	}
}

// TestPromise checks that a pod without a grant does not get what was promised to a pod that has
// not started. The promise lasts while that pod is listed, and for at most Promise.
func TestPromise(t *testing.T) {
	for name, c := range map[string]struct {
		end   func(n *hollow.Node, clock *time.Time)
		wants bool
	}{
		"promised":     {func(*hollow.Node, *time.Time) {}, false},
		"unlisted":     {func(n *hollow.Node, _ *time.Time) { n.Unlist("promised") }, true},
		"almost over":  {func(_ *hollow.Node, clock *time.Time) { *clock = clock.Add(9*time.Minute + 59*time.Second) }, false},
		"over":         {func(_ *hollow.Node, clock *time.Time) { *clock = clock.Add(10 * time.Minute) }, true},
		"clock is set": {func(_ *hollow.Node, clock *time.Time) { *clock = clock.Add(-time.Hour) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			clock := time.Now()
			n := newNode(t, hollow.Config{Now: func() time.Time { return clock }})
			s := newScheduler(t, n.State())
			promised := guaranteed("promised", 6, 2)
			s.bind(t, promised)
			if err := n.List(promised); err != nil {
				t.Fatal(err)
			}
			if plan := start(t, n, guaranteed("early", 6, 1)); plan.Grant == nil || plan.Grant.CPUs().Intersects(s.state.Grants()[0].CPUs()) {
				t.Fatalf("a pod without a grant gets %v of what is promised", plan.Grant)
			}
			c.end(n, &clock)
			foreign := guaranteed("foreign", 6, 1)
			plan := start(t, n, foreign)
			if (plan.Grant != nil) != c.wants {
				t.Errorf("a pod without a grant: %v", plan.Rejection)
			}
			if c.wants {
				return
			}
			if plan := start(t, n, promised); plan.Grant == nil || !plan.Grant.SameAssignments(s.state.Grants()[0]) {
				t.Error("the promise is not kept")
			}
		})
	}
}

// TestChaos uses annotations with all kinds of faults on a node that is in use. The pod must get
// what the node plans by itself, or be rejected as without an annotation, and the reason must be
// counted.
func TestChaos(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n, twin := newNode(t, hollow.Config{}), newNode(t, hollow.Config{})
		s := newScheduler(t, n.State())
		for i := range rapid.IntRange(1, 8).Draw(rt, "pods") {
			pod := guaranteed(fmt.Sprint("p", i), rapid.Int64Range(1, 7).Draw(rt, "cpus"), rapid.Int64Range(1, 8).Draw(rt, "memory"))
			b, err := fleetsource.ReadBound(pod, s.state.Policy())
			if err != nil {
				rt.Fatal(err)
			}
			other := guaranteed("other", rapid.Int64Range(1, 7).Draw(rt, "other"), 1)
			text := "forged"
			if s.state.Plan(b.Pod).Grant != nil {
				before := s.state
				s.bind(t, pod)
				if text = spoil(rt, pod.Annotations[handover.Annotation]); rapid.Bool().Draw(rt, "of another pod") {
					o, err := fleetsource.ReadBound(other, before.Policy())
					if plan := before.Plan(o.Pod); err == nil && plan.Grant != nil {
						if text, err = handover.Encode("n7", s.here.Machine, s.here.Policy, plan.Grant); err != nil {
							rt.Fatal(err)
						}
					}
				}
				s.state = before
			}
			pod.Annotations = map[string]string{handover.Annotation: text}
			plan := start(t, n, pod)
			delete(pod.Annotations, handover.Annotation)
			want := start(t, twin, pod)
			if (plan.Grant == nil) != (want.Grant == nil) {
				rt.Fatalf("with %s: %v, without: %v", text, plan.Rejection, want.Rejection)
			}
			if plan.Grant != nil && (plan.Grant.CPUs().Len() != want.Grant.CPUs().Len() || plan.Grant.Charged()[0].Size != want.Grant.Charged()[0].Size) {
				rt.Fatalf("%s enlarges the pod: %s and %v", text, plan.Grant.CPUs(), plan.Grant.Charged())
			}
			if err := n.State().Check(); err != nil {
				rt.Fatal(err)
			}
			s.state = n.State()
			twin = newNode(t, hollow.Config{Grants: n.State().Grants()})
		}
	})
}

// spoil changes one byte of a text, truncates it, or leaves it unchanged.
func spoil(t *rapid.T, text string) string {
	switch at := rapid.IntRange(0, len(text)-1).Draw(t, "at"); rapid.IntRange(0, 3).Draw(t, "how") {
	case 0:
		return text[:at]
	case 1, 2:
		return text[:at] + string(rapid.Int32Range('!', '~').Draw(t, "byte")) + text[at+1:]
	}
	return text
}

// TestRestart checks that a node created with the grants of another node is equal to it.
func TestRestart(t *testing.T) {
	n := newNode(t, hollow.Config{})
	start(t, n, guaranteed("a", 2, 1))
	again := newNode(t, hollow.Config{Grants: n.State().Grants(), Revision: n.State().Generation()})
	if g, there := again.State().Grant("a"); !there || g != n.State().Grants()[0] || again.State().Generation() < n.State().Generation() {
		t.Error("the restart lost something")
	}
	if _, err := again.RunPodSandbox(t.Context(), "b", ""); !errors.Is(err, hollow.ErrNotListed) {
		t.Errorf("a pod that is not listed: %v", err)
	}
}
