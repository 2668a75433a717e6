package plugin

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// TestSlicesOf checks that the slices that the index finds give the same devices and the same stock
// as all ResourceSlices that belong to the node or to no node.
func TestSlicesOf(t *testing.T) {
	found := 0
	rapid.Check(t, func(rt *rapid.T) {
		var all []*resourceapi.ResourceSlice
		claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "claim-a"}}
		claim.Status.Allocation = &resourceapi.AllocationResult{}
		for i := range rapid.IntRange(0, 12).Draw(rt, "slices") {
			s := sliceOf(rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "driver"), rapid.SampledFrom([]string{"p", "q", "q/r"}).Draw(rt, "pool"),
				rapid.SampledFrom([]string{"", "n", "m"}).Draw(rt, "node"))
			s.Name, s.Spec.Pool.Generation = fmt.Sprint("slice-", i), rapid.Int64Range(1, 2).Draw(rt, "generation")
			for k := range s.Spec.Devices {
				s.Spec.Devices[k].Name += fmt.Sprint("-", i) // No device is in two slices.
			}
			all = append(all, s)
			if rapid.Bool().Draw(rt, "allocated") {
				claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{
					Request: "gpu", Driver: s.Spec.Driver, Pool: s.Spec.Pool.Name, Device: s.Spec.Devices[0].Name,
				})
			}
		}
		claimed, pod := []*resourceapi.ResourceClaim{claim}, claiming("a", 1)
		index := &shared{slices: indexOf(t, all...)}
		list, err := index.slicesOf("n", claimed)
		if err != nil {
			rt.Fatal(err)
		}
		ofOthers := func(s *resourceapi.ResourceSlice) bool { return s.Spec.NodeName != nil && *s.Spec.NodeName != "n" }
		got, want := resolved(t.Context(), pod, "n", claimed, list), resolved(t.Context(), pod, "n", claimed, slices.DeleteFunc(all, ofOthers))
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatalf("by all slices and by the index: %s", diff)
		}
		found += len(got.Stock)
	})
	if found == 0 {
		t.Error("no node has devices of any driver")
	}
}

// TestSlicesOfLooksUp checks that slices of other nodes, drivers and pools are not read. A slice of
// a pool of the node is read, because its generation may be newer.
func TestSlicesOfLooksUp(t *testing.T) {
	claim := &resourceapi.ResourceClaim{Status: resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{
		Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{Driver: "x", Pool: "p"}}},
	}}}
	newer := sliceOf("x", "here", "")
	newer.Name = "x-newer"
	index := &shared{slices: indexOf(t,
		newer, sliceOf("x", "here", "n"), sliceOf("x", "p", ""), sliceOf("x", "there", "m"), sliceOf("x", "q", ""), sliceOf("y", "here", "n"), sliceOf("y", "p", ""),
	)}
	list, err := index.slicesOf("n", []*resourceapi.ResourceClaim{claim, {}})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range list {
		names = append(names, s.Name)
	}
	if slices.Sort(names); !slices.Equal(names, []string{"x-here", "x-newer", "x-p"}) {
		t.Errorf("slices %v", names)
	}
}
