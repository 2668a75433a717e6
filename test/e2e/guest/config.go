package main

import (
	"fmt"
	"strconv"

	v1 "k8s.io/api/core/v1"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/paddock-project/paddock/test/e2e/wire"
)

// podLimits returns the files that a kubelet writes into a pod's cgroup, with their values.
func podLimits(pod *v1.Pod) map[string]string {
	a := podAmounts(pod)
	limits := map[string]string{
		"cpu.max": fmt.Sprintf("max %d", period), "cpu.weight": strconv.FormatInt(weight(shares(a.cpuRequest)), 10),
		"memory.max": "max", "hugetlb." + hugePage + ".max": strconv.FormatInt(max(a.huge, 0), 10),
	}
	if q := quota(a.cpuLimit); q > 0 {
		limits["cpu.max"] = fmt.Sprintf("%d %d", q, period)
	}
	if a.memoryLimit > 0 {
		limits["memory.max"] = strconv.FormatInt(a.memoryLimit, 10)
	}
	return limits
}

// weight converts CPU shares to the cpu.weight of cgroup v2.
func weight(shares int64) int64 { return 1 + (shares-2)*9999/262142 }

func sandboxConfig(p *pod) *runtimev1.PodSandboxConfig {
	pod := p.spec
	a := podAmounts(pod)
	namespaces := &runtimev1.NamespaceOption{Network: runtimev1.NamespaceMode_NODE, Pid: runtimev1.NamespaceMode_CONTAINER, Ipc: runtimev1.NamespaceMode_POD}
	uid := string(pod.UID)
	return &runtimev1.PodSandboxConfig{
		Metadata:     &runtimev1.PodSandboxMetadata{Name: pod.Name, Namespace: pod.Namespace, Uid: uid, Attempt: p.attempt},
		LogDirectory: fmt.Sprintf("/var/log/pods/%s_%s_%s", pod.Namespace, pod.Name, uid),
		Labels: map[string]string{
			"io.kubernetes.pod.name": pod.Name, "io.kubernetes.pod.namespace": pod.Namespace, labelUID: uid,
		},
		Annotations: map[string]string{"kubernetes.io/config.seen": "2026-11-21T05:53:22.832989084Z", "kubernetes.io/config.source": "api"},
		Linux: &runtimev1.LinuxPodSandboxConfig{
			CgroupParent:    parent(pod),
			SecurityContext: &runtimev1.LinuxSandboxSecurityContext{NamespaceOptions: namespaces},
			Overhead:        &runtimev1.LinuxContainerResources{},
			Resources:       linuxResources(a),
		},
	}
}

func containerConfig(p *pod, c *v1.Container) *runtimev1.ContainerConfig {
	a := containerAmounts(p.spec, c)
	resources := linuxResources(a)
	resources.MemorySwapLimitInBytes = resources.MemoryLimitInBytes
	resources.Unified["memory.swap.max"] = "0"
	resources.HugepageLimits = hugeLimits(a)
	attempt := p.attempts[c.Name]
	labels := map[string]string{labelContainer: c.Name}
	for key, value := range p.config.Labels {
		labels[key] = value
	}
	return &runtimev1.ContainerConfig{
		Metadata: &runtimev1.ContainerMetadata{Name: c.Name, Attempt: attempt},
		Image:    &runtimev1.ImageSpec{Image: wire.Image, UserSpecifiedImage: wire.Image},
		Command:  []string{"/pause"},
		Args:     c.Args,
		LogPath:  fmt.Sprintf("%s/%d.log", c.Name, attempt),
		Labels:   labels,
		Annotations: map[string]string{
			"io.kubernetes.container.restartCount": strconv.FormatUint(uint64(attempt), 10), "io.kubernetes.pod.terminationGracePeriod": "1",
		},
		Linux: &runtimev1.LinuxContainerConfig{
			Resources:       resources,
			SecurityContext: &runtimev1.LinuxContainerSecurityContext{NamespaceOptions: p.config.Linux.SecurityContext.NamespaceOptions},
		},
	}
}
