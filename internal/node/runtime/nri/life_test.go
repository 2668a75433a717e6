package nri_test

import (
	"maps"
	"slices"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/request"
)

// run starts a pod as a runtime does: the sandbox, then the containers. Standard init containers
// end before the next container starts. Without a connection no plugin is asked.
func (b *bench) run(uid string) error {
	box, err := b.sandbox(uid)
	if err != nil {
		return err
	}
	for _, c := range b.pod(uid).Containers {
		id, err := b.create(box, c.Name)
		if err != nil {
			return err
		}
		if c.Type == request.Init {
			b.exit(id)
		}
	}
	return nil
}

// linux returns what a runtime shows of the cgroup that a kubelet creates for a pod of whole CPUs.
func linux(pod request.Pod) *api.LinuxPodSandbox {
	var cpus, memory int64
	for _, c := range pod.Containers {
		bytes, _ := c.Memory.Get(machine.Memory)
		cpus, memory = cpus+int64(c.CPUs), memory+bytes
	}
	if pod.QoS != request.Guaranteed {
		return &api.LinuxPodSandbox{CgroupParent: "/kubepods/burstable/pod" + pod.UID, PodResources: numbers(2, 0, 0, memory)}
	}
	return &api.LinuxPodSandbox{CgroupParent: "/kubepods/pod" + pod.UID, PodResources: numbers(1024*cpus, 100_000*cpus, 100_000, memory)}
}

// numbers returns the numbers of a cgroup as a runtime shows them. A quota or memory limit of 0 is
// not shown.
func numbers(shares, quota, period, memory int64) *api.LinuxResources {
	r := &api.LinuxResources{Memory: &api.LinuxMemory{}, Cpu: &api.LinuxCPU{Shares: api.UInt64(uint64(shares))}}
	if quota != 0 {
		r.Cpu.Quota, r.Cpu.Period = api.Int64(quota), api.UInt64(uint64(period))
	}
	if memory != 0 {
		r.Memory.Limit = api.Int64(memory)
	}
	return r
}

// create creates and starts a container.
func (b *bench) create(box *api.PodSandbox, name string) (string, error) {
	c := b.container(box, name)
	if b.link == nil {
		c.runs()
		return c.c.GetId(), nil
	}
	if err := c.ask(); err != nil {
		return c.c.GetId(), err
	}
	if b.fail != nil && b.fail() {
		b.broke(b.plugin.RemoveContainer(b.ctx, box, c.c))
		return b.create(box, name)
	}
	c.runs()
	if err := c.report(); err != nil {
		return c.c.GetId(), err
	}
	return c.c.GetId(), c.start()
}

// exit ends a container.
func (b *bench) exit(id string) {
	b.mu.Lock()
	r := b.runs[id]
	delete(b.runs, id)
	b.mu.Unlock()
	if b.link == nil {
		return
	}
	box := b.boxes[r.c.GetPodSandboxId()]
	updates, err := b.plugin.StopContainer(b.ctx, box, r.c)
	b.broke(err)
	b.carryOut(updates)
	b.broke(b.plugin.RemoveContainer(b.ctx, box, r.c))
}

// stop ends a pod's containers and its sandbox.
func (b *bench) stop(uid string) {
	for _, id := range b.of(uid) {
		b.exit(id)
	}
	for _, id := range slices.Sorted(maps.Keys(b.boxes)) {
		box := b.boxes[id]
		if box.GetUid() != uid {
			continue
		}
		delete(b.boxes, id)
		if b.link != nil {
			b.broke(b.plugin.StopPodSandbox(b.ctx, box))
			b.broke(b.plugin.RemovePodSandbox(b.ctx, box))
		}
	}
}

// of returns the IDs of a pod's containers.
func (b *bench) of(uid string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var ids []string
	for id, r := range b.runs {
		if b.boxes[r.c.GetPodSandboxId()].GetUid() == uid {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// guaranteed returns a pod with an exclusive container, app, of the given number of CPUs and a
// container that shares CPUs, log.
func guaranteed(uid string, cpus int) request.Pod {
	memory := request.Amounts{{Resource: machine.Memory, Value: 64 << 20}}
	return request.Pod{Identity: request.Identity{UID: uid, Namespace: "default", Name: uid}, Ask: request.Ask{QoS: request.Guaranteed, Containers: []request.Container{
		{Name: "app", Type: request.App, CPUs: cpus, CPULimit: int64(cpus) * 1000, Memory: memory, Equivalent: true},
		{Name: "log", Type: request.App, Sharing: request.FractionalCPU, Memory: memory, Equivalent: true},
	}}}
}

func burstable(uid string) request.Pod {
	return request.Pod{Identity: request.Identity{UID: uid, Namespace: "default", Name: uid}, Ask: request.Ask{QoS: request.Burstable, Containers: []request.Container{
		{Name: "web", Type: request.App, Sharing: request.QoSNotGuaranteed},
	}}}
}

// hide adds pods that the source does not list.
func (b *bench) hide(all ...request.Pod) {
	for _, p := range all {
		b.hidden[p.UID] = p
	}
}

// unlist removes a pod from the source.
func (b *bench) unlist(uid string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.source, uid)
}

// list adds pods to the source.
func (b *bench) list(all ...request.Pod) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range all {
		b.source[p.UID] = p
	}
}

// grace returns a time after which a pod loses its grant if no source can report on it.
func (b *bench) grace() time.Duration { return 31 * time.Second }
