// Package simtest has the invariants that every history of a simulated runtime must keep, whatever goes wrong in it.
// It is for tests.
package simtest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/runtime/sim"
)

// Checker watches what a plugin tells a runtime. After every message it holds that no container is told to run on CPUs
// that another container owns, as told so far: what was told counts also when the runtime lost it, failed, or ignored
// it, since the plugin did what it could. Containers that were created without a plugin are not its fault; they count
// as running everywhere until they are told something.
type Checker struct {
	state func() *node.State

	mu     sync.Mutex
	told   map[string]told
	events int
	broken error
}

// told is what a container was told last.
type told struct {
	pod, container string
	setting        converge.Setting
	// runs is where it can run at most: what it was told, less what it did not get of that because the message was
	// lost or failed. The plugin sees that in the cgroup and need not take it off CPUs that it never got.
	runs cpuset.Set
}

// less is what is left of one set in another one; all of it if that is nothing.
func less(all, in cpuset.Set) cpuset.Set {
	if both := all.Intersection(in); !both.IsEmpty() {
		return both
	}
	return all
}

// NewChecker is a checker that asks state who owns what.
func NewChecker(state func() *node.State) *Checker {
	return &Checker{state: state, told: map[string]told{}}
}

// Err is the first promise that was broken; nil: none was.
func (c *Checker) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.broken
}

// Events is how many events were seen.
func (c *Checker) Events() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.events
}

// Observe is sim.Config.Observe.
func (c *Checker) Observe(e sim.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events++
	before, known := c.told[e.ID]
	switch e.Kind {
	case sim.Undone, sim.Stopped:
		delete(c.told, e.ID)
		return
	case sim.Drifted:
		if known {
			before.runs = less(cpus(c.state(), before), e.Setting.CPUs)
			c.told[e.ID] = before
		}
		return
	case sim.Created:
		return
	case sim.Replied, sim.Updated, sim.Lost, sim.Failed, sim.Ignored:
	}
	if e.Kind != sim.Replied && (!known || e.Hook == "") {
		return // It has ended, or the kubelet updates it without a plugin.
	}
	now := told{pod: e.Pod, container: e.Container, setting: e.Setting, runs: e.Setting.CPUs}
	if e.KeepsCPUs {
		now.setting.CPUs, now.runs = before.setting.CPUs, before.runs
		c.told[e.ID] = now
		return // It brings no two containers together.
	}
	if e.Kind == sim.Ignored {
		now = before
		if !e.Setting.CPUs.IsEmpty() {
			now.setting.CPUs, now.runs = e.Setting.CPUs, e.Setting.CPUs
		}
	}
	c.told[e.ID] = now
	if e.Kind == sim.Lost || e.Kind == sim.Failed {
		kept := now
		kept.runs = less(now.runs, cpus(c.state(), before))
		defer func() { c.told[e.ID] = kept }() // The message itself is held to all that it says.
	}
	if e.Kind == sim.Replied && e.Hook == "" {
		return
	}
	c.check(e, before, known, now)
}

// check holds one message to the promise.
func (c *Checker) check(e sim.Event, before told, known bool, now told) {
	s := c.state()
	if !s.Policy().StaticCPU {
		return
	}
	for id, other := range c.told {
		if id == e.ID || c.broken != nil || !conflict(s, now, other) {
			continue
		}
		if both := cpus(s, now).Intersection(cpus(s, other)); known && cpus(s, before).Contains(both) {
			continue // It was there before: this message does not bring them together.
		}
		c.broken = fmt.Errorf("event %d, %s of %s/%s (%s) in %s: it is told to run on %s, and %s/%s (%s) was told %s: one of them owns its CPUs",
			e.Sequence, e.Kind, e.Pod, e.Container, e.ID, e.Hook, cpus(s, now), other.pod, other.container, id, cpus(s, other))
	}
}

// conflict tells whether two containers were told to run on some of the same CPUs, which one of them owns.
func conflict(s *node.State, a, b told) bool {
	return cpus(s, a).Intersects(cpus(s, b)) && (owns(s, a, b) || owns(s, b, a))
}

// cpus are those that a container runs on as told; without a cpuset all of them.
func cpus(s *node.State, t told) cpuset.Set {
	if t.runs.IsEmpty() {
		return s.Machine().AllCPUs()
	}
	return t.runs
}

// owns tells whether a container has CPUs that are not the other one's, and was told so.
func owns(s *node.State, t, other told) bool {
	g, known := s.Grant(t.pod)
	if !known {
		return false
	}
	_, i := g.Pod.Container(t.container)
	if i < 0 || !t.setting.CPUs.Equal(converge.Desired(s, g, i).CPUs) {
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

// reuses tells whether one of two containers of a pod is a standard init container, whose CPUs a later one has again.
func reuses(g *node.Grant, a, b string) bool {
	for _, name := range []string{a, b} {
		if c, i := g.Pod.Container(name); i >= 0 && c.Lane == request.Init {
			return true
		}
	}
	return false
}

// AtRest says what does not run as the state has it, of containers as their cgroups show them; nil: nothing.
func AtRest(s *node.State, observed []converge.Observed) error {
	var errs []error
	for _, o := range observed {
		want := converge.DesiredFor(s, o.Pod, o.Container)
		if !want.CPUs.IsEmpty() && !o.CPUs.Equal(want.CPUs) {
			errs = append(errs, fmt.Errorf("%s/%s (%s) runs on %q, the state has %q", o.Pod, o.Container, o.ID, o.CPUs, want.CPUs))
		}
	}
	for _, u := range converge.Compare(s, observed).Updates {
		if u.Before.CPUs.Equal(u.After.CPUs) {
			errs = append(errs, fmt.Errorf("%s/%s (%s) has memory nodes %s and quota %s, the state has %s and %s",
				u.Pod, u.Container, u.ID, u.Before.Mems, u.Before.Quota, u.After.Mems, u.After.Quota))
		}
	}
	return errors.Join(errs...)
}
