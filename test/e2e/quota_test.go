package e2e

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/testing/scenario"
	"github.com/paddock-project/paddock/test/e2e/vm"
	"github.com/paddock-project/paddock/test/e2e/wire"
)

// cmdBusy keeps containers of a pod busy at the same time. It reports whether the quotas of the
// pod's cgroup and of the containers' cgroups throttled them.
func (n *node) cmdBusy(ctx context.Context, c scenario.Command) ([]string, error) {
	pod, _, err := n.known(c.Args)
	if err != nil || len(c.Args) < 3 {
		return nil, fmt.Errorf("want POD DURATION CONTAINER=THREADS…: %w", err)
	}
	d, err := time.ParseDuration(c.Args[1])
	if err != nil {
		return nil, err
	}
	before, err := n.observe(ctx)
	if err != nil {
		return nil, err
	}
	var names, counts []string
	var all sync.WaitGroup
	errs := make([]error, len(c.Args))
	for i, word := range c.Args[2:] {
		name, threads, _ := strings.Cut(word, "=")
		names, counts = append(names, name), append(counts, threads)
		all.Go(func() { errs[i] = n.burn(ctx, string(pod.UID), name, threads, d) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	after, err := n.observe(ctx)
	if err != nil {
		return nil, err
	}
	lines := []string{fmt.Sprintf("pod: %s", throttledSince(podThrottling(before, pod), podThrottling(after, pod)))}
	for i, name := range names {
		then, now := throttling(before, pod, name), throttling(after, pod, name)
		text := throttledSince(then, now)
		if beyond(counts[i], now.quota) {
			text = fmt.Sprintf("quota %s, more than its threads use", now.quota)
		}
		lines = append(lines, fmt.Sprintf("%s: %s", name, text))
	}
	return lines, nil
}

// beyond reports whether a quota is larger than what so many threads can use in a period. On a busy
// host the emulator can give a CPU the time of several periods at once. This occasionally throttles
// such a container anyway.
func beyond(threads, quota string) bool {
	n, err := strconv.Atoi(threads)
	most, unlimited := strconv.Atoi(quota)
	return err == nil && unlimited == nil && n*100_000 < most
}

// podThrottling returns the throttling and the quota of the pod's cgroup.
func podThrottling(o wire.Observation, pod *v1.Pod) (found seen) {
	for _, p := range o.Pods {
		if p.UID == string(pod.UID) {
			return seen{p.Throttling, quota(p.CPUMax)}
		}
	}
	return found
}

// throttling returns the throttling and the quota of the cgroup of a running container.
func throttling(o wire.Observation, pod *v1.Pod, name string) (found seen) {
	for _, c := range containersOf(o, string(pod.UID)) {
		if c.Name == name {
			return seen{c.Throttling, quota(c.Files["cpu.max"])}
		}
	}
	return found
}

// seen is how often a cgroup has been throttled so far, with its quota.
type seen struct {
	wire.Throttling
	quota string
}

// throttledSince describes the throttling between two observations in words that do not vary
// between runs: none, in less than one period in a hundred, or more.
func throttledSince(before, after seen) string {
	periods, throttled := after.Periods-before.Periods, after.Throttled-before.Throttled
	word := "throttled"
	switch {
	case throttled == 0:
		word = "never throttled"
	case throttled*100 < periods:
		word = "throttled in under 1 % of the periods"
	}
	return fmt.Sprintf("quota %s, %s", after.quota, word)
}

func (n *node) cmdDebug(ctx context.Context, c scenario.Command) ([]string, error) {
	pod, name, err := n.known(c.Args)
	if err != nil {
		return nil, err
	}
	result, err := vm.Do[wire.RunResult](ctx, n.vm, wire.OpDebug, wire.ContainerName{UID: string(pod.UID), Name: name})
	if err != nil {
		return nil, err
	}
	if text := result.Containers[0].Error; text != "" {
		return append([]string{"container " + name + " not started"}, rejection(text)...), nil
	}
	grown := pod.DeepCopy()
	grown.Spec.EphemeralContainers = append(grown.Spec.EphemeralContainers, v1.EphemeralContainer{
		EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: name},
	})
	n.pods[pod.Name] = grown
	o, err := n.observe(ctx)
	if err != nil {
		return nil, err
	}
	return containerLines(grown, containersOf(o, string(pod.UID))), nil
}

func (n *node) cmdResize(ctx context.Context, c scenario.Command) ([]string, error) {
	pod, name, err := n.known(c.Args)
	if err != nil || len(c.Args) != 2 {
		return nil, fmt.Errorf("want POD/CONTAINER QUOTA: %w", err)
	}
	to, err := strconv.ParseInt(c.Args[1], 10, 64)
	if err != nil {
		return nil, err
	}
	if _, err := vm.Do[wire.Nothing](ctx, n.vm, wire.OpUpdate, wire.Update{
		UID: string(pod.UID), Name: name, Quota: to, Period: 100_000, Shares: 1024,
	}); err != nil {
		return nil, err
	}
	o, err := n.observe(ctx)
	if err != nil {
		return nil, err
	}
	return containerLines(pod, containersOf(o, string(pod.UID))), nil
}
