// Package simtest checks invariants that every history of a simulated runtime must satisfy,
// whatever faults occur in it. It is for tests.
package simtest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/runtime/sim"
)

// Checker checks the messages of a plugin to a runtime. No message may assign CPUs to a container
// that another container owns, according to the messages so far. A message counts even if the
// runtime lost it, failed, or ignored it, because the plugin did what it could. Containers that
// were created without a plugin are not the plugin's fault: they count as running everywhere until
// a message assigns CPUs to them.
type Checker struct {
	// ListsLate is that of sim.Config: a plugin does not know a container that was created without
	// it before the container runs. Until the plugin changes such a container, it does not count as
	// a conflict. AtRest detects it if the plugin never changes it.
	ListsLate bool

	state func() *node.State

	mu     sync.Mutex
	last   map[string]assigned
	events int
	broken error
}

// assigned is what the last message about a container assigned to it.
type assigned struct {
	pod, container string
	setting        converge.Setting
	// runs is the set of all CPUs on which the container can possibly run. It has the assigned
	// CPUs, except those that the container did not get because the message was lost or failed. The
	// plugin sees that in the cgroup and need not remove CPUs that the container never got.
	runs cpuset.Set
	// unseen is set for a container that the plugin need not know.
	unseen bool
}

// less returns the intersection of both sets, or all of the first if the intersection is empty.
func less(all, in cpuset.Set) cpuset.Set {
	if both := all.Intersection(in); !both.IsEmpty() {
		return both
	}
	return all
}

// NewChecker returns a checker that uses state to find out which container owns which CPUs.
func NewChecker(state func() *node.State) *Checker {
	return &Checker{state: state, last: map[string]assigned{}}
}

// Err returns the first violation, or nil if there was none.
func (c *Checker) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.broken
}

// Events returns the number of events.
func (c *Checker) Events() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.events
}

// Observe implements sim.Config.Observe.
func (c *Checker) Observe(e sim.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events++
	before, known := c.last[e.ID]
	switch e.Kind {
	case sim.Undone, sim.Stopped:
		delete(c.last, e.ID)
		return
	case sim.Drifted:
		if known {
			before.runs = less(cpus(c.state(), before), e.Setting.CPUs)
			c.last[e.ID] = before
		}
		return
	case sim.Created:
		return
	case sim.Replied, sim.Updated, sim.Lost, sim.Failed, sim.Ignored:
	}
	if e.Kind != sim.Replied && (!known || e.Hook == "") {
		return // The container has ended, or the kubelet updates it without a plugin.
	}
	now := assigned{pod: e.Pod, container: e.Container, setting: e.Setting, runs: e.Setting.CPUs}
	if e.KeepsCPUs {
		now.setting.CPUs, now.runs = before.setting.CPUs, before.runs
		c.last[e.ID] = now
		return // No two containers get into conflict.
	}
	if e.Kind == sim.Ignored {
		now = before
		if !e.Setting.CPUs.IsEmpty() {
			now.setting.CPUs, now.runs = e.Setting.CPUs, e.Setting.CPUs
		}
	}
	c.last[e.ID] = now
	if e.Kind == sim.Lost || e.Kind == sim.Failed {
		kept := now
		kept.runs = less(now.runs, cpus(c.state(), before))
		defer func() { c.last[e.ID] = kept }() // The message itself is checked with all its CPUs.
	}
	if e.Kind == sim.Replied && e.Hook == "" {
		now.unseen = c.ListsLate
		c.last[e.ID] = now
		return
	}
	c.check(e, before, known, now)
}

// check checks one message.
func (c *Checker) check(e sim.Event, before assigned, known bool, now assigned) {
	s := c.state()
	if !s.Policy().StaticCPU {
		return
	}
	for id, other := range c.last {
		if id == e.ID || c.broken != nil || other.unseen || !conflict(s, now, other) {
			continue
		}
		if both := cpus(s, now).Intersection(cpus(s, other)); known && cpus(s, before).Contains(both) {
			continue // The overlap existed before, so this message does not cause it.
		}
		c.broken = fmt.Errorf("event %d, %s of %s/%s (%s) in %s: it has to run on %s, and %s/%s (%s) on %s: one of them owns its CPUs",
			e.Sequence, e.Kind, e.Pod, e.Container, e.ID, e.Hook, cpus(s, now), other.pod, other.container, id, cpus(s, other))
	}
}

// conflict reports whether two containers were assigned common CPUs and one of them owns its CPUs.
func conflict(s *node.State, a, b assigned) bool {
	return cpus(s, a).Intersects(cpus(s, b)) && (owns(s, a, b) || owns(s, b, a))
}

// cpus returns the CPUs on which a container can run. Without a cpuset these are all CPUs.
func cpus(s *node.State, t assigned) cpuset.Set {
	if t.runs.IsEmpty() {
		return s.Machine().AllCPUs()
	}
	return t.runs
}

// owns reports whether a container was assigned CPUs that the other container must not have. While
// its pod is being moved, these can be the CPUs of either place.
func owns(s *node.State, t, other assigned) bool {
	g, known := s.Grant(t.pod)
	if !known {
		return false
	}
	_, i := g.Pod.Container(t.container)
	if i < 0 || !t.setting.CPUs.Equal(converge.Want(s).Setting(t.pod, t.container).CPUs) &&
		!t.setting.CPUs.Equal(converge.Want(s.During(t.pod, node.MoveSwitched)).Setting(t.pod, t.container).CPUs) {
		return false
	}
	switch g.Isolation(i) {
	case node.ContainerIsolation:
		return t.pod != other.pod || !reuses(g, t.container, other.container)
	case node.PodIsolation:
		return t.pod != other.pod
	case node.HostIsolation:
	}
	return false
}

// reuses reports whether one of two containers of a pod is a standard init container, whose CPUs a
// later container may reuse.
func reuses(g *node.Grant, a, b string) bool {
	for _, name := range []string{a, b} {
		if c, i := g.Pod.Container(name); i >= 0 && c.Type == request.Init {
			return true
		}
	}
	return false
}

// AtRest returns an error for the containers whose cgroups differ from the state, or nil if none
// differs.
func AtRest(s *node.State, observed []converge.Observed) error {
	var errs []error
	wanted := converge.Want(s)
	for _, o := range observed {
		want := wanted.Setting(o.Pod, o.Container)
		if !want.CPUs.IsEmpty() && !o.CPUs.Equal(want.CPUs) {
			errs = append(errs, fmt.Errorf("%s/%s (%s) runs on %q, the state has %q", o.Pod, o.Container, o.ID, o.CPUs, want.CPUs))
		}
	}
	for _, u := range wanted.Compare(observed).Updates {
		if u.Before.CPUs.Equal(u.After.CPUs) {
			errs = append(errs, fmt.Errorf("%s/%s (%s) has memory nodes %s and quota %s, the state has %s and %s",
				u.Pod, u.Container, u.ID, u.Before.Mems, u.Before.Quota, u.After.Mems, u.After.Quota))
		}
	}
	return errors.Join(errs...)
}

// CRIO returns c with the behavior of CRI-O 1.36.
func CRIO(c sim.Config) sim.Config {
	c.Name, c.Version, c.NRIVersion = "cri-o", "1.36.1", "v0.11.0"
	c.ListsLate, c.HangsOnUpdates, c.ListFailed, c.UnknownPods = true, true, true, false
	return c
}
