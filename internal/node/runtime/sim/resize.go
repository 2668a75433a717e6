package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/core/request"
)

// number is one number of a cgroup that a resize changes.
type number struct {
	get func(Resources) int64
	set func(r *Resources, to Resources)
}

// These are the numbers that a kubelet writes one by one. Without a quota there is no limit.
var (
	memoryLimit = number{func(r Resources) int64 { return r.Memory }, func(r *Resources, to Resources) { r.Memory = to.Memory }}
	cpuLimit    = number{func(r Resources) int64 { return cmp.Or(max(r.Quota, 0), -1) }, func(r *Resources, to Resources) { r.Quota, r.Period = to.Quota, to.Period }}
	cpuRequest  = number{func(r Resources) int64 { return int64(r.Shares) }, func(r *Resources, to Resources) { r.Shares = to.Shares }}
)

// resize changes the numbers of a running pod, as a kubelet does after it accepted them. It changes
// memory, then CPUs. It writes the pod's cgroup before the containers if the pod grows, limits
// first, and after them if it shrinks. It asks the runtime before each write. The first error ends
// the resize; a later try continues it. The caller has busy.
func (k *Kubelet) resize(ctx context.Context, p *pod, asked request.Pod) error {
	return errors.Join(k.resizePart(ctx, p, asked, memoryLimit), k.resizePart(ctx, p, asked, cpuLimit, cpuRequest))
}

// resizePart changes the given numbers in their order.
func (k *Kubelet) resizePart(ctx context.Context, p *pod, asked request.Pod, numbers ...number) error {
	to, changes := SandboxOf(asked).Resources, []request.Container{}
	more := func(c request.Container) int64 {
		return numbers[0].get(ResourcesOf(c)) - numbers[0].get(p.actuated[c.Name])
	}
	for _, c := range asked.Containers {
		if p.ids[c.Name] != "" && slices.ContainsFunc(numbers, func(n number) bool { return n.get(ResourcesOf(c)) != n.get(p.actuated[c.Name]) }) {
			changes = append(changes, c)
		}
	}
	if len(changes) == 0 {
		return nil
	}
	has := k.runtime.podResources(p.sandbox)
	pod := func(n number) error { return k.runtime.resizePod(ctx, p.sandbox, n, to) }
	for _, n := range numbers {
		if n.get(to) > n.get(has) {
			if err := pod(n); err != nil {
				return err
			}
		}
	}
	slices.SortStableFunc(changes, func(a, b request.Container) int { return cmp.Compare(more(a), more(b)) })
	for _, c := range changes {
		next := p.actuated[c.Name]
		for _, n := range numbers {
			n.set(&next, ResourcesOf(c))
		}
		if err := k.runtime.UpdateContainer(ctx, p.ids[c.Name], next); err != nil {
			return fmt.Errorf("resize: %w", err)
		}
		p.actuated[c.Name] = next
	}
	for _, n := range slices.Backward(numbers) {
		if n.get(to) < n.get(has) {
			if err := pod(n); err != nil {
				return err
			}
		}
	}
	return nil
}

// podResources returns the numbers of a sandbox's pod cgroup.
func (r *Runtime) podResources(id string) Resources {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.sandboxes[id]; s != nil && r.parents[s.asked.CgroupParent] != nil {
		return *r.parents[s.asked.CgroupParent]
	}
	return Resources{}
}

// resizePod asks the runtime about one changed number of a pod, together with the present numbers,
// and then writes it to the pod's cgroup, as the kubelet itself does.
func (r *Runtime) resizePod(ctx context.Context, id string, n number, to Resources) error {
	next := r.podResources(id)
	n.set(&next, to)
	if err := r.UpdatePodSandbox(ctx, id, next); err != nil {
		return fmt.Errorf("resize rejected: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.sandboxes[id]; s != nil && r.parents[s.asked.CgroupParent] != nil {
		n.set(r.parents[s.asked.CgroupParent], to)
	}
	return nil
}
