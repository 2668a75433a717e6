package main

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/paddock-project/paddock/test/e2e/wire"
)

// grace is how many seconds a container may take to stop, if no test sets another time.
const grace = 5

// stopPod stops and removes the containers and the sandbox of a pod. The pod stays known.
func (k *kubelet) stopPod(in wire.PodName) (wire.Nothing, error) {
	p, err := k.find(in.UID)
	if err != nil {
		return wire.Nothing{}, err
	}
	return wire.Nothing{}, errors.Join(k.stopAll(p, grace), k.removeAll(p))
}

// remove ends a pod for good. /pods lists it as being deleted while its containers stop. The pod
// disappears from /pods after its sandbox has stopped and before the sandbox is removed.
func (k *kubelet) remove(in wire.Remove) (wire.Nothing, error) {
	p, err := k.find(in.UID)
	if err != nil {
		return wire.Nothing{}, err
	}
	seconds := int64(grace)
	if in.Grace > 0 {
		seconds = int64(in.Grace.Seconds())
	}
	k.mu.Lock()
	spec := p.spec.DeepCopy()
	spec.DeletionTimestamp, spec.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now().Add(time.Duration(seconds) * time.Second)}, &seconds
	p.spec = spec
	k.mu.Unlock()
	err = k.stopAll(p, seconds)
	k.mu.Lock()
	delete(k.pods, in.UID)
	k.mu.Unlock()
	return wire.Nothing{}, errors.Join(err, k.removeAll(p), removeCgroup(filepath.Join(cgroups, parent(p.spec))))
}

// forget removes every pod, including those of a real kubelet, and makes /pods answer.
func (k *kubelet) forget(wire.Nothing) (wire.Nothing, error) {
	k.mu.Lock()
	k.away = false
	uids := slices.Sorted(maps.Keys(k.pods))
	k.mu.Unlock()
	var all sync.WaitGroup
	errs := make([]error, len(uids))
	for i, uid := range uids {
		all.Go(func() { _, errs[i] = k.remove(wire.Remove{UID: uid}) })
	}
	all.Wait()
	return wire.Nothing{}, errors.Join(append(errs, k.removeForeign())...)
}

// removeForeign removes the sandboxes that others created, with their cgroups.
func (k *kubelet) removeForeign() error {
	ctx, cancel := context.WithTimeout(context.Background(), podTimeout)
	defer cancel()
	listed, err := k.runtime.ListPodSandbox(ctx, &runtimev1.ListPodSandboxRequest{})
	if err != nil {
		return err
	}
	var errs []error
	for _, s := range listed.Items {
		_, err := k.runtime.StopPodSandbox(ctx, &runtimev1.StopPodSandboxRequest{PodSandboxId: s.Id})
		errs = append(errs, gone(err))
		_, err = k.runtime.RemovePodSandbox(ctx, &runtimev1.RemovePodSandboxRequest{PodSandboxId: s.Id})
		errs = append(errs, gone(err))
	}
	dirs, err := containerDirs()
	for name, dir := range dirs {
		if strings.HasPrefix(name, "pod") {
			errs = append(errs, removeCgroup(dir))
		}
	}
	return errors.Join(append(errs, err)...)
}

// stopAll stops the containers and the sandbox of a pod. A container is killed after so many seconds.
func (k *kubelet) stopAll(p *pod, seconds int64) error {
	if p.sandbox == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), podTimeout)
	defer cancel()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(p.containers)) {
		_, err := k.runtime.StopContainer(ctx, &runtimev1.StopContainerRequest{ContainerId: p.containers[name], Timeout: seconds})
		errs = append(errs, gone(err))
	}
	_, err := k.runtime.StopPodSandbox(ctx, &runtimev1.StopPodSandboxRequest{PodSandboxId: p.sandbox})
	return errors.Join(append(errs, gone(err))...)
}

func (k *kubelet) removeAll(p *pod) error {
	if p.sandbox == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), podTimeout)
	defer cancel()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(p.containers)) {
		err := k.removeContainer(ctx, p.containers[name])
		errs = append(errs, gone(err))
	}
	_, err := k.runtime.RemovePodSandbox(ctx, &runtimev1.RemovePodSandboxRequest{PodSandboxId: p.sandbox})
	k.mu.Lock()
	p.sandbox, p.containers = "", nil
	k.mu.Unlock()
	return errors.Join(append(errs, gone(err))...)
}

// removeContainer removes a container that was stopped. containerd can answer a stop before its own
// state shows it, and then rejects the removal. Like a kubelet with its next sync, it stops and
// removes the container again until ctx ends.
func (k *kubelet) removeContainer(ctx context.Context, id string) error {
	for {
		_, err := k.runtime.RemoveContainer(ctx, &runtimev1.RemoveContainerRequest{ContainerId: id})
		if err == nil || gone(err) == nil || !strings.Contains(err.Error(), "still running") {
			return gone(err)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(200 * time.Millisecond):
		}
		_, err = k.runtime.StopContainer(ctx, &runtimev1.StopContainerRequest{ContainerId: id, Timeout: grace})
		if gone(err) != nil {
			return err
		}
	}
}

// removeCgroup removes a pod's cgroup, with what CRI-O leaves in it: the monitors of containers, and
// a container whose creation it did not survive. A kubelet ends such processes, too. It tries again
// while processes that are ending keep it.
func removeCgroup(dir string) error {
	var err error
	for range 100 {
		left, _ := filepath.Glob(filepath.Join(dir, "crio-*"))
		for _, name := range left { // The next attempt reports what fails.
			_ = os.WriteFile(filepath.Join(name, "cgroup.kill"), []byte("1"), 0o644)
			_ = os.Remove(name)
		}
		if err = os.Remove(dir); err == nil || errors.Is(err, os.ErrNotExist) {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}
