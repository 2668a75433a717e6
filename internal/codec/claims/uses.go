package claims

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/paddock-project/paddock/internal/core/request"
)

// UsesOf returns the ResourceClaims that the containers of a pod use, without their devices. It
// takes the names from the status of a bound pod and skips claims that have no name yet. The claim
// that the scheduler created for extended resources is included.
func UsesOf(pod *v1.Pod) []request.Claim {
	var all []request.Claim
	for i := range pod.Spec.ResourceClaims {
		named := &pod.Spec.ResourceClaims[i]
		name, _, err := resourceclaim.Name(pod, named)
		if err != nil || name == nil || *name == "" {
			continue
		}
		claim := request.Claim{Name: *name}
		for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for k := range containers {
				for _, use := range containers[k].Resources.Claims {
					if use.Name == named.Name {
						claim.Uses = append(claim.Uses, request.ClaimUse{Container: containers[k].Name, Request: use.Request})
					}
				}
			}
		}
		if len(claim.Uses) > 0 { // Otherwise no container gets its devices.
			all = append(all, claim)
		}
	}
	if status := pod.Status.ExtendedResourceClaimStatus; status != nil && status.ResourceClaimName != "" {
		claim := request.Claim{Name: status.ResourceClaimName}
		for _, m := range status.RequestMappings {
			claim.Uses = append(claim.Uses, request.ClaimUse{Container: m.ContainerName, Request: m.RequestName})
		}
		all = append(all, claim)
	}
	return request.Ordered(all)
}
