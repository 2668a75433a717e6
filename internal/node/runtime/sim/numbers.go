package sim

import (
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/request"
)

// These constants are the kubelet's, for the CPU numbers of a cgroup.
const (
	sharesPerCPU = 1024
	leastShares  = 2
	cfsPeriod    = 100_000 // µs
)

// SandboxOf returns the kubelet's request for a pod's sandbox.
func SandboxOf(pod request.Pod) Sandbox {
	class := map[request.QoS]string{request.Guaranteed: "", request.Burstable: "/burstable", request.BestEffort: "/besteffort"}
	// The pod's numbers are the pod-level resources, or the sums over the containers that run at
	// the same time. There is a limit only if each of them has one.
	var asked, limit, memory int64
	limited := true
	for _, c := range pod.Containers {
		if c.Type == request.Init {
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
	return Sandbox{
		UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name,
		CgroupParent: "/kubepods" + class[pod.QoS] + "/pod" + pod.UID, Resources: numbers(asked, limit, memory),
	}
}

// ResourcesOf returns the numbers of a container's cgroup.
func ResourcesOf(c request.Container) Resources {
	memory, _ := c.Memory.Get(machine.Memory)
	return numbers(c.CPURequest, c.CPULimit, memory)
}

// numbers returns the cgroup numbers for a request and a limit in thousandths of a CPU, 0 for none,
// and for memory in bytes.
func numbers(asked, limit, memory int64) Resources {
	r := Resources{Shares: uint64(max(asked*sharesPerCPU/1000, leastShares)), Memory: memory}
	if limit > 0 {
		r.Quota, r.Period = limit*cfsPeriod/1000, cfsPeriod
	}
	return r
}
