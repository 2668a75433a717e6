package nri

import (
	"github.com/containerd/nri/pkg/api"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// amounts are the numbers of a cgroup that the kubelet computes from a request; 0: not set.
type amounts struct {
	shares uint64
	quota  node.Quota
	memory int64
}

// amountsShown are those in a message. No CFS quota counts as not set.
func amountsShown(r *api.LinuxResources) amounts {
	a := amounts{shares: r.GetCpu().GetShares().GetValue(), memory: max(0, r.GetMemory().GetLimit().GetValue())}
	if quota, period := r.GetCpu().GetQuota().GetValue(), int64(r.GetCpu().GetPeriod().GetValue()); quota > 0 {
		if period <= 0 {
			period = node.QuotaPeriod
		}
		a.quota = node.QuotaIn(quota, period)
	}
	return a
}

// amountsOf are those of a container of a Guaranteed pod or, with an empty name, of the pod.
func amountsOf(pod *request.Pod, container string) amounts {
	if container == "" {
		return amountsOfPod(pod)
	}
	c, i := pod.Container(container)
	if i < 0 {
		return amounts{}
	}
	milli := c.CPULimit
	if milli == 0 {
		milli = pod.CPULimit
	}
	memory, _ := c.Memory.Get(machine.Memory)
	return amountsFor(milli, memory)
}

// amountsOfPod are the pod-level amounts, or the most that containers have which run at the same
// time.
func amountsOfPod(pod *request.Pod) amounts {
	if pod.Kind != request.Plain {
		memory, _ := pod.BudgetMemory.Get(machine.Memory)
		return amountsFor(pod.CPULimit, memory)
	}
	var milli, memory, mostMilli, mostMemory int64
	for i := range pod.Containers {
		c := &pod.Containers[i]
		bytes, _ := c.Memory.Get(machine.Memory)
		if c.Type == request.Init {
			mostMilli, mostMemory = max(mostMilli, milli+c.CPULimit), max(mostMemory, memory+bytes)
			continue
		}
		milli, memory = milli+c.CPULimit, memory+bytes
	}
	return amountsFor(max(milli, mostMilli), max(memory, mostMemory))
}

// amountsFor are those of a request that is equal to its limit.
func amountsFor(milli, memory int64) amounts {
	a := amounts{quota: node.QuotaOf(milli), memory: memory}
	if milli > 0 {
		a.shares = uint64(min(max(milli*sharesPerCPU/1000, leastShares), mostShares))
	}
	return a
}

// shownIn are the amounts that a message has too.
func (a amounts) shownIn(call amounts) amounts {
	if call.shares == 0 {
		a.shares = 0
	}
	if call.quota == 0 {
		a.quota = 0
	}
	if call.memory == 0 {
		a.memory = 0
	}
	return a
}

// about is what a message is about, if a pod has one request and its list another.
type about int

const (
	// theOld: it has nothing of the new request.
	theOld about = iota
	// aPart and theWhole: it has a part of what changes, or all of it.
	aPart
	theWhole
	// neither: it has amounts of a third request.
	neither
)

// The kernel and systemd round: memory to pages, of 64 KiB at most, and a quota to 10 ms in a
// second.
const (
	roundsMemory = 64 << 10
	roundsQuota  = 1000
)

// about compares a message with the amounts that change. The kubelet changes memory first, then
// CPUs; shares are not exact, because the kernel keeps weights.
func (a amounts) about(has, wants amounts) about {
	cpu := has.quota != wants.quota && a.quota == wants.quota || has.shares != wants.shares && a.shares == wants.shares
	memory := has.memory != wants.memory && a.memory == wants.memory
	cpuLeft := !cpu && has.quota != wants.quota
	memoryLeft := !memory && has.memory != wants.memory
	third := func(shown, has, rounds int64) bool {
		return shown != 0 && has != 0 && (shown < has-rounds || shown > has+rounds)
	}
	switch {
	case cpu && memoryLeft && a.memory != 0:
		return neither
	case cpu && !memoryLeft, memory && !cpuLeft:
		return theWhole
	case cpu || memory:
		return aPart
	case third(a.memory, has.memory, roundsMemory), third(int64(a.quota), int64(has.quota), roundsQuota):
		return neither
	}
	return theOld
}

// grows reports whether a message about a container brings CPUs or memory of which its pod, too,
// has more then.
func (a amounts) grows(has, wants, pod, podWants amounts) bool {
	return a.quota != 0 && a.quota == wants.quota && has.quota != wants.quota && podWants.quota > pod.quota ||
		a.memory != 0 && a.memory == wants.memory && has.memory != wants.memory && podWants.memory > pod.memory
}
