package device

import (
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/request"
)

// Reuse has the devices of a pod's standard init containers that its later containers may reuse,
// because the init containers end before those start. It is ascending by resource, is only used
// while one pod is planned, and is never changed in place.
type Reuse []Assigned

// IDs returns the devices of a resource that can be reused, in ascending order.
func (r Reuse) IDs(resource string) []string {
	if i, ok := r.find(resource); ok {
		return r[i].IDs
	}
	return nil
}

// New returns those of ids that are not reused. Pass them to Take.
func (r Reuse) New(resource string, ids []string) []string {
	return less(ids, r.IDs(resource))
}

// After returns what can be reused after a container of the given container type has ids. A
// standard init container leaves its devices to later containers. Sidecar and app containers keep
// theirs.
func (r Reuse) After(containerType request.ContainerType, resource string, ids []string) Reuse {
	i, found := r.find(resource)
	var had []string
	if found {
		had = r[i].IDs
	}
	var left []string
	if containerType == request.Init {
		left = slices.Concat(had, ids)
		slices.Sort(left)
		left = slices.Compact(left)
	} else {
		left = less(had, ids)
	}
	out := slices.Clone(r)
	switch {
	case found && len(left) == 0:
		return slices.Delete(out, i, i+1)
	case found:
		out[i].IDs = left
		return out
	case len(left) == 0:
		return out
	}
	return slices.Insert(out, i, Assigned{Resource: resource, IDs: left})
}

func (r Reuse) find(resource string) (int, bool) {
	return slices.BinarySearchFunc(r, resource, func(h Assigned, name string) int { return strings.Compare(h.Resource, name) })
}

// less returns ids without others.
func less(ids, others []string) []string {
	others = slices.Sorted(slices.Values(others))
	var left []string
	for _, id := range ids {
		if _, found := slices.BinarySearch(others, id); !found {
			left = append(left, id)
		}
	}
	return left
}
