package main

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	period    = 100_000
	minShares = 2
	minQuota  = 1000
	hugeName  = "hugepages-2Mi"
	hugePage  = "2MB" // as CRI and cgroup files spell it
)

// amounts are requests and limits of a pod or a container, in milli-CPUs and bytes. -1 means not
// set.
type amounts struct {
	cpuRequest, cpuLimit, memoryRequest, memoryLimit, huge int64
}

func amountsOf(r v1.ResourceRequirements) amounts {
	get := func(list v1.ResourceList, name v1.ResourceName, value func(resource.Quantity) int64) int64 {
		q, ok := list[name]
		if !ok {
			return -1
		}
		return value(q)
	}
	milli := func(q resource.Quantity) int64 { return q.MilliValue() }
	bytes := func(q resource.Quantity) int64 { return q.Value() }
	a := amounts{
		get(r.Requests, v1.ResourceCPU, milli), get(r.Limits, v1.ResourceCPU, milli),
		get(r.Requests, v1.ResourceMemory, bytes), get(r.Limits, v1.ResourceMemory, bytes),
		get(r.Limits, hugeName, bytes),
	}
	// The API server sets a missing request to the limit.
	if a.cpuRequest < 0 {
		a.cpuRequest = a.cpuLimit
	}
	if a.memoryRequest < 0 {
		a.memoryRequest = a.memoryLimit
	}
	return a
}

// podAmounts returns the pod-level amounts. Amounts that are not set there are the sum over the
// containers.
func podAmounts(pod *v1.Pod) amounts {
	sum := sumOf(pod)
	if pod.Spec.Resources == nil {
		return sum
	}
	own := amountsOf(*pod.Spec.Resources)
	for _, f := range [][2]*int64{
		{&own.cpuRequest, &sum.cpuRequest},
		{&own.cpuLimit, &sum.cpuLimit},
		{&own.memoryRequest, &sum.memoryRequest},
		{&own.memoryLimit, &sum.memoryLimit},
		{&own.huge, &sum.huge},
	} {
		if *f[0] < 0 {
			*f[0] = *f[1]
		}
	}
	return own
}

// sumOf adds up the app and sidecar containers. If the largest init container together with the
// sidecars before it needs more, it uses that. A limit is set only if every container has it.
func sumOf(pod *v1.Pod) amounts {
	fields := func(a *amounts) []*int64 {
		return []*int64{&a.cpuRequest, &a.cpuLimit, &a.memoryRequest, &a.memoryLimit, &a.huge}
	}
	var sidecars, peak, apps amounts
	endless := make([]bool, len(fields(&apps)))
	each := func(to, from *amounts) {
		for i, f := range fields(to) {
			if v := *fields(from)[i]; v > 0 {
				*f += v
			} else if i == 1 || i == 3 {
				endless[i] = true
			}
		}
	}
	for _, c := range pod.Spec.InitContainers {
		own := amountsOf(c.Resources)
		if isSidecar(c) {
			each(&sidecars, &own)
			continue
		}
		now := sidecars
		each(&now, &own)
		for i, f := range fields(&peak) {
			*f = max(*f, *fields(&now)[i])
		}
	}
	apps = sidecars
	for _, c := range pod.Spec.Containers {
		own := amountsOf(c.Resources)
		each(&apps, &own)
	}
	for i, f := range fields(&apps) {
		*f = max(*f, *fields(&peak)[i])
		if *f == 0 || endless[i] {
			*f = -1
		}
	}
	return apps
}

func isSidecar(c v1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}

// parent returns the path of the pod's cgroup, which depends on its QoS class.
func parent(pod *v1.Pod) string {
	return "/kubepods" + map[v1.PodQOSClass]string{
		v1.PodQOSGuaranteed: "", v1.PodQOSBurstable: "/burstable", v1.PodQOSBestEffort: "/besteffort",
	}[qos(pod)] + "/pod" + string(pod.UID)
}

// qos returns the QoS class. It is determined by the pod-level resources if there are any, else by
// all containers.
func qos(pod *v1.Pod) v1.PodQOSClass {
	levels := []v1.ResourceRequirements{}
	if pod.Spec.Resources != nil {
		levels = append(levels, *pod.Spec.Resources)
	} else {
		for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			levels = append(levels, c.Resources)
		}
	}
	guaranteed, asks := true, false
	for _, level := range levels {
		a := amountsOf(level)
		asks = asks || a.cpuRequest > 0 || a.memoryRequest > 0
		guaranteed = guaranteed && a.cpuLimit > 0 && a.memoryLimit > 0 && a.cpuRequest == a.cpuLimit && a.memoryRequest == a.memoryLimit
	}
	switch {
	case !asks:
		return v1.PodQOSBestEffort
	case guaranteed:
		return v1.PodQOSGuaranteed
	}
	return v1.PodQOSBurstable
}

// containerAmounts returns a container's own amounts, with the pod's limits if it has none. This is
// what a kubelet passes to the runtime.
func containerAmounts(pod *v1.Pod, c *v1.Container) amounts {
	own := amountsOf(c.Resources)
	if pod.Spec.Resources == nil {
		return own
	}
	level := amountsOf(*pod.Spec.Resources)
	if own.cpuLimit < 0 {
		own.cpuLimit = level.cpuLimit
	}
	if own.memoryLimit < 0 {
		own.memoryLimit = level.memoryLimit
	}
	if own.cpuRequest < 0 {
		own.cpuRequest = own.cpuLimit
	}
	if own.huge < 0 {
		own.huge = level.huge
	}
	return own
}

func shares(milli int64) int64 { return max(minShares, max(milli, 0)*1024/1000) }

func quota(milli int64) int64 {
	if milli <= 0 {
		return 0
	}
	return max(minQuota, milli*period/1000)
}

// linuxResources returns the resources for CRI. A limit that is not set is 0.
func linuxResources(a amounts) *runtimev1.LinuxContainerResources {
	return &runtimev1.LinuxContainerResources{
		CpuPeriod: period, CpuQuota: quota(a.cpuLimit), CpuShares: shares(a.cpuRequest), MemoryLimitInBytes: max(a.memoryLimit, 0),
		Unified: map[string]string{"memory.oom.group": "1"},
	}
}

// hugeLimits returns the limits of every page size, as a kubelet always passes them for a
// container.
func hugeLimits(a amounts) []*runtimev1.HugepageLimit {
	return []*runtimev1.HugepageLimit{{PageSize: hugePage, Limit: uint64(max(a.huge, 0))}}
}

// trim returns the text of a file without surrounding white space.
func trim(data []byte) string { return strings.TrimSpace(string(data)) }
