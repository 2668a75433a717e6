package podres

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// drawState draws a node after a random history of admissions and releases.
func drawState(t *rapid.T, empty map[node.Scope]*node.State) *node.State {
	state := empty[node.Scope(rapid.IntRange(0, 1).Draw(t, "scope"))]
	for i := range rapid.IntRange(0, 6).Draw(t, "pods") {
		plan := state.Plan(drawPod(t, i))
		next, err := state.Apply(plan)
		if err != nil {
			t.Fatal(err)
		}
		state = next
		if rapid.IntRange(0, 9).Draw(t, "released") == 0 {
			state = state.Release(uid(rapid.IntRange(0, i).Draw(t, "who")))
		}
	}
	return state
}

// uid returns the UID of the pod with number i. The order of UIDs is not that of the admissions.
func uid(i int) string { return fmt.Sprint((5*i + 3) % 7) }

// drawPod draws a pod with one of three names, so that names occur twice.
func drawPod(t *rapid.T, i int) request.Pod {
	pod := request.Pod{
		Identity: request.Identity{
			UID: uid(i), Namespace: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "namespace"),
			Name: rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "name"),
		}, Ask: request.Ask{
			QoS:  request.Guaranteed,
			Kind: rapid.SampledFrom([]request.Kind{request.Plain, request.PodLevel, request.PodLevel}).Draw(t, "kind"),
		},
	}
	budget := 1
	for k := range rapid.IntRange(1, 4).Draw(t, "containers") {
		containerType := request.ContainerType(rapid.IntRange(0, 2).Draw(t, "lane"))
		c := sharing(fmt.Sprint("c", k), containerType)
		if rapid.Bool().Draw(t, "exclusive") {
			c = exclusive(c.Name, containerType, rapid.IntRange(0, 2).Draw(t, "cpus"), gib)
		}
		budget += c.CPUs
		pod.Containers = append(pod.Containers, c)
	}
	if pod.Kind == request.PodLevel {
		pod.BudgetCPUs, pod.BudgetCPUMilli, pod.BudgetMemory = budget, int64(budget)*1000, bytesOf(6*gib)
	}
	return pod
}

// TestAnswersAgree checks that Get returns the pod's part of List, that the order is total, that
// CPUs of containers are exclusive and within the pool if their pod has one, and that the node
// shared pool is never in an answer.
func TestAnswersAgree(t *testing.T) {
	empty := map[node.Scope]*node.State{node.ContainerScope: small(t, node.ContainerScope), node.PodScope: small(t, node.PodScope)}
	rapid.Check(t, func(t *rapid.T) {
		state := drawState(t, empty)
		pods := list(state).GetPodResources()
		if len(pods) != len(state.Grants()) {
			t.Fatalf("%d of %d pods are listed", len(pods), len(state.Grants()))
		}
		var taken cpuset.Set
		for i, p := range pods {
			id := p.GetNamespace() + "/" + p.GetName()
			again := i > 0 && pods[i-1].GetNamespace()+"/"+pods[i-1].GetName() == id
			if i > 0 && pods[i-1].GetNamespace()+"/"+pods[i-1].GetName() > id {
				t.Fatalf("%s is out of order", id)
			}
			g, ok := find(state, p.GetNamespace(), p.GetName())
			if !ok || !again && !proto.Equal(podResources(state, g), p) {
				t.Fatalf("Get of %s is not its part of List", id)
			}
			cpus := checkPod(t, p)
			if taken.Intersects(cpus) || state.SharedCPUs().Intersects(cpus) {
				t.Fatalf("%s has CPUs %s; others have %s, all have %s", id, cpus, taken, state.SharedCPUs())
			}
			taken = taken.Union(cpus)
		}
	})
}

// TestEncoderKeepsParts checks that an encoder, which keeps parts of earlier answers, gives the
// same answer as a new one, whichever pods and claims come and go.
func TestEncoderKeepsParts(t *testing.T) {
	empty := small(t, node.PodScope)
	rapid.Check(t, func(t *rapid.T) {
		state := empty
		var e encoder
		for i := range rapid.IntRange(1, 8).Draw(t, "changes") {
			if rapid.Bool().Draw(t, "claims change") {
				state = state.WithClaims(uid(rapid.IntRange(0, 6).Draw(t, "whose")), []request.Claim{
					{Name: fmt.Sprint(i), Uses: []request.ClaimUse{{Container: "c0"}}, Devices: []request.ClaimDevice{}},
				})
			}
			if rapid.Bool().Draw(t, "released") {
				state = state.Release(uid(rapid.IntRange(0, i).Draw(t, "who")))
			}
			var err error
			if state, err = state.Apply(state.Plan(drawPod(t, i))); err != nil {
				t.Fatal(err)
			}
			encoded, err := e.list(state)
			if err != nil {
				t.Fatal(err)
			}
			decoded := &podresourcesv1.ListPodResourcesResponse{}
			if err := proto.Unmarshal(encoded.ProtoReflect().GetUnknown(), decoded); err != nil || !proto.Equal(decoded, list(state)) {
				t.Fatalf("change %d: %v\n%swant\n%s", i, err, text(decoded.GetPodResources()), text(list(state).GetPodResources()))
			}
		}
	})
}

// checkPod returns the CPUs that are listed for a pod.
func checkPod(t *rapid.T, p *podresourcesv1.PodResources) cpuset.Set {
	pool := setOf(p.GetCpuIds())
	var own cpuset.Set
	for _, c := range p.GetContainers() {
		cpus := setOf(c.GetCpuIds())
		if own.Intersects(cpus) {
			t.Fatalf("container %s has CPUs %s, others %s", c.GetName(), cpus, own)
		}
		own = own.Union(cpus)
	}
	if !pool.IsEmpty() && !pool.Contains(own) {
		t.Fatalf("containers have CPUs %s outside the pool %s", own.Difference(pool), pool)
	}
	return pool.Union(own)
}
