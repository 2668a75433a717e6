package control

import (
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// The kubelet's arithmetic of a cgroup's CPU shares.
const (
	SharesPerCPU = 1024
	LeastShares  = 2
	MostShares   = 1 << 18
)

// Amounts are the numbers of a cgroup that the kubelet computes from a request; 0: not set.
type Amounts struct {
	Shares uint64
	Quota  node.Quota
	Memory int64
}

// amountsOf are those of a container of a Guaranteed pod or, with an empty name, of the pod.
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

// amountsOfPod are the pod-level amounts, or the most that containers have which run at the same
// time.
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

// amountsFor are those of a request that is equal to its limit.
func amountsFor(milli, memory int64) Amounts {
	a := Amounts{Quota: node.QuotaOf(milli), Memory: memory}
	if milli > 0 {
		a.Shares = uint64(min(max(milli*SharesPerCPU/1000, LeastShares), MostShares))
	}
	return a
}

// shownIn are the amounts that a message has too.
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

// grows reports whether a message about a container brings CPUs or memory of which its pod, too,
// has more then.
func (a Amounts) grows(has, wants, pod, podWants Amounts) bool {
	return a.Quota != 0 && a.Quota == wants.Quota && has.Quota != wants.Quota && podWants.Quota > pod.Quota ||
		a.Memory != 0 && a.Memory == wants.Memory && has.Memory != wants.Memory && podWants.Memory > pod.Memory
}
