package claims_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/paddock-project/paddock/internal/codec/claims"
)

// TestTypedObjects checks that objects from an API server lead to the same devices as their JSON.
func TestTypedObjects(t *testing.T) {
	const sliceText = `{"metadata":{"name":"s"},"spec":{"driver":"d","nodeName":"n","pool":{"name":"p"},"devices":[
		{"name":"x","attributes":{"numa":{"int":1}}},{"name":"y","attributes":{"numa":{"int":0}}}]}}`
	const claimText = `{"metadata":{"name":"a","namespace":"default"},"status":{"allocation":{"devices":{"results":[{"request":"r","driver":"d","pool":"p","device":"x"}]}}}}`
	const podText = `{"metadata":{"name":"p","namespace":"default"},"spec":{"containers":[{"name":"m","resources":{"claims":[{"name":"g"}]}}],"resourceClaims":[{"name":"g","resourceClaimName":"a"}]}}`
	slice, claim, pod := &resourceapi.ResourceSlice{}, &resourceapi.ResourceClaim{}, &v1.Pod{}
	for text, object := range map[string]any{sliceText: slice, claimText: claim, podText: pod} {
		if err := json.Unmarshal([]byte(text), object); err != nil {
			t.Fatal(err)
		}
	}
	var text, typed claims.Objects
	for kind, data := range map[string]string{"ResourceSlice": sliceText, "ResourceClaim": claimText} {
		if err := text.Add(kind, "resource.k8s.io/v1", []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	typed.AddSlice(slice)
	typed.AddClaim(claim)
	before := claim.DeepCopy()
	want, got := text.On("n").Pod(t.Context(), pod), typed.On("n").Pod(t.Context(), pod)
	if diff := cmp.Diff(want, got); diff != "" || len(got.Containers["m"]) != 1 || len(got.Stock) != 1 {
		t.Errorf("%d devices, stock %v: %s", len(got.Containers["m"]), got.Stock, diff)
	}
	if diff := cmp.Diff(before, claim); diff != "" {
		t.Errorf("the claim was changed: %s", diff)
	}
}
