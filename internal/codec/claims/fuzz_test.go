package claims_test

import (
	"encoding/json"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/codec/allocation"
	"github.com/paddock-project/paddock/internal/codec/claims"
)

// FuzzPod resolves a pod with objects of arbitrary content. Every claim must be resolved or be
// named in a note.
func FuzzPod(f *testing.F) {
	const class = `{"metadata":{"name":"c"},"spec":{"selectors":[{"cel":{"expression":"device.driver == 'd'"}}]}}`
	const slice = `{"metadata":{"name":"s"},"spec":{"driver":"d","nodeName":"n","pool":{"name":"n","resourceSliceCount":1},"devices":[{"name":"x","attributes":{"numaNode":{"int":1}}}]}}`
	const claim = `{"metadata":{"name":"a"},"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"c"}}]}}}`
	const pod = `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"m","resources":{"claims":[{"name":"g"}]}}],"resourceClaims":[{"name":"g","resourceClaimName":"a"}]}}`
	f.Add(class, slice, claim, pod)
	f.Add(class, `{"spec":{"devices":[{"attributes":{"numa":{"ints":[1,-1,99]}}}],"sharedCounters":[{}]}}`, claim, pod)
	f.Add(`{}`, `{"spec":{"perDeviceNodeSelection":true,"devices":[{"taints":[{}]}]}}`,
		`{"metadata":{"name":"a"},"spec":{"devices":{"requests":[{"name":"r"},{"firstAvailable":[{}]}],"constraints":[{"matchAttribute":"x"},{}]}}}`, pod)
	f.Add(class, slice, `{"metadata":{"name":"a"},"status":{"allocation":{"devices":{"results":[{"shareID":"1"},{"device":"x"}]}}}}`, pod)
	f.Fuzz(func(t *testing.T, class, slice, claim, podText string) {
		pod := &v1.Pod{}
		if json.Unmarshal([]byte(podText), pod) != nil {
			return
		}
		objects := &claims.Objects{Allocator: allocation.New}
		for _, o := range [][2]string{{"DeviceClass", class}, {"ResourceSlice", slice}, {"ResourceClaim", claim}, {"ResourceClaimTemplate", claim}} {
			if objects.Add(o[0], "resource.k8s.io/v1", []byte(o[1])) != nil {
				return
			}
		}
		resolved := objects.On("n").Pod(t.Context(), pod)
		for name, devices := range resolved.Containers {
			for _, d := range devices {
				if d.Driver == "" && d.Nodes != 0 {
					t.Errorf("container %s: %s is of no driver and near NUMA nodes", name, d)
				}
			}
		}
	})
}
