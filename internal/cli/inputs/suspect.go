package inputs

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
)

// suspect finds amounts that are legal but cannot be intended: impossible ones, which no node like
// this one could ever serve, and odd ones, which have no effect. Both name the field.
func suspect(pod *v1.Pod, m *machine.Machine) (impossible field.ErrorList, odd []string) {
	check := func(path *field.Path, list v1.ResourceList) {
		for name, quantity := range list {
			at := path.Key(string(name))
			switch {
			case strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix) && m.MemoryType(string(name)) < 0:
				impossible = append(impossible, field.Invalid(at, quantity.String(),
					fmt.Sprintf("the machine has no huge pages of this size; it has %s", strings.Join(m.MemoryTypes(), ", "))))
			case name == v1.ResourceCPU && quantity.CmpInt64(cpuset.MaxID+1) > 0:
				impossible = append(impossible, field.Invalid(at, quantity.String(),
					fmt.Sprintf("no machine has more than %d CPUs", cpuset.MaxID+1)))
			case quantity.IsZero():
				odd = append(odd, fmt.Sprintf("%s: 0 asks for nothing", at))
			}
		}
	}
	spec := field.NewPath("spec")
	if r := pod.Spec.Resources; r != nil {
		check(spec.Child("resources", "requests"), r.Requests)
		check(spec.Child("resources", "limits"), r.Limits)
	}
	for field, containers := range map[string][]v1.Container{"initContainers": pod.Spec.InitContainers, "containers": pod.Spec.Containers} {
		for i, c := range containers {
			path := spec.Child(field).Index(i).Child("resources")
			check(path.Child("requests"), c.Resources.Requests)
			check(path.Child("limits"), c.Resources.Limits)
		}
	}
	if _, err := podspec.Consent(pod); err != nil {
		odd = append(odd, err.Error())
	}
	if _, err := podspec.SharesIsolated(pod); err != nil {
		odd = append(odd, err.Error())
	}
	if err := podspec.Caches(pod); err != nil {
		odd = append(odd, err.Error())
	}
	if _, err := podspec.Quiet(pod.Annotations[podspec.QuietAnnotation]); err != nil {
		odd = append(odd, err.Error())
	}
	odd = append(odd, podspec.Misspelt(slices.Collect(maps.Keys(pod.Annotations)))...)
	slices.SortFunc(impossible, func(a, b *field.Error) int { return strings.Compare(a.Field, b.Field) })
	slices.Sort(odd)
	return impossible, odd
}
