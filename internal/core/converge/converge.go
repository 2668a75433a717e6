// Package converge compares what containers run on with what they should run on, and returns the
// updates that make the two equal, in order.
//
// All code that changes running containers uses it: a runtime that synchronizes, the reconcile
// loop, and the replies to an admission that shrank the node shared pool. Package node decides what
// containers should run on.
package converge

import (
	"cmp"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
)

// Setting is what Paddock sets of a container's cgroup.
type Setting struct {
	// CPUs is cpuset.cpus; empty: not managed, or, in what was observed, not set.
	CPUs cpuset.Set
	// Mems is cpuset.mems; empty: not managed, or not set.
	Mems mask.Mask
	// Quota is the CFS quota; node.KeepQuota: left alone, or, in what was observed, not known.
	Quota node.Quota
}

// Equal reports whether both are the same.
func (s Setting) Equal(t Setting) bool {
	return s.CPUs.Equal(t.CPUs) && s.Mems == t.Mems && s.Quota == t.Quota
}

// Observed is a running container.
type Observed struct {
	// ID is the runtime's; Pod is the pod's UID.
	ID, Pod, Container string
	Setting
}

// Update is what a container should be changed to.
type Update struct {
	ID, Pod, Container string
	Before, After      Setting
}

// Shrinks reports whether the container gives up CPUs that it runs on, and grows nowhere.
func (u Update) Shrinks() bool {
	return !u.Before.CPUs.IsEmpty() && u.Before.CPUs.Contains(u.After.CPUs)
}

// Report is the result of a comparison.
type Report struct {
	// Updates are in the order in which they are to be made: containers that give up CPUs come
	// before those that may get them (cpu-manager design, Appendix A), then by pod and container.
	Updates []Update
	// Stranded containers should run on the node shared pool, which is empty. They stay where they
	// are: for a runtime, an empty set means "no change".
	Stranded []Observed
	// Strangers are containers of pods without a grant, or containers that their grant does not
	// have.
	Strangers []Observed
}

// Order puts updates into the order in which they are to be made; see Report.
func Order(updates []Update) {
	slices.SortStableFunc(updates, func(a, b Update) int {
		return cmp.Or(order(a)-order(b), strings.Compare(a.Pod, b.Pod), strings.Compare(a.Container, b.Container), strings.Compare(a.ID, b.ID))
	})
}

// order is the phase of an update: 0 gives up CPUs, 1 moves, 2 only gets more.
func order(u Update) int {
	switch {
	case u.Shrinks():
		return 0
	case u.After.CPUs.Contains(u.Before.CPUs):
		return 2
	}
	return 1
}

// Changes reports whether the update has anything for a runtime, for which an empty set means "no
// change".
func (u Update) Changes() bool { return !u.After.CPUs.IsEmpty() || !u.After.Mems.IsEmpty() }
