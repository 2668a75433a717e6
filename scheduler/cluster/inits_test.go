package cluster_test

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paddock-project/paddock/internal/cluster/fleet/memo"
	"github.com/paddock-project/paddock/internal/cluster/fleetsource"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/scheduler/cluster"
)

// withInit returns a pod with an init container of 1 CPU, and a container of one more.
func withInit(uid, init, memory string) *v1.Pod {
	p := pod(uid, 1)
	of := func(memory string) v1.Container {
		amounts := v1.ResourceList{v1.ResourceCPU: resource.MustParse("1"), v1.ResourceMemory: resource.MustParse(memory)}
		return v1.Container{Name: "c", Resources: v1.ResourceRequirements{Requests: amounts, Limits: amounts}}
	}
	first := of(init)
	first.Name = "init"
	p.Spec.InitContainers, p.Spec.Containers = []v1.Container{first}, []v1.Container{of(memory)}
	p.CreationTimestamp = metav1.Unix(int64(len(uid)), 0)
	return bound(p, "")
}

// TestMemoryOfInitContainers checks that a kubelet can decide about a pod before or after the init
// containers of another one have given back their memory, whether that one waits or is published.
func TestMemoryOfInitContainers(t *testing.T) {
	here := func(grants ...*node.Grant) *fleetsource.Node {
		n := observed(t, grants...)
		n.Policy.Topology, n.Policy.Scope = node.TopologyBestEffort, node.ContainerScope
		n.Policy.StaticMemory, n.Policy.ReservedMemory = true, map[int]map[string]int64{0: {"memory": 1 << 30}}
		return n
	}
	w := &world{pods: map[string]*v1.Pod{}}
	c := w.cluster(func(err error) { t.Error(err) })
	c.Update("n", &cluster.Source{Node: here()})
	free := func() (all []string) {
		at := c.After("n")
		for _, view := range append([]*memo.Node{at.View}, at.Others...) {
			m := view.State.Memory()
			all = append(all, fmt.Sprintf("%d+%d", m.Free(mask.Of(0), "memory")>>30, m.Free(mask.Of(1), "memory")>>30))
		}
		slices.Sort(all)
		return all
	}
	want := func(what string, lists ...string) {
		t.Helper()
		if got := free(); !slices.Equal(got, lists) {
			t.Errorf("%s: free GiB by NUMA node %q, want %q", what, got, lists)
		}
	}
	// NUMA node 0 has 63 GiB for pods, and NUMA node 1 has 64.
	w.set(withInit("same", "20Gi", "40Gi"))
	want("init containers whose memory the others use", "23+64")
	w.set(withInit("apart", "20Gi", "30Gi"))
	want("both, in both orders", "13+24", "23+34", "3+34", "33+24")
	asked := func(memory string) error {
		p := withInit("asked", memory, memory)
		p.Spec.NodeName, p.Spec.InitContainers = "", nil
		read, err := cluster.Read(p, c.After("n").Gates)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Reserve("n", read)
		c.Unreserve("n", "asked")
		return err
	}
	if err := asked("30Gi"); err == nil {
		t.Error("30 GiB are reserved beside a pod that needs them if the kubelet decides about it later")
	}
	if err := asked("4Gi"); err != nil {
		t.Errorf("4 GiB: %v", err)
	}
	var grants []*node.Grant
	for _, uid := range []string{"same", "apart"} {
		g, _ := c.After("n").View.State.Grant(uid)
		grants = append(grants, g)
	}
	c.Update("n", &cluster.Source{Node: here(grants...)})
	want("when the kubelet has decided", "23+34", "3+34")
	started, _ := c.After("n").View.State.ContainerCreated("apart", "c").Grant("apart")
	c.Update("n", &cluster.Source{Node: here(grants[0], started)})
	want("when the containers have started", "23+34")
}
