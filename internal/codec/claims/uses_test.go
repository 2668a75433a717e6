package claims_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/paddock-project/paddock/internal/codec/claims"
)

// TestUsesOf covers claims with a name, claims from templates, the claim for extended resources,
// claims that no container uses, and claims without a name yet.
func TestUsesOf(t *testing.T) {
	const text = `
metadata: {name: p, namespace: default}
spec:
  initContainers: [{name: prepare, resources: {claims: [{name: gpu, request: large}]}}]
  containers:
    - {name: a, resources: {claims: [{name: gpu}, {name: nic, request: fast}, {name: nic, request: fast}]}}
    - {name: b, resources: {claims: [{name: again}, {name: later}, {name: none}, {name: unknown}]}}
  resourceClaims:
    - {name: nic, resourceClaimName: nics}
    - {name: again, resourceClaimName: nics}
    - {name: gpu, resourceClaimTemplateName: gpus}
    - {name: later, resourceClaimTemplateName: gpus}
    - {name: none, resourceClaimTemplateName: gpus}
    - {name: unused, resourceClaimName: unused}
    - {name: wrong}
status:
  resourceClaimStatuses: [{name: gpu, resourceClaimName: p-gpu-x7}, {name: none}]
  extendedResourceClaimStatus:
    resourceClaimName: p-extended
    requestMappings: [{containerName: b, resourceName: example.com/gpu, requestName: container-1-request-0}]
`
	pod := &v1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(text), pod); err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, c := range claims.UsesOf(pod) {
		got += fmt.Sprintf("%s %v %t, ", c.Name, c.Uses, c.Devices == nil)
	}
	if want := "nics [{a fast} {b }] true, p-extended [{b container-1-request-0}] true, p-gpu-x7 [{a } {prepare large}] true, "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
