package nri_test

import (
	"fmt"

	"github.com/containerd/nri/pkg/api"

	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/core/request"
)

// This file has the single steps that a runtime and a kubelet take for a pod. bench.run and
// bench.create take all of them.

// sandbox creates the sandbox of a pod. The error is the plugin's answer.
func (b *bench) sandbox(uid string) (*api.PodSandbox, error) {
	b.lastID++
	box := &api.PodSandbox{Id: fmt.Sprint("box-", b.lastID), Uid: uid, Name: uid, Namespace: "default", Linux: linux(b.pod(uid))}
	if text := b.texts[uid]; text != "" {
		box.Annotations = map[string]string{handover.Annotation: text, "kubernetes.io/config.source": "api"}
	}
	b.mu.Lock()
	b.quotas[box.GetLinux().GetCgroupParent()] = true
	b.mu.Unlock()
	if b.link != nil {
		if err := b.plugin.RunPodSandbox(b.ctx, box); err != nil {
			return nil, err
		}
	}
	b.boxes[box.GetId()] = box
	return box, nil
}

// pod returns a pod that is listed or hidden.
func (b *bench) pod(uid string) request.Pod {
	if pod, listed := b.source[uid]; listed {
		return pod
	}
	return b.hidden[uid]
}

// creation is a container that is being created: asked for, running, reported, started.
type creation struct {
	*bench
	box *api.PodSandbox
	running
	updates []*api.ContainerUpdate // of the other containers
}

// container returns a new container of a sandbox. The plugin does not know it yet.
func (b *bench) container(box *api.PodSandbox, name string) *creation {
	b.lastID++
	id := fmt.Sprint("c-", b.lastID)
	return &creation{bench: b, box: box, running: running{c: &api.Container{
		Id: id, PodSandboxId: box.GetId(), Name: name, CreatedAt: int64(b.lastID), State: api.ContainerState_CONTAINER_RUNNING,
		Linux: &api.LinuxContainer{CgroupsPath: "/kubepods/pod" + box.GetUid() + "/" + id},
	}}}
}

// ask asks the plugin for the container's setting.
func (c *creation) ask() error {
	adjust, updates, err := c.plugin.CreateContainer(c.ctx, c.box, c.c)
	if err != nil {
		return err
	}
	c.updates = updates
	if r := adjust.GetLinux().GetResources(); r != nil {
		c.setting = c.set(c.setting, r)
	}
	return nil
}

// runs applies the plugin's answer: the updates of other containers, then the cgroup of this one.
func (c *creation) runs() {
	c.carryOut(c.updates)
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.overlaps()
	c.bench.runs[c.c.GetId()] = &c.running
	c.noMoreThan(before)
}

// report reports to the plugin that the container is created.
func (c *creation) report() error { return c.plugin.PostCreateContainer(c.ctx, c.box, c.c) }

// start starts the container.
func (c *creation) start() error {
	if err := c.plugin.StartContainer(c.ctx, c.box, c.c); err != nil {
		return err
	}
	return c.plugin.PostStartContainer(c.ctx, c.box, c.c)
}

// remove ends a container that may never have run.
func (c *creation) remove() {
	_, err := c.plugin.StopContainer(c.ctx, c.box, c.c)
	c.broke(err)
	c.broke(c.plugin.RemoveContainer(c.ctx, c.box, c.c))
}

// end ends a pod and removes it from the source.
func (b *bench) end(uid string) {
	b.stop(uid)
	b.unlist(uid)
}

// stallDisk makes writes of the state wait until the returned function is called.
func (b *bench) stallDisk() (goOn func()) {
	stall := make(chan struct{})
	b.stall.Store(&stall)
	return func() {
		b.stall.Store(nil)
		close(stall)
	}
}

// stallUpdates makes unsolicited updates wait until the returned function is called.
func (b *bench) stallUpdates() (goOn func()) {
	l, stall := b.link, make(chan struct{})
	l.holds(stall)
	return func() {
		l.holds(nil)
		close(stall)
	}
}

// reconnect waits until the plugin has closed its connection, and connects it again.
func (b *bench) reconnect() {
	<-b.link.ended
	b.link = nil
	b.connect()
}
