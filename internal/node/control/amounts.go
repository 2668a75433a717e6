package control

import (
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/quota"
	"github.com/paddock-project/paddock/internal/core/request"
)

// The constants of the kubelet's arithmetic for the CPU shares of a cgroup.
const (
	SharesPerCPU = 1024
	LeastShares  = 2
	MostShares   = 1 << 18
)

// Amounts are the numbers of a cgroup that the kubelet computes from a request. Zero means not set.
type Amounts struct {
	Shares uint64
	Quota  quota.Quota
	Memory int64
}

// amountsOf returns the amounts of a container of a Guaranteed pod. If the name is empty, it
// returns those of the pod.
func amountsOf(pod *request.Pod, container string) Amounts {
	if container == "" {
		return amountsOfPod(pod)
	}
	c, i := pod.Container(container)
	if i < 0 {
		return Amounts{}
	}
	milli := c.CPULimit
	if milli == 0 {
		milli = pod.CPULimit
	}
	memory, _ := c.Memory.Get(machine.Memory)
	return amountsFor(milli, memory)
}

// amountsOfPod returns the pod-level amounts. If the pod has none, it returns the largest sum over
// containers that run at the same time.
func amountsOfPod(pod *request.Pod) Amounts {
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

// amountsFor returns the amounts of a request that is equal to its limit.
func amountsFor(milli, memory int64) Amounts {
	a := Amounts{Quota: quota.Of(milli), Memory: memory}
	if milli > 0 {
		a.Shares = uint64(min(max(milli*SharesPerCPU/1000, LeastShares), MostShares))
	}
	return a
}

// shownIn returns a without the amounts that a message does not have.
func (a Amounts) shownIn(call Amounts) Amounts {
	if call.Shares == 0 {
		a.Shares = 0
	}
	if call.Quota == 0 {
		a.Quota = 0
	}
	if call.Memory == 0 {
		a.Memory = 0
	}
	return a
}

// about is how a message relates to the request that a pod has and to the new one in the list.
type about int

const (
	// theOld: the message has nothing of the new request.
	theOld about = iota
	// aPart and theWhole: the message has a part of what changes, or all of it.
	aPart
	theWhole
	// neither: the message has amounts of a third request.
	neither
)

// The kernel and systemd round numbers: memory to pages of at most 64 KiB, and a quota to 10 ms per
// second.
const (
	roundsMemory = 64 << 10
	roundsQuota  = 1000
)

// about compares a message with the amounts that change. The kubelet changes memory first, then
// CPUs. Shares are not exact, because the kernel stores them as weights.
func (a Amounts) about(has, wants Amounts) about {
	cpu := has.Quota != wants.Quota && a.Quota == wants.Quota || has.Shares != wants.Shares && a.Shares == wants.Shares
	memory := has.Memory != wants.Memory && a.Memory == wants.Memory
	cpuLeft := !cpu && has.Quota != wants.Quota
	memoryLeft := !memory && has.Memory != wants.Memory
	third := func(shown, has, rounds int64) bool {
		return shown != 0 && has != 0 && (shown < has-rounds || shown > has+rounds)
	}
	switch {
	case cpu && memoryLeft && a.Memory != 0:
		return neither
	case cpu && !memoryLeft, memory && !cpuLeft:
		return theWhole
	case cpu || memory:
		return aPart
	case third(a.Memory, has.Memory, roundsMemory), third(int64(a.Quota), int64(has.Quota), roundsQuota):
		return neither
	}
	return theOld
}

// grows reports whether a message about a container raises CPUs or memory that the resize also
// raises for the whole pod.
func (a Amounts) grows(has, wants, pod, podWants Amounts) bool {
	return a.Quota != 0 && a.Quota == wants.Quota && has.Quota != wants.Quota && podWants.Quota > pod.Quota ||
		a.Memory != 0 && a.Memory == wants.Memory && has.Memory != wants.Memory && podWants.Memory > pod.Memory
}
