package e2e

import (
	"context"
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/test/e2e/wire"
)

// invariants returns the broken invariants of everything that runs:
//
//   - The CPUs that the kernel allows to a process are those of cpuset.cpus of its cgroup. Without an agent, they
//     are the online CPUs of that list, or the kernel's choice if none is online.
//   - The online CPUs that the PodResources API shows for a container are those of its cgroup. The container has
//     no CFS quota, and neither has its pod, except with the setting quota=kubelet. No other running container may
//     run on any of these CPUs. A container of which no CPU is online runs elsewhere, and has its quota.
//   - While an agent runs, every container has a cpuset.
func (n *node) invariants(ctx context.Context) []string {
	o, err := n.observe(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	return n.brokenIn(ctx, o)
}

func (n *node) brokenIn(ctx context.Context, o wire.Observation) []string {
	var broken []string
	for _, c := range o.Containers {
		broken = append(broken, consistent(c, o.Online, n.running)...)
	}
	if !n.running {
		return broken
	}
	assigned, err := n.assigned(ctx)
	if err != nil {
		return append(broken, err.Error())
	}
	for _, a := range assigned {
		online, err := cpuset.Parse(o.Online)
		if err != nil {
			return append(broken, err.Error())
		}
		if own := set(a.CPUs).Intersection(online); !own.IsEmpty() {
			broken = append(broken, exclusive(o, a, own)...)
			if n.settings["quota"] != "kubelet" {
				broken = append(broken, podWithout(o, a)...)
			}
		}
	}
	return broken
}

func consistent(c wire.Container, online string, agent bool) []string {
	var broken []string
	wanted := c.Files["cpuset.cpus"]
	if !agent {
		wanted = onlineOf(wanted, online)
	}
	if agent && wanted == "" {
		broken = append(broken, fmt.Sprintf("%s/%s has no cpuset", c.UID, c.Name))
	}
	if wanted == "" {
		wanted = c.Files["cpuset.cpus.effective"]
	}
	if wanted != c.AllowedCPUs {
		broken = append(broken, fmt.Sprintf("%s/%s: cpuset %s, and the process may run on %s", c.UID, c.Name, wanted, c.AllowedCPUs))
	}
	mems := c.Files["cpuset.mems"]
	if mems == "" {
		mems = c.Files["cpuset.mems.effective"]
	}
	if mems != c.AllowedMems {
		broken = append(broken, fmt.Sprintf("%s/%s: memory nodes %s, and the process may use %s", c.UID, c.Name, mems, c.AllowedMems))
	}
	return broken
}

// onlineOf returns the CPUs of a list that are online.
func onlineOf(list, online string) string {
	a, err := cpuset.Parse(list)
	if err != nil {
		return err.Error()
	}
	b, err := cpuset.Parse(online)
	if err != nil {
		return err.Error()
	}
	return a.Intersection(b).String()
}

// podWithout checks that the pod of a running container with exclusive CPUs has no quota.
func podWithout(o wire.Observation, a wire.Assigned) []string {
	uid := a.Pod + "-uid"
	runs := slices.ContainsFunc(o.Containers, func(c wire.Container) bool { return c.UID == uid && c.Name == a.Container })
	for _, p := range o.Pods {
		if q := quota(p.CPUMax); runs && p.UID == uid && q != "max" {
			return []string{fmt.Sprintf("%s/%s has CPUs of its own, and its pod the quota %s", a.Pod, a.Container, q)}
		}
	}
	return nil
}

// exclusive checks the container that a belongs to, and all others. Until this container runs, the
// standard init containers of its pod may run on its CPUs, which it lends to them (KEP-5526).
func exclusive(o wire.Observation, a wire.Assigned, own cpuset.Set) []string {
	var broken []string
	runs := slices.ContainsFunc(o.Containers, func(c wire.Container) bool { return c.UID == a.Pod+"-uid" && c.Name == a.Container })
	for _, c := range o.Containers {
		if !runs && c.UID == a.Pod+"-uid" {
			continue
		}
		allowed, err := cpuset.Parse(c.AllowedCPUs)
		if err != nil {
			return []string{err.Error()}
		}
		if c.UID == a.Pod+"-uid" && c.Name == a.Container {
			if !allowed.Equal(own) {
				broken = append(broken, fmt.Sprintf("%s/%s: the API shows %s, the process may run on %s", a.Pod, a.Container, own, allowed))
			}
			if q := quota(c.Files["cpu.max"]); q != "max" {
				broken = append(broken, fmt.Sprintf("%s/%s has CPUs of its own and the quota %s", a.Pod, a.Container, q))
			}
			continue
		}
		if allowed.Intersects(own) {
			broken = append(broken, fmt.Sprintf("%s of %s may run on %s, of which %s belong to %s/%s", c.Name, c.UID, allowed, own.Intersection(allowed), a.Pod, a.Container))
		}
	}
	return broken
}
