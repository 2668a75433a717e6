package nri_test

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/containerd/nri/pkg/api"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/quota"
	"github.com/paddock-project/paddock/internal/core/request"
)

// sizes are the resources that a kubelet writes for a Guaranteed pod or one of its containers: CPU
// in thousandths and memory in bytes.
type sizes struct{ milli, memory int64 }

func (s sizes) message() *api.LinuxResources {
	return numbers(s.milli*1024/1000, s.milli*100, 100_000, s.memory)
}

// podSizes returns the sizes of the pod. containerSizes returns those of its containers, by name.
func podSizes(pod request.Pod) sizes {
	if pod.Kind == request.PodLevel {
		memory, _ := pod.BudgetMemory.Get(machine.Memory)
		return sizes{pod.CPULimit, memory}
	}
	var sum sizes
	for _, s := range containerSizes(pod) {
		sum.milli, sum.memory = sum.milli+s.milli, sum.memory+s.memory
	}
	return sum
}

func containerSizes(pod request.Pod) map[string]sizes {
	all := map[string]sizes{}
	for _, c := range pod.Containers {
		s := sizes{milli: c.CPULimit}
		if s.memory, _ = c.Memory.Get(machine.Memory); s.milli == 0 {
			s.milli = pod.CPULimit
		}
		all[c.Name] = s
	}
	return all
}

// resizing has the sizes of a pod that a kubelet has applied so far.
type resizing struct {
	pod        sizes
	containers map[string]sizes
}

// actuated returns the sizes of a pod that was just started.
func actuated(pod request.Pod) *resizing { return &resizing{podSizes(pod), containerSizes(pod)} }

// resize does what a kubelet does after it accepted a request. It applies memory, then CPUs. It
// writes the pod's cgroup before the containers if the pod grows and after them if it shrinks.
// Containers that shrink come before those that grow. The kubelet asks the runtime before each
// write. The first error ends the resize: what was applied stays, and the next call continues.
// Without a quota there is no limit, so every limit counts as more.
func (b *bench) resize(r *resizing, to request.Pod) error {
	box := b.box(to.UID)
	if err := b.resizePart(box, r, to, func(s *sizes) *int64 { return &s.memory }, false); err != nil {
		return err
	}
	b.mu.Lock()
	lifted := !b.quotas[box.GetLinux().GetCgroupParent()]
	b.mu.Unlock()
	return b.resizePart(box, r, to, func(s *sizes) *int64 { return &s.milli }, lifted)
}

// resizePart is the part of resize for memory or for CPUs.
func (b *bench) resizePart(box *api.PodSandbox, r *resizing, to request.Pod, part func(*sizes) *int64, lifted bool) error {
	pod, containers := podSizes(to), containerSizes(to)
	more := func(name string) int64 {
		want, has := containers[name], r.containers[name]
		return *part(&want) - *part(&has)
	}
	var names []string
	for _, c := range to.Containers {
		if more(c.Name) != 0 {
			names = append(names, c.Name)
		}
	}
	grows := *part(&pod) - *part(&r.pod)
	if len(names) == 0 && grows == 0 {
		return nil
	}
	if lifted || grows > 0 {
		if err := b.resizePod(box, r, pod, part); err != nil {
			return err
		}
	}
	slices.SortStableFunc(names, func(x, y string) int { return cmp.Compare(more(x), more(y)) })
	for _, name := range names {
		want, next := containers[name], r.containers[name]
		*part(&next) = *part(&want)
		if err := b.updateContainer(box, name, next); err != nil {
			return fmt.Errorf("container %s: %w", name, err)
		}
		r.containers[name] = next
	}
	if grows < 0 && !lifted {
		return b.resizePod(box, r, pod, part)
	}
	return nil
}

// resizePod asks the runtime and writes the pod's cgroup.
func (b *bench) resizePod(box *api.PodSandbox, r *resizing, to sizes, part func(*sizes) *int64) error {
	next := r.pod
	*part(&next) = *part(&to)
	if b.link != nil && !b.deafToPods {
		if err := b.plugin.UpdatePodSandbox(b.ctx, box, nil, next.message()); err != nil {
			return fmt.Errorf("the pod: %w", err)
		}
	}
	r.pod = next
	if probe := (sizes{milli: 1}); *part(&probe) == 1 { // Memory has no quota.
		b.mu.Lock()
		defer b.mu.Unlock()
		b.quotas[box.GetLinux().GetCgroupParent()] = true
	}
	return nil
}

func (b *bench) box(uid string) *api.PodSandbox {
	for _, box := range b.boxes {
		if box.GetUid() == uid {
			return box
		}
	}
	return nil
}

// updateContainer is a runtime's UpdateContainer. It asks the plugin, applies the updates of the
// other containers, and then applies the one update of the container, in which the reply overrides
// the kubelet's numbers. A container that does not run is not updated.
func (b *bench) updateContainer(box *api.PodSandbox, name string, to sizes) error {
	at := slices.IndexFunc(b.of(box.GetUid()), func(id string) bool { return b.runs[id].c.GetName() == name })
	if at < 0 {
		return nil
	}
	id := b.of(box.GetUid())[at]
	r := b.runs[id]
	var updates []*api.ContainerUpdate
	if b.link != nil {
		var err error
		if updates, err = b.plugin.UpdateContainer(b.ctx, box, r.c, to.message()); err != nil {
			return err
		}
	}
	if b.broken != nil { // The kernel rejects the container's own update.
		err := b.broken
		b.broken = nil
		b.carryOut(slices.DeleteFunc(updates, func(u *api.ContainerUpdate) bool { return u.GetContainerId() == id }))
		return err
	}
	b.mu.Lock()
	r.setting.Quota = quota.Quota(to.milli * 100)
	b.mu.Unlock()
	b.carryOut(updates)
	return nil
}
