package sim

import (
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/request"
)

// The kubelet's arithmetic of a cgroup's CPU numbers.
const (
	sharesPerCPU = 1024
	leastShares  = 2
	cfsPeriod    = 100_000 // µs
)

// SandboxOf is what a kubelet asks a runtime for to run a pod.
func SandboxOf(pod request.Pod) Sandbox {
	class := map[request.QoS]string{request.Guaranteed: "", request.Burstable: "/burstable", request.BestEffort: "/besteffort"}
	return Sandbox{
		UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name,
		CgroupParent: "/kubepods" + class[pod.QoS] + "/pod" + pod.UID, Resources: podResources(pod),
	}
}

// ResourcesOf are the numbers of a container's cgroup.
func ResourcesOf(c request.Container) Resources {
	memory, _ := c.Memory.Get(machine.Memory)
	return numbers(c.CPURequest, c.CPULimit, memory)
}

// podResources are the numbers of a pod's cgroup: the pod-level ones, or the sums of the containers that run at the
// same time. It has a limit if each of them has one.
func podResources(pod request.Pod) Resources {
	var asked, limit, memory int64
	limited := true
	for _, c := range pod.Containers {
		if c.Lane == request.Init {
			continue
		}
		bytes, _ := c.Memory.Get(machine.Memory)
		asked, limit, memory = asked+c.CPURequest, limit+c.CPULimit, memory+bytes
		limited = limited && c.CPULimit > 0
	}
	if !limited {
		limit = 0
	}
	if pod.Kind != request.Plain {
		asked, limit = max(asked, pod.BudgetCPUMilli), pod.CPULimit
		if bytes, there := pod.BudgetMemory.Get(machine.Memory); there {
			memory = bytes
		}
	}
	return numbers(asked, limit, memory)
}

// numbers are those of a request and a limit in thousandths of a CPU, 0 for none.
func numbers(asked, limit, memory int64) Resources {
	r := Resources{Shares: uint64(max(asked*sharesPerCPU/1000, leastShares)), Memory: memory}
	if limit > 0 {
		r.Quota, r.Period = limit*cfsPeriod/1000, cfsPeriod
	}
	return r
}
