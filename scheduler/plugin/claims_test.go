package plugin

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

const driver = "gpu.example.com"

// slice publishes the devices of a node. Each device is near one NUMA node.
func (w *world) slice(on string, args map[string]string) {
	devices := []resourceapi.Device{}
	for name, near := range args {
		id := int64(number(w.t, near, 0))
		devices = append(devices, resourceapi.Device{Name: name, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"resource.kubernetes.io/numaNode": {IntValue: &id}}})
	}
	slices.SortFunc(devices, func(a, b resourceapi.Device) int { return strings.Compare(a.Name, b.Name) })
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: on}, Spec: resourceapi.ResourceSliceSpec{
		Driver: driver, NodeName: &on, Pool: resourceapi.ResourcePool{Name: on, ResourceSliceCount: 1}, Devices: devices,
	}}
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: driver}}
	api := w.client.ResourceV1()
	_, err := api.ResourceSlices().Create(w.t.Context(), slice, metav1.CreateOptions{})
	if err == nil {
		if _, known := api.DeviceClasses().Get(w.t.Context(), driver, metav1.GetOptions{}); known != nil {
			_, err = api.DeviceClasses().Create(w.t.Context(), class, metav1.CreateOptions{})
		}
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.until(func(m fwk.SharedDRAManager) bool {
		all, err := m.ResourceSlices().ListWithDeviceTaintRules()
		_, missing := m.DeviceClasses().Get(driver)
		return err == nil && missing == nil && slices.ContainsFunc(all, func(s *resourceapi.ResourceSlice) bool { return s.Name == on })
	})
}

// until waits until a condition on the scheduler's knowledge of devices is true.
func (w *world) until(known func(m fwk.SharedDRAManager) bool) {
	for deadline := time.Now().Add(5 * time.Minute); !known(w.plugin.handle.SharedDRAManager()); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatal("the scheduler does not know the devices after 20 s")
		}
	}
}

// version returns a reaction that gives each written object the next resource version, because the
// scheduler compares these versions.
func version() clienttesting.ReactionFunc {
	var last atomic.Int64
	return func(action clienttesting.Action) (bool, runtime.Object, error) {
		if written, ok := action.(interface{ GetObject() runtime.Object }); ok {
			if o, err := meta.Accessor(written.GetObject()); err == nil {
				o.SetResourceVersion(fmt.Sprint(last.Add(1)))
			}
		}
		return false, nil, nil
	}
}

// claim creates a ResourceClaim for a number of devices, by default 1.
func (w *world) claim(name string, args map[string]string) {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name)}}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: driver, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: int64(number(w.t, args["devices"], 1)),
	}}}
	if _, err := w.client.ResourceV1().ResourceClaims("default").Create(w.t.Context(), claim, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.until(func(m fwk.SharedDRAManager) bool {
		_, err := m.ResourceClaims().Get("default", name)
		return err == nil
	})
}

// TestReserveAfterDynamicResources checks that, in the deployed configuration, Reserve of the
// plugin runs after Reserve of the plugin that allocates claims.
func TestReserveAfterDynamicResources(t *testing.T) {
	w := &world{t: t}
	w.start()
	var order []string
	for _, p := range w.profile.ListPlugins().Reserve.Enabled {
		order = append(order, p.Name)
	}
	if claims, own := slices.Index(order, names.DynamicResources), slices.Index(order, Name); claims < 0 || own < claims {
		t.Errorf("Reserve runs %v: %s must run after %s", order, Name, names.DynamicResources)
	}
}
