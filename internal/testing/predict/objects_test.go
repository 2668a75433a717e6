package predict_test

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/cluster/fleetsource"
	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/codec/objects"
	"github.com/paddock-project/paddock/internal/core/behavior"
	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/core/shown"
	"github.com/paddock-project/paddock/internal/core/spec"
	"github.com/paddock-project/paddock/internal/testing/scenario"
	"github.com/paddock-project/paddock/predict"
	readers "github.com/paddock-project/paddock/predict/objects"
)

// cluster is a node of a cluster as its objects show it, with the pods that are bound to it.
type cluster struct {
	machine *v1alpha1.PaddockMachine
	node    *v1alpha1.PaddockNode
	bound   []pair
}

// pair is a pod in the form of the scheduler and in that of package predict.
type pair struct {
	asked request.Pod
	pod   predict.Pod
	grant string // its annotation
}

// anyPolicy draws a policy, and the version of the kubelet that decides or nil.
func anyPolicy(t *rapid.T) (node.Policy, *behavior.Version) {
	p := node.Policy{
		Topology:     rapid.SampledFrom([]node.TopologyPolicy{node.TopologyNone, node.TopologyBestEffort, node.TopologyRestricted, node.TopologySingleNUMANode}).Draw(t, "topology"),
		Scope:        rapid.SampledFrom([]node.Scope{node.ContainerScope, node.PodScope}).Draw(t, "scope"),
		StaticCPU:    true,
		CPU:          rapid.SampledFrom([]cpu.Options{{}, {FullPCPUsOnly: true}, {DistributeAcrossNUMA: true}, {StrictReservation: true}, {PreferUncore: true}}).Draw(t, "options"),
		ReservedCPUs: cpuset.Of(0), PodLevelResources: true, PodLevelManagers: true,
		StaticMemory: true, ReservedMemory: map[int]map[string]int64{0: {"memory": 1 << 30}},
		MaxContainers: rapid.SampledFrom([]int{0, 2}).Draw(t, "bound"),
	}
	if rapid.Bool().Draw(t, "Paddock decides") {
		p.CPU.Isolated = rapid.SampledFrom([]cpu.Isolated{cpu.IsolatedAlike, cpu.IsolatedFirst, cpu.IsolatedOnly}).Draw(t, "isolated")
		return p, nil
	}
	version := rapid.SampledFrom(behavior.Recorded()).Draw(t, "kubelet")
	return p, &version
}

// anyPair draws a pod.
func anyPair(t *rapid.T, uid string, gates spec.Gates) pair {
	out := predict.Pod{UID: uid, Namespace: "default", Name: uid, SharesIsolatedCPUs: rapid.Bool().Draw(t, "shares isolated CPUs")}
	in := spec.Pod{Identity: request.Identity{UID: uid, Namespace: "default", Name: uid}, SharesIsolated: out.SharesIsolatedCPUs}
	amounts := func(label string, gpus int64) (predict.Amounts, request.Amounts) {
		cpus, bytes := rapid.Int64Range(1, 5).Draw(t, label+" cpus"), rapid.Int64Range(1, 6).Draw(t, label+" memory")<<30
		a, b := predict.Amounts{CPUMilli: cpus * 1000, Memory: bytes}, request.Amounts{{Resource: "cpu", Value: cpus * 1000}}
		if gpus > 0 {
			a.Others, b = map[string]int64{"example.com/gpu": gpus}, b.With("example.com/gpu", gpus)
		}
		return a, b.With("memory", bytes)
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "containers") {
		limits, list := amounts("container", rapid.Int64Range(0, 1).Draw(t, "gpus"))
		name := fmt.Sprint("c", i)
		out.Containers = append(out.Containers, predict.Container{Name: name, Resources: predict.Resources{Limits: limits}})
		in.Containers = append(in.Containers, spec.Container{Name: name, Type: request.App, Resources: spec.Resources{Limits: list}})
	}
	if rapid.IntRange(0, 2).Draw(t, "budget") == 0 {
		out.Resources.Limits = predict.Amounts{CPUMilli: 10_000, Memory: 20 << 30}
		in.PodLevel.Limits = request.Amounts{{Resource: "cpu", Value: 10_000}, {Resource: "memory", Value: 20 << 30}}
	}
	asked, err := in.Request(gates)
	if err != nil {
		t.Fatal(err)
	}
	return pair{asked: asked, pod: out}
}

// anyCluster admits random pods on a node, and shows them in a random mixture of published grants,
// annotations, and annotations that are not usable. Some pods are gone, and some have no grant.
func anyCluster(t *rapid.T) *cluster {
	m := scenario.Machine(fmt.Sprintf("sockets=%d cores=6 threads=%d memory=24Gi isolated=4-6", rapid.IntRange(1, 2).Draw(t, "sockets"), rapid.IntRange(1, 2).Draw(t, "threads")))
	policy, version := anyPolicy(t)
	gates := spec.Gates{PodLevelResources: policy.PodLevelResources, PodLevelManagers: policy.PodLevelManagers}
	inventory, err := device.NewInventory(m, map[string][]device.Device{"example.com/gpu": {{ID: "g0", Healthy: true, Nodes: mask.Of(0)}, {ID: "g1", Healthy: true}, {ID: "g2"}}})
	if err != nil {
		t.Fatal(err)
	}
	empty, err := node.New(m, policy)
	if err == nil {
		empty, err = empty.WithDevices(inventory)
	}
	if err != nil {
		t.Skip(err)
	}
	state := empty
	if version != nil {
		rules, err := behavior.Of(*version)
		if err != nil {
			t.Fatal(err)
		}
		state = state.As(rules)
	}
	c := &cluster{}
	if c.machine, err = objects.Machine(m); err != nil {
		t.Fatal(err)
	}
	shown, digest, err := objects.Policy(policy)
	if err != nil {
		t.Fatal(err)
	}
	yes := metav1.ConditionTrue
	c.node = &v1alpha1.PaddockNode{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: v1alpha1.PaddockNodeStatus{
		Machine: c.machine.Name, Policy: shown, PolicyDigest: digest, MaxContainersPerPod: int32(policy.MaxContainers), Devices: objects.Devices(inventory),
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionManaging, Status: yes}, {Type: v1alpha1.ConditionComplete, Status: yes}},
	}}
	for i := range rapid.IntRange(0, 7).Draw(t, "pods") {
		p := anyPair(t, fmt.Sprint("p", i), gates)
		if state, err = state.Apply(state.Plan(p.asked)); err != nil {
			t.Fatal(err)
		}
		g, fits := state.Grant(p.asked.UID)
		c.show(t, &p, g, fits, version != nil)
	}
	if version != nil {
		c.node.Status.Certainty = &v1alpha1.Certainty{Answer: v1alpha1.CertaintyExact}
		if c.node.Status.DecidedBy, err = objects.DecidedBy(version.String(), state); err != nil {
			t.Fatal(err)
		}
		if rapid.IntRange(0, 3).Draw(t, "recorded") == 0 {
			c.node.Status.DecidedBy.Version = "1.99.0"
		}
	}
	return c
}

// show adds a pod to the objects.
func (c *cluster) show(t *rapid.T, p *pair, g *node.Grant, fits, kubelet bool) {
	how := rapid.SampledFrom([]string{"published", "annotated", "gone", "damaged", "elsewhere", "nowhere"}).Draw(t, "how")
	if !fits {
		how = "nowhere"
	} else if kubelet {
		how = "published"
	}
	var err error
	switch name := "n"; how {
	case "published", "gone":
		var grant v1alpha1.PublishedGrant
		grant, err = objects.Grant(g)
		c.node.Status.Grants = append(c.node.Status.Grants, grant)
	case "elsewhere":
		name = "other"
		fallthrough
	case "annotated", "damaged":
		p.grant, err = handover.Encode(name, c.machine.Name, c.node.Status.PolicyDigest, g)
		if how == "damaged" {
			p.grant = p.grant[:len(p.grant)/2]
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if how != "gone" {
		c.bound = append(c.bound, *p)
	}
}

// TestObjectsAgree checks that package objects makes the same node of the objects of a cluster as
// fleetsource, which the scheduler, the fleet and predict serve use, and that verdicts about
// another pod are equal.
func TestObjectsAgree(t *testing.T) {
	kubelets, unrecorded, planned, fit, rejected := 0, 0, 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		c := anyCluster(t)
		theirs, err := fleetsource.Read(c.node, func(string) (*machine.Machine, error) { return objects.ReadMachine(c.machine) })
		if err != nil {
			t.Fatal(err)
		}
		var bound []shown.Bound
		for _, p := range c.bound {
			bound = append(bound, shown.Bound{Pod: p.asked, Annotation: p.grant})
		}
		want, err := theirs.State(bound)
		if err != nil {
			t.Fatal(err)
		}
		policy, got := c.read(t)
		if !slices.Equal(got.Planned, want.Provisional) || !slices.Equal(got.Missing, want.Missing) || len(got.Findings) != len(want.Findings) ||
			got.Node.FreeCPUs() != want.State.FreeCPUs().String() || got.Node.Len() != want.State.NumGrants() {
			t.Fatalf("got %+v with %v free, want %+v with %v", got, got.Node.FreeCPUs(), want, want.State.FreeCPUs())
		}
		next := anyPair(t, "next", spec.Gates{PodLevelResources: true, PodLevelManagers: true})
		r, err := predict.NewRequest(next.pod, policy)
		if err != nil {
			t.Fatal(err)
		}
		v, plan := got.Node.Plan(r), want.State.Plan(next.asked)
		w := plan.Verdict()
		if short := got.Node.Admits(r); v.Fits != w.Fits || v.Reason != string(w.Reason) || v.Resource != w.Resource || v.Wanted != w.Wanted || short.Fits != v.Fits {
			t.Fatalf("the verdict is %+v, and the scheduler's %+v", v, w)
		}
		rejected++
		if plan.Grant != nil {
			rejected--
			fit++
			for i, a := range v.Assignment.Containers {
				if has := plan.Grant.Containers[i]; a.CPUs != has.CPUs.String() || !slices.Equal(a.NUMANodes, has.MemoryNodes.Nodes()) {
					t.Fatalf("container %d has %+v, and by the scheduler %+v", i, a, has)
				}
			}
		}
		if k := theirs.Kubelet; k != nil {
			kubelets++
			unrecorded += sameDoubts(t, k, policy, v)
		}
		planned += len(got.Planned)
		for _, p := range c.bound {
			usable := p.grant == "" || !slices.Contains(got.Planned, p.asked.UID)
			if certain := usable && len(got.Missing) == 0 && theirs.Kubelet == nil; !usable && v.Certainty != predict.Unsure || certain && v.Certainty == predict.Predicted {
				t.Fatalf("certainty %s with doubts %q", v.Certainty, v.Doubts)
			}
		}
	})
	if kubelets == 0 || unrecorded == 0 || planned == 0 || fit == 0 || rejected == 0 {
		t.Errorf("%d kubelets, %d of them not recorded, %d pods planned, %d fit, %d rejected: want all", kubelets, unrecorded, planned, fit, rejected)
	}
}

// sameDoubts checks that a policy and a verdict are as unsure about a kubelet as the scheduler, for
// the same reasons. It returns 1 if the kubelet is not recorded.
func sameDoubts(t *rapid.T, k *fleetsource.Kubelet, policy *predict.Policy, v predict.Verdict) int {
	if k.Certainty.Answer != v1alpha1.CertaintyUnsure {
		if policy.Certainty() != predict.Predicted {
			t.Fatalf("certainty %s of the policy", policy.Certainty())
		}
		return 0
	}
	for _, reason := range k.Certainty.Reasons {
		if policy.Certainty() != predict.Unsure || v.Certainty != predict.Unsure || !slices.Contains(v.Doubts, reason) {
			t.Fatalf("certainty %s of the policy, and %s with doubts %q: want the doubt %q", policy.Certainty(), v.Certainty, v.Doubts, reason)
		}
	}
	return 1
}

// read makes a node of the objects as another program does.
func (c *cluster) read(t *rapid.T) (*predict.Policy, *predict.Restored) {
	m, err := readers.Machine(c.machine)
	if err != nil {
		t.Fatal(err)
	}
	policy, err := readers.Policy(c.node, m)
	if err != nil {
		t.Fatal(err)
	}
	var pods []predict.BoundPod
	for _, p := range c.bound {
		r, err := predict.NewRequest(p.pod, policy)
		if err != nil {
			t.Fatal(err)
		}
		pods = append(pods, predict.BoundPod{Request: r, Grant: p.grant})
	}
	out, err := readers.Node(c.node, policy, pods)
	if err != nil {
		t.Fatal(err)
	}
	return policy, out
}
