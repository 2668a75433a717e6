package podspec

import (
	"fmt"
	"regexp"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// nameCheck returns an error for an invalid resource name, and nil for a valid one.
type nameCheck func(name v1.ResourceName, at *field.Path) *field.Error

func validateContainer(r *v1.ResourceRequirements, at *field.Path) field.ErrorList {
	return validateRequirements(r, at, func(name v1.ResourceName, at *field.Path) *field.Error {
		if isPodLevel(name) || name == v1.ResourceEphemeralStorage {
			return nil
		}
		if !strings.Contains(string(name), "/") {
			return field.Invalid(at, string(name), "must be a standard resource for containers "+
				"(cpu, memory, ephemeral-storage, hugepages-<size>) or have a domain, as in example.com/device")
		}
		if msgs := validation.IsQualifiedName(string(name)); len(msgs) > 0 {
			return field.Invalid(at, string(name), strings.Join(msgs, "; "))
		}
		return nil
	})
}

// validateRequirements checks the resources field of a container or a pod (R-DEM-92, R-DEM-93).
func validateRequirements(r *v1.ResourceRequirements, at *field.Path, check nameCheck) field.ErrorList {
	var errs field.ErrorList
	var hugePages, cpuOrMemory bool
	each := func(list v1.ResourceList, at *field.Path) {
		for _, name := range sortedNames(list) {
			hugePages = hugePages || isHugePages(name)
			cpuOrMemory = cpuOrMemory || name == v1.ResourceCPU || name == memory
			if err := check(name, at.Key(string(name))); err != nil {
				errs = append(errs, err)
			}
			if err := validateQuantity(name, list[name], at.Key(string(name))); err != nil {
				errs = append(errs, err)
			}
		}
	}
	each(r.Limits, at.Child("limits"))
	each(r.Requests, at.Child("requests"))
	for _, name := range sortedNames(r.Requests) {
		if err := validateAgainstLimit(name, r, at); err != nil {
			errs = append(errs, err)
		}
	}
	if hugePages && !cpuOrMemory {
		errs = append(errs, field.Forbidden(at, "HugePages require cpu or memory"))
	}
	return errs
}

func validateAgainstLimit(name v1.ResourceName, r *v1.ResourceRequirements, at *field.Path) *field.Error {
	q := r.Requests[name]
	limit, limited := r.Limits[name]
	// A limit may exceed the request, except for huge pages and devices.
	domain, _, found := strings.Cut(string(name), "/")
	fixed := isHugePages(name) || found && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io")
	switch {
	case !limited && fixed:
		return field.Required(at.Child("limits"), "Limit must be set for non overcommitable resources")
	case !limited:
		return nil
	case fixed && q.Cmp(limit) != 0:
		return field.Invalid(at.Child("requests"), q.String(),
			fmt.Sprintf("must be equal to %s limit of %s", name, limit.String()))
	case q.Cmp(limit) > 0:
		return field.Invalid(at.Child("requests"), q.String(),
			fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String()))
	}
	return nil
}

// validateQuantity checks that the amount is valid for the resource.
func validateQuantity(name v1.ResourceName, q resource.Quantity, at *field.Path) *field.Error {
	switch {
	case q.Sign() < 0:
		return field.Invalid(at, q.String(), "must be greater than or equal to 0")
	case isHugePages(name):
		return validateHugePages(name, q, at)
	case strings.Contains(string(name), "/") && q.Cmp(maxUnits) < 0 && !isWhole(q):
		return field.Invalid(at, q.String(), "must be an integer") // A device is whole; a byte is rounded up.
	}
	return nil
}

// pageSize matches a page size. It is limited in length because no machine has larger page sizes.
var pageSize = regexp.MustCompile(`^[0-9]{1,15}([KMGTPE]i|[kMGTPE])?$`)

func validateHugePages(name v1.ResourceName, q resource.Quantity, at *field.Path) *field.Error {
	text := strings.TrimPrefix(string(name), hugePagesPrefix)
	var size resource.Quantity
	if pageSize.MatchString(text) {
		size = resource.MustParse(text)
	}
	if size.Sign() <= 0 || size.Cmp(maxUnits) >= 0 {
		return field.Invalid(at, string(name), fmt.Sprintf("the page size %q is not a positive number of bytes", text))
	}
	if q.Cmp(maxUnits) < 0 && (!isWhole(q) || q.Value()%size.Value() != 0) {
		return field.Invalid(at, q.String(), fmt.Sprintf("must be a multiple of the page size of %s", text))
	}
	return nil
}
