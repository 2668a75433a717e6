package plugin

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/paddock-project/paddock/internal/codec/handover"
)

// devices is a scheduler whose plugin DynamicResources has allocated device gpu-1, near NUMA node
// 1, to each claim. The allocation is pending, so the API server does not have it.
type (
	devices struct{ fwk.Handle }
	manager struct{ fwk.SharedDRAManager }
	tracker struct{ fwk.ResourceClaimTracker }
)

func (devices) Activate(klog.Logger, map[string]*v1.Pod) {}
func (devices) SharedDRAManager() fwk.SharedDRAManager   { return manager{} }
func (manager) ResourceClaims() fwk.ResourceClaimTracker { return tracker{} }
func (tracker) GetPendingAllocation(types.UID) *resourceapi.AllocationResult {
	return &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{Request: "gpu", Driver: "gpu.example.com", Pool: "n", Device: "gpu-1"}},
	}}
}

func (tracker) Get(namespace, name string) (*resourceapi.ResourceClaim, error) {
	return &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)}}, nil
}

// indexOf returns an index of ResourceSlices like that of the scheduler's informer.
func indexOf(tb testing.TB, all ...*resourceapi.ResourceSlice) cache.Indexer {
	tb.Helper()
	index := cache.NewIndexer(cache.MetaNamespaceKeyFunc, sliceIndexers())
	for _, s := range all {
		if err := index.Add(s); err != nil {
			tb.Fatal(err)
		}
	}
	return index
}

// sliceOf returns a ResourceSlice with eight devices of a pool, four near each of two NUMA nodes.
// If node is empty, all nodes reach the devices over the network.
func sliceOf(driver, pool, node string) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: driver + "-" + pool}, Spec: resourceapi.ResourceSliceSpec{
		Driver: driver, Pool: resourceapi.ResourcePool{Name: pool, ResourceSliceCount: 1},
	}}
	all := true
	if s.Spec.AllNodes = &all; node != "" {
		s.Spec.AllNodes, s.Spec.NodeName = nil, &node
	}
	for i := range 8 {
		near, text := int64(i%2), fmt.Sprint("0000:1", i, ":00.0")
		s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{
			Name: fmt.Sprint("gpu-", i),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"resource.kubernetes.io/numaNode": {IntValue: &near}, "resource.kubernetes.io/pciBusID": {StringValue: &text},
				"model": {StringValue: &driver}, "uuid": {StringValue: &text},
			},
			Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("80Gi")}},
		})
	}
	return s
}

// BenchmarkReserve measures Reserve of a pod with a claim, and Unreserve. The other ResourceSlices
// of the cluster belong to other nodes, or have devices that all nodes reach.
func BenchmarkReserve(b *testing.B) {
	for _, others := range []string{"local", "network"} {
		for _, n := range []int{1, 5000} {
			b.Run(fmt.Sprintf("%s/slices=%d", others, n), func(b *testing.B) {
				p, infos := filtered(b, 1)
				name := infos[0].Node().Name
				all := []*resourceapi.ResourceSlice{sliceOf(driver, "n", name)}
				for i := 1; i < n; i++ {
					node := ""
					if others == "local" {
						node = fmt.Sprint("node-", i)
					}
					all = append(all, sliceOf("other.example.com", fmt.Sprint("pool-", i), node))
				}
				p.handle, p.slices = devices{}, indexOf(b, all...)
				registerMetrics()
				pod, state := claiming("a", 20), framework.NewCycleState()
				if _, status := p.PreFilter(b.Context(), state, pod, nil); !status.IsSuccess() {
					b.Fatal(status)
				}
				b.ReportAllocs()
				for b.Loop() {
					if status := p.Reserve(b.Context(), state, pod, name); !status.IsSuccess() {
						b.Fatal(status)
					}
					p.Unreserve(b.Context(), state, pod, name)
				}
			})
		}
	}
}

// claiming returns a pod with a claim.
func claiming(name string, cpus int) *v1.Pod {
	pod, claim := guaranteed(name, cpus), "claim-"+name
	pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &claim}}
	pod.Spec.Containers[0].Resources.Claims = []v1.ResourceClaim{{Name: "gpu"}}
	return pod
}

// TestReserveFollowsClaims checks that the CPUs are on the NUMA node of the allocated device. A pod
// is rejected if that NUMA node has no room, even if the other one has.
func TestReserveFollowsClaims(t *testing.T) {
	p, infos := filtered(t, 1)
	p.handle, p.slices = devices{}, indexOf(t, sliceOf(driver, "n", infos[0].Node().Name))
	registerMetrics()
	counted, err := testutil.GetCounterMetricValue(unknownDevices)
	if err != nil {
		t.Fatal(err)
	}
	reserve := func(name string, cpus int) (fwk.CycleState, *fwk.Status) {
		pod, state := claiming(name, cpus), framework.NewCycleState()
		if _, status := p.PreFilter(t.Context(), state, pod, nil); !status.IsSuccess() {
			t.Fatal(status)
		}
		if status := p.Filter(t.Context(), state, pod, infos[0]); !status.IsSuccess() {
			t.Fatal(status)
		}
		if fragments, status := p.SignPod(t.Context(), pod); len(fragments) > 0 || status.IsSuccess() {
			t.Errorf("pod %s has a signature", name)
		}
		return state, p.Reserve(t.Context(), state, pod, infos[0].Node().Name)
	}
	state, status := reserve("a", 20)
	if !status.IsSuccess() {
		t.Fatal(status)
	}
	data, err := state.Read(handedKey)
	if err != nil {
		t.Fatal(err)
	}
	handed, ok := data.(annotation)
	if !ok {
		t.Fatalf("the state has %T", data)
	}
	text, err := handover.Decode(handed.text)
	if err != nil || text.Grant.CPUs().String() != "32-51" {
		t.Errorf("the grant has CPUs %s (%v)", text.Grant.CPUs(), err)
	}
	if _, status := reserve("b", 20); status.Code() != fwk.Unschedulable || !strings.Contains(status.Message(), "20 CPUs do not fit on the NUMA nodes of the pod's devices") {
		t.Errorf("a second pod: %v %q", status.Code(), status.Message())
	}
	if now, err := testutil.GetCounterMetricValue(unknownDevices); err != nil || now-counted != 2 {
		t.Errorf("%v pods with devices that are chosen later are counted, want 2 (%v)", now-counted, err)
	}
	p.Unreserve(t.Context(), state, guaranteed("a", 20), infos[0].Node().Name)
	if _, status := reserve("b", 20); !status.IsSuccess() {
		t.Errorf("after Unreserve: %v", status)
	}
}

// TestReserveAnswersForTheNextPod checks that the next pod of the same template needs no plan on
// the node that took the pod before, even if it does not fit any more.
func TestReserveAnswersForTheNextPod(t *testing.T) {
	p, infos := filtered(t, 1)
	for i, fits := range []bool{true, true, false} {
		pod, state := guaranteed(fmt.Sprint("p", i), 30), framework.NewCycleState()
		if _, status := p.PreFilter(t.Context(), state, pod, infos); !status.IsSuccess() {
			t.Fatal(status)
		}
		status, hit := p.Ask(t.Context(), state, infos[0])
		if status.IsSuccess() != fits || hit != (i > 0) {
			t.Errorf("pod %d: %v, hit %t", i, status, hit)
		}
		if !fits {
			continue
		}
		if status := p.Reserve(t.Context(), state, pod, infos[0].Node().Name); !status.IsSuccess() {
			t.Fatal(status)
		}
		placed, err := framework.NewPodInfo(pod)
		if err != nil {
			t.Fatal(err)
		}
		infos[0].AddPodInfo(placed)
	}
}

// TestArgs checks that every setting is validated, and that the error names the field and the
// possible values.
func TestArgs(t *testing.T) {
	for text, want := range map[string]string{
		`{"scoring": "best"}`:                     "args.scoring",
		`{"unknownDevices": "Some"}`:              "One or Every",
		`{"agents": {"readiness": "x"}}`:          "args.agents.readiness",
		`{"agents": {"matchLabels": {"a": "/"}}}`: "args.agents.matchLabels",
		`{"agents": {"awayFor": "-1s"}}`:          "args.agents.awayFor",
		`{"agents": {"publishWithin": "-1s"}}`:    "args.agents.publishWithin",
		`{"evictRejectedAfter": "1s"}`:            "0 or at least 30s",
		`{"scorin": ""}`:                          `unknown field "scorin"`,
		`{`:                                       "args",
		`{"scoring": "best-fit"}`:                 "",
		`{"evictRejectedAfter": "1m", "scoring": "most-allocated", "unknownDevices": "Every", "agents": {"readiness": "Ignored"}}`: "",
	} {
		_, err := read(rawArgs(text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func rawArgs(text string) runtime.Object { return &runtime.Unknown{Raw: []byte(text)} }
