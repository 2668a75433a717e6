package podspec

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/paddock-project/paddock/internal/core/request"
)

// Validate checks the names of the containers and everything about resources that the API server
// would reject, for a pod to which Default was applied. It returns the errors in the order of the
// spec, and none for a valid pod. If the gate PodLevelResources is off, it ignores spec.resources,
// because such a pod is rejected as a whole (R-DEM-2).
//
// One rule is stricter than that of the API server: huge pages must always be whole pages. One path
// is more precise: if the limit of a container exceeds the limit of the pod, the error has the path
// of the container's limit. As in the API server, a fraction of a byte is valid; it counts as a
// byte.
func Validate(pod *v1.Pod, g Gates) field.ErrorList {
	if err := checkExponents(pod); err != nil {
		return field.ErrorList{err}
	}
	spec := field.NewPath("spec")
	var errs field.ErrorList
	if pod.Spec.Resources != nil && g.PodLevelResources {
		at := spec.Child("resources")
		if pod.Spec.OS != nil && pod.Spec.OS.Name == v1.Windows {
			return field.ErrorList{field.Forbidden(at, "may not be set for a windows pod")} // R-DEM-90
		}
		errs = append(errs, validatePodLevel(pod, at)...)
	}
	errs = append(errs, validateNames(pod, spec)...)
	for i := range pod.Spec.InitContainers {
		at := spec.Child("initContainers").Index(i).Child("resources")
		errs = append(errs, validateContainer(&pod.Spec.InitContainers[i].Resources, at)...)
	}
	for i := range pod.Spec.Containers {
		at := spec.Child("containers").Index(i).Child("resources")
		errs = append(errs, validateContainer(&pod.Spec.Containers[i].Resources, at)...)
	}
	return errs
}

// validateNames checks that every container has a unique name.
func validateNames(pod *v1.Pod, spec *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(pod.Spec.Containers) == 0 {
		errs = append(errs, field.Required(spec.Child("containers"), "a pod has at least one container"))
	}
	seen := map[string]bool{}
	indices := map[string]int{}
	forEachContainer(pod, func(c *v1.Container, containerType request.ContainerType) {
		list := "containers"
		if containerType != request.App {
			list = "initContainers"
		}
		at := spec.Child(list).Index(indices[list]).Child("name")
		indices[list]++
		switch {
		case c.Name == "":
			errs = append(errs, field.Required(at, "a container is known by its name"))
		case seen[c.Name]:
			errs = append(errs, field.Duplicate(at, c.Name))
		default:
			for _, msg := range validation.IsDNS1123Label(c.Name) {
				errs = append(errs, field.Invalid(at, c.Name, msg))
			}
		}
		seen[c.Name] = true
	})
	return errs
}

// validatePodLevel implements R-DEM-91 to R-DEM-96.
func validatePodLevel(pod *v1.Pod, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	r := pod.Spec.Resources
	if r.Claims != nil {
		errs = append(errs, field.Forbidden(at.Child("claims"), "claims may not be set for Resources at pod-level"))
	}
	names := func(name v1.ResourceName, at *field.Path) *field.Error {
		if isPodLevel(name) {
			return nil
		}
		return field.NotSupported(at, name, []v1.ResourceName{v1.ResourceCPU, hugePagesPrefix, memory})
	}
	errs = append(errs, validateRequirements(r, at, names)...)
	// The containers must not need more together than the pod has (R-DEM-94, R-DEM-95).
	check := func(kind string, budget, needed v1.ResourceList, counts func(v1.ResourceName) bool) {
		for _, name := range sortedNames(needed) {
			q := needed[name]
			if own, ok := budget[name]; ok && counts(name) && q.Cmp(own) > 0 {
				errs = append(errs, field.Invalid(at.Child(kind).Key(string(name)), own.String(),
					fmt.Sprintf("must be greater than or equal to aggregate container %s of %s", kind, q.String())))
			}
		}
	}
	check("requests", r.Requests, aggregate(pod, requestsOf), func(v1.ResourceName) bool { return true })
	check("limits", r.Limits, aggregate(pod, limitsOf), isHugePages)
	for i := range pod.Spec.Containers {
		limits := pod.Spec.Containers[i].Resources.Limits
		for _, name := range sortedNames(limits) {
			q := limits[name]
			if limit, ok := r.Limits[name]; ok && q.Cmp(limit) > 0 {
				at := field.NewPath("spec", "containers").Index(i).Child("resources", "limits").Key(string(name))
				errs = append(errs, field.Invalid(at, q.String(),
					fmt.Sprintf("must be less than or equal to pod limits of %s", limit.String())))
			}
		}
	}
	return errs
}
