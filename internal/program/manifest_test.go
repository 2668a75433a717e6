package program

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
	kubeletcfg "github.com/paddock-project/paddock/internal/kubelet/config"
)

// TestProposedManifestsAreAdmitted checks that the example pods, made too large for the example
// machine, are admitted as manifests with the proposed amounts.
func TestProposedManifestsAreAdmitted(t *testing.T) {
	found, err := inputs.Reader{}.Machine("../../examples/machines/epyc-2s-nps4.json")
	if err != nil {
		t.Fatal(err)
	}
	policy, _ := kubeletcfg.Default(found.Machine)
	policy.Topology = node.TopologySingleNUMANode
	gates := podspec.GatesOf(policy)
	state, err := node.New(found.Machine, policy)
	if err != nil {
		t.Fatal(err)
	}
	sources, _, err := podspec.ReadFiles([]string{"../../examples/pods"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	proved := 0
	for _, s := range sources {
		e, err := (&decider{}).explain(t.Context(), state, podspec.Default(s.Pod, gates), gates, nil)
		if err != nil {
			t.Fatal(err)
		}
		if e.Remedies == nil {
			continue
		}
		for _, p := range e.Remedies.Proposals {
			if p.Kind != explain.Amounts {
				continue
			}
			admit(t, state, podspec.Default(withAmounts(s.Pod, p.Changes), gates), gates, p.Text)
			proved++
		}
	}
	if proved < 2 {
		t.Errorf("%d proposals, too few", proved)
	}
}

func admit(t *testing.T, state *node.State, pod *v1.Pod, gates podspec.Gates, text string) {
	t.Helper()
	if invalid := podspec.Validate(pod, gates); len(invalid) > 0 {
		t.Errorf("%s: %v", text, invalid)
	}
	asked, err := podspec.Request(pod, gates)
	if err != nil {
		t.Fatal(err)
	}
	if r := state.Plan(asked).Rejection; r != nil {
		t.Errorf("%s: %v", text, r)
	}
}

// TestProposalsLeaveRoomForThoseThatShare checks that proposals keep the memory that a sharing
// container requests. The API server accepts no smaller amount for the pod.
func TestProposalsLeaveRoomForThoseThatShare(t *testing.T) {
	sources, _, err := podspec.ReadFiles([]string{"testdata/sharing.yaml"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for free, want := range map[int64]explain.Try{
		3 << 30: {Found: "1 would admit it"},
		1 << 30: {Found: "none admits it that the API server takes: of less, the containers request more memory together than the pod", Rule: "R-DEM-94"},
	} {
		state, gates := small(t, free)
		e, err := (&decider{}).explain(t.Context(), state, podspec.Default(sources[0].Pod, gates), gates, nil)
		if err != nil || e.Remedies == nil {
			t.Fatal(e.Answer, err)
		}
		if got := e.Remedies.Tried[0]; got.Found != want.Found || got.Rule != want.Rule {
			t.Errorf("%d bytes: %+v, want %+v", free, got, want)
		}
		for _, p := range e.Remedies.Proposals {
			if p.Kind == explain.Amounts {
				admit(t, state, podspec.Default(withAmounts(sources[0].Pod, p.Changes), gates), gates, p.Text)
			}
		}
	}
}

// small returns a node with 8 CPUs and that much memory.
func small(t *testing.T, bytes int64) (*node.State, podspec.Gates) {
	t.Helper()
	d := machine.NodeDescription{Memory: bytes}
	for i := range 8 {
		d.Cores = append(d.Cores, machine.CoreDescription{Threads: []int{i}})
	}
	m, err := machine.New(machine.Description{Nodes: []machine.NodeDescription{d}})
	if err != nil {
		t.Fatal(err)
	}
	state, err := node.New(m, node.Policy{
		Topology: node.TopologyRestricted, Scope: node.PodScope, StaticCPU: true, StaticMemory: true, PodLevelResources: true, PodLevelManagers: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return state, podspec.GatesOf(state.Policy())
}

// TestRuleOfTheAPI checks that a request.Pod with a changed budget must satisfy the same conditions
// as the API requires of the manifest.
func TestRuleOfTheAPI(t *testing.T) {
	gates := podspec.Gates{PodLevelResources: true, PodLevelManagers: true}
	agreed := map[bool]int{}
	rapid.Check(t, func(t *rapid.T) {
		pod := podspec.Default(drawPodLevel(t), gates)
		if len(podspec.Validate(pod, gates)) > 0 {
			t.Skip("not valid to begin with")
		}
		asked, err := podspec.Request(pod, gates)
		if err != nil {
			t.Fatal(err)
		}
		resource := rapid.SampledFrom([]string{"cpu", "memory", "hugepages-2Mi"}).Draw(t, "resource")
		to := rapid.Int64Range(1, 12).Draw(t, "to")
		if resource != "cpu" {
			to <<= 21
		}
		change := explain.Proposal{Changes: []explain.Change{{Resource: resource, To: to}}}
		_, changed, err := change.Apply(nil, asked)
		if err != nil {
			t.Fatal(err)
		}
		invalid := podspec.Validate(withAmounts(pod, change.Changes), gates)
		why := explain.AgainstAPI(changed)
		if _, has := pod.Spec.Resources.Requests[v1.ResourceName(resource)]; has && (len(invalid) == 0) != (why.Text == "") {
			t.Fatalf("the API says %v, here it is %q", invalid, why)
		}
		agreed[why.Text == ""]++
	})
	if agreed[true] < 10 || agreed[false] < 10 {
		t.Errorf("too few cases: %v", agreed)
	}
}

// drawPodLevel draws a Guaranteed pod with a pod-level budget.
func drawPodLevel(t *rapid.T) *v1.Pod {
	list := func(label string, most int64, odd bool) v1.ResourceList {
		l := v1.ResourceList{}
		for _, name := range []v1.ResourceName{"cpu", "memory", "hugepages-2Mi"} {
			n := rapid.Int64Range(0, most).Draw(t, label+" "+string(name))
			switch {
			case n == 0:
			case name == "cpu" && odd:
				l[name] = *resource.NewMilliQuantity(n*500, resource.DecimalSI)
			case name == "cpu":
				l[name] = *resource.NewQuantity(n, resource.DecimalSI)
			default:
				l[name] = *resource.NewQuantity(n<<21, resource.BinarySI)
			}
		}
		return l
	}
	pod := &v1.Pod{}
	pod.Namespace, pod.Name = "default", "drawn"
	budget := list("budget", 12, false)
	budget["cpu"] = *resource.NewQuantity(rapid.Int64Range(1, 12).Draw(t, "budget of CPUs"), resource.DecimalSI)
	budget["memory"] = *resource.NewQuantity(rapid.Int64Range(1, 12).Draw(t, "budget of memory")<<21, resource.BinarySI)
	pod.Spec.Resources = &v1.ResourceRequirements{Requests: budget, Limits: budget.DeepCopy()}
	always := v1.ContainerRestartPolicyAlways
	for i := range rapid.IntRange(1, 4).Draw(t, "containers") {
		name := fmt.Sprintf("c%d", i)
		c := v1.Container{Name: name}
		c.Resources.Requests = list(name, 5, rapid.Bool().Draw(t, name+" odd"))
		c.Resources.Limits = c.Resources.Requests.DeepCopy()
		if rapid.Bool().Draw(t, name+" shares") { // Its limits are above its requests, or missing.
			above := list(name+" above", 5, false)
			for _, resource := range []v1.ResourceName{"cpu", "memory"} {
				limit, limited := above[resource]
				limit.Add(c.Resources.Requests[resource])
				if c.Resources.Limits[resource] = limit; !limited {
					delete(c.Resources.Limits, resource)
				}
			}
		}
		if rapid.Bool().Draw(t, name+" requests nothing") {
			delete(c.Resources.Requests, "memory")
		}
		switch containerType := rapid.IntRange(0, 2).Draw(t, name+" lane"); {
		case i == 0 || containerType == 2:
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		case containerType == 1:
			c.RestartPolicy = &always
			fallthrough
		default:
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		}
	}
	return pod
}

// withAmounts returns the pod with other requests and limits where it has any.
func withAmounts(pod *v1.Pod, changes []explain.Change) *v1.Pod {
	pod = pod.DeepCopy()
	for _, c := range changes {
		if c.Container == "" && pod.Spec.Resources != nil {
			setAmount(pod.Spec.Resources, c)
		}
		for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range list {
				if list[i].Name == c.Container {
					setAmount(&list[i].Resources, c)
				}
			}
		}
	}
	return pod
}

func setAmount(r *v1.ResourceRequirements, c explain.Change) {
	format := resource.DecimalSI
	if c.Resource != request.CPU {
		format = resource.BinarySI
	}
	for _, list := range []v1.ResourceList{r.Requests, r.Limits} {
		if _, has := list[v1.ResourceName(c.Resource)]; has {
			list[v1.ResourceName(c.Resource)] = *resource.NewQuantity(c.To, format)
		}
	}
}
