package e2e

import (
	"context"
	"fmt"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/test/e2e/wire"
)

// invariants are broken rules, of all that runs:
//
//   - what the kernel lets a process run on is what its cgroup asks for;
//   - the CPUs that the PodResources API shows for a container are those of its cgroup, it has no quota,
//     and no other container that runs may run on any of them;
//   - beside an agent no container is without a cpuset.
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
		broken = append(broken, consistent(c, n.running)...)
	}
	if !n.running {
		return broken
	}
	assigned, err := n.assigned(ctx)
	if err != nil {
		return append(broken, err.Error())
	}
	for _, a := range assigned {
		if own := set(a.CPUs); !own.IsEmpty() {
			broken = append(broken, exclusive(o, a, own)...)
		}
	}
	return broken
}

func consistent(c wire.Container, agent bool) []string {
	var broken []string
	wanted := c.Files["cpuset.cpus"]
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

// exclusive looks at the container that a belongs to, and at all others.
func exclusive(o wire.Observation, a wire.Assigned, own cpuset.Set) []string {
	var broken []string
	for _, c := range o.Containers {
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
