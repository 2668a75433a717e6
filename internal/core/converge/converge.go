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

// Desired is what container i of a grant should run on: what is online of its CPUs. One of which no
// CPU is online runs elsewhere, with its quota; see node.State.Cgroup.
func Desired(s *node.State, g *node.Grant, i int) Setting {
	cpus, mems := s.Cgroup(g, i)
	return Setting{CPUs: cpus, Mems: mems, Quota: s.Quota(g, i)}
}

// Compare compares running containers with the state.
func Compare(s *node.State, observed []Observed) Report {
	var r Report
	at := places{}
	for _, o := range observed {
		g, known := s.Grant(o.Pod)
		i := -1
		if known {
			i = at.of(g, o.Container)
		}
		if i < 0 {
			r.Strangers = append(r.Strangers, o)
			continue
		}
		want := Desired(s, g, i)
		if want.CPUs.IsEmpty() && s.Policy().StaticCPU {
			r.Stranded = append(r.Stranded, o)
			continue
		}
		after := o.Setting
		if !want.CPUs.IsEmpty() {
			after.CPUs = want.CPUs
			if want.Quota != node.KeepQuota {
				after.Quota = want.Quota
			}
		}
		if !want.Mems.IsEmpty() {
			after.Mems = want.Mems
		}
		if !after.Equal(o.Setting) {
			r.Updates = append(r.Updates, Update{ID: o.ID, Pod: o.Pod, Container: o.Container, Before: o.Setting, After: after})
		}
	}
	Order(r.Updates)
	return r
}

// places are the positions of the containers of pods that have many, so that comparing all of them
// is linear.
type places map[*node.Grant]map[string]int

// few is how many containers are looked through one by one.
const few = 16

// of is the position of a container of a pod, or -1; see request.Pod.Container.
func (p places) of(g *node.Grant, name string) int {
	if len(g.Pod.Containers) <= few {
		_, i := g.Pod.Container(name)
		return i
	}
	if p[g] == nil {
		p[g] = make(map[string]int, len(g.Pod.Containers))
		for i := range g.Pod.Containers {
			if _, taken := p[g][g.Pod.Containers[i].Name]; !taken {
				p[g][g.Pod.Containers[i].Name] = i
			}
		}
	}
	if i, known := p[g][name]; known {
		return i
	}
	return -1
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
