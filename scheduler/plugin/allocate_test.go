package plugin

import (
	"fmt"
	"syscall"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// unallocated is a scheduler that knows these ResourceSlices, in which no device is allocated. Each
// claim is for a number of devices.
type unallocated struct {
	fwk.Handle
	fwk.ResourceClaimTracker
	slices  []*resourceapi.ResourceSlice
	devices int64
}

func (u *unallocated) SharedDRAManager() fwk.SharedDRAManager       { return u }
func (u *unallocated) ResourceClaims() fwk.ResourceClaimTracker     { return u }
func (u *unallocated) ResourceSlices() fwk.ResourceSliceLister      { return u }
func (u *unallocated) DeviceClasses() fwk.DeviceClassLister         { return classes{} }
func (u *unallocated) DeviceClassResolver() fwk.DeviceClassResolver { return nil }

func (u *unallocated) ListWithDeviceTaintRules() ([]*resourceapi.ResourceSlice, error) {
	return u.slices, nil
}

func (u *unallocated) GetPendingAllocation(types.UID) *resourceapi.AllocationResult { return nil }

func (u *unallocated) GatherAllocatedState() (*structured.AllocatedState, error) {
	return &structured.AllocatedState{AggregatedCapacity: structured.NewConsumedCapacityCollection()}, nil
}

func (u *unallocated) Get(namespace, name string) (*resourceapi.ResourceClaim, error) {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)}}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: driver, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: u.devices,
	}}}
	return claim, nil
}

// classes has a DeviceClass of every name, which selects every device.
type classes struct{}

func (classes) List() ([]*resourceapi.DeviceClass, error) { return nil, nil }

func (classes) Get(name string) (*resourceapi.DeviceClass, error) {
	return &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
}

// serving returns a plugin with nodes that have eight devices each, near two NUMA nodes in turn.
func serving(tb testing.TB, nodes int, devices int64) (*Plugin, []fwk.NodeInfo) {
	tb.Helper()
	p, infos := filtered(tb, nodes)
	u := &unallocated{devices: devices}
	for _, info := range infos {
		u.slices = append(u.slices, sliceOf(driver, info.Node().Name, info.Node().Name))
	}
	p.handle, p.allocator, p.slices = u, newAllocator(), indexOf(tb, u.slices...)
	p.settings.managedNodes = labels.Nothing()
	registerMetrics()
	return p, infos
}

// TestFilterKnowsDevices checks that Filter asks with the devices that the node would give: the first
// ones, of which gpu-0 is near NUMA node 0 and gpu-1 near NUMA node 1.
func TestFilterKnowsDevices(t *testing.T) {
	for _, c := range []struct {
		devices int64
		cpus    int
		fits    bool
	}{
		{1, 31, true},
		{1, 32, false}, // NUMA node 0 has a reserved CPU, and NUMA node 1 has room.
		{2, 20, false}, // The devices are near two NUMA nodes.
		{9, 32, true},  // The node has too few. DynamicResources rejects it, and Filter asks as if it knew nothing.
	} {
		p, infos := serving(t, 1, c.devices)
		state, pod := framework.NewCycleState(), claiming("a", c.cpus)
		if _, status := p.PreFilter(t.Context(), state, pod, nil); !status.IsSuccess() {
			t.Fatal(status)
		}
		if status := p.Filter(t.Context(), state, pod, infos[0]); status.IsSuccess() != c.fits {
			t.Errorf("%d devices and %d CPUs: %v", c.devices, c.cpus, status)
		}
	}
}

// BenchmarkFilterClaims measures a cycle of a pod with a claim for a device: PreFilter, and Filter of
// all nodes, in CPU time per node.
func BenchmarkFilterClaims(b *testing.B) {
	for _, nodes := range []int{10, 1000, 5000} {
		for _, known := range []bool{false, true} {
			b.Run(fmt.Sprintf("known=%t/nodes=%d", known, nodes), func(b *testing.B) {
				p, infos := serving(b, nodes, 1)
				if !known {
					p.allocator = nil
				}
				pod := claiming("a", 4)
				var before, after syscall.Rusage
				if err := syscall.Getrusage(syscall.RUSAGE_SELF, &before); err != nil {
					b.Fatal(err)
				}
				for b.Loop() {
					state := framework.NewCycleState()
					if _, status := p.PreFilter(b.Context(), state, pod, nil); !status.IsSuccess() {
						b.Fatal(status)
					}
					for _, info := range infos {
						if status := p.Filter(b.Context(), state, pod, info); !status.IsSuccess() {
							b.Fatal(status)
						}
					}
				}
				if err := syscall.Getrusage(syscall.RUSAGE_SELF, &after); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(after.Utime.Nano()+after.Stime.Nano()-before.Utime.Nano()-before.Stime.Nano())/float64(b.N*nodes), "cpu-ns/node")
			})
		}
	}
}
