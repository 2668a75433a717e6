// Package converge compares the settings of running containers with those that they should have,
// and returns the updates that make the two equal, in order.
//
// All code that changes running containers uses it: a runtime's synchronization, the reconcile
// loop, and the replies to an admission that shrank the node shared pool. Package node decides what
// containers should run on.
package converge

import (
	"cmp"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/quota"
)

// Setting is what Paddock sets in a container's cgroup.
type Setting struct {
	// CPUs is cpuset.cpus. If empty, it is not managed or, in an observed setting, not set.
	CPUs cpuset.Set
	// Mems is cpuset.mems. If empty, it is not managed, or not set.
	Mems mask.Mask
	// Quota is the CFS quota. quota.Keep means that it stays as it is or, in an observed
	// setting, that it is not known.
	Quota quota.Quota
}

// Equal reports whether both settings are the same.
func (s Setting) Equal(t Setting) bool {
	return s.CPUs.Equal(t.CPUs) && s.Mems == t.Mems && s.Quota == t.Quota
}

// Observed is a running container.
type Observed struct {
	// ID is the runtime's ID of the container. Pod is the pod's UID.
	ID, Pod, Container string
	Setting
}

// Update is a change of a container's setting.
type Update struct {
	ID, Pod, Container string
	Before, After      Setting
}

// Shrinks reports whether the container gets no CPUs beyond those on which it runs.
func (u Update) Shrinks() bool {
	return !u.Before.CPUs.IsEmpty() && u.Before.CPUs.Contains(u.After.CPUs)
}

// Report is the result of a comparison.
type Report struct {
	// Updates are in the order in which they must be made: containers that give up CPUs come before
	// those that may get them (cpu-manager design, Appendix A), then by pod and container.
	Updates []Update
	// Stranded are the containers that should run on the node shared pool while it is empty. They
	// stay where they are: for a runtime, an empty set means "no change".
	Stranded []Observed
	// Strangers are containers of pods without a grant, or containers that are not in their pod's
	// grant.
	Strangers []Observed
}

// Order sorts updates into the order in which they must be made. See Report.
func Order(updates []Update) {
	slices.SortStableFunc(updates, func(a, b Update) int {
		return cmp.Or(order(a)-order(b), strings.Compare(a.Pod, b.Pod), strings.Compare(a.Container, b.Container), strings.Compare(a.ID, b.ID))
	})
}

// order returns the phase of an update: 0 if it gives up CPUs, 1 if it moves, 2 if it only gets
// more.
func order(u Update) int {
	switch {
	case u.Shrinks():
		return 0
	case u.After.CPUs.Contains(u.Before.CPUs):
		return 2
	}
	return 1
}

// Changes reports whether the update changes anything for a runtime, for which an empty set means
// "no change".
func (u Update) Changes() bool { return !u.After.CPUs.IsEmpty() || !u.After.Mems.IsEmpty() }
