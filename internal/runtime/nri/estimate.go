package nri

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"path"
	"strings"

	"github.com/containerd/nri/pkg/api"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// The kubelet's arithmetic of a cgroup's CPU shares.
const (
	sharesPerCPU = 1024
	leastShares  = 2
	mostShares   = 1 << 18
)

// The periods of a CFS quota that the kernel takes, in microseconds.
const (
	leastPeriod = 1_000
	mostPeriod  = 1_000_000
)

// asked is what a pod asks for, and how that is known.
type asked struct {
	pod request.Pod
	// unlisted is why the source of pods does not say it: then the request is estimated; nil: it says it.
	unlisted error
	// doubt is why the numbers of an estimate cannot be believed: the pod holds nothing.
	doubt error
}

// lookup asks the source of pods.
func (p *Plugin) lookup(ctx context.Context, sandbox *api.PodSandbox) (asked, error) {
	begin := p.config.Now()
	pod, err := p.config.Pods.Lookup(ctx, sandbox.GetUid())
	p.config.Observer.Asked(p.config.Now().Sub(begin))
	return asked{pod: pod}, err
}

// lookupOrEstimate asks the source of pods and, only where that has no answer and Config.Estimate
// agrees, reads the numbers of the pod's cgroup. Who asked and has gone meanwhile gets no estimate.
func (p *Plugin) lookupOrEstimate(ctx context.Context, sandbox *api.PodSandbox) (asked, error) {
	a, err := p.lookup(ctx, sandbox)
	if err == nil || p.config.Estimate == nil || !p.config.Estimate(err) || errors.Is(ctx.Err(), context.Canceled) {
		return a, err
	}
	a.unlisted = err
	a.pod, a.doubt = estimate(sandbox, p.config.Engine.State())
	return a, nil
}

// reportEstimate logs what the estimate of an admitted pod was made of.
func (p *Plugin) reportEstimate(ctx context.Context, a asked, g *node.Grant) {
	log := p.config.Log.With("pod", a.pod.ID(), "uid", a.pod.UID, "why", a.unlisted, "qos", a.pod.QoS.String())
	if a.doubt != nil {
		log.WarnContext(ctx, "the pod's request is estimated from cgroup numbers: in doubt it has no assignment and runs on the node shared pool", "doubt", a.doubt)
		return
	}
	log.WarnContext(ctx, "the pod's request is estimated from cgroup numbers", "cpu_milli", a.pod.BudgetCPUMilli, "memory", a.pod.BudgetMemory.String(), "pool", g.Pool.String())
}

// estimate is what a pod asks for, as far as the numbers of its cgroup tell: a Guaranteed pod asks for
// them as a whole where the policy has pools, any other for nothing of its own. NRI tells neither
// pod-level from container-level resources nor which containers qualify for CPUs of their own, so none does.
// The error says why the numbers cannot be believed: then the pod asks for nothing of its own.
func estimate(sandbox *api.PodSandbox, s *node.State) (request.Pod, error) {
	pod := request.Pod{
		UID: sandbox.GetUid(), Namespace: sandbox.GetNamespace(), Name: sandbox.GetName(), Estimated: true,
		Containers: []request.Container{{Name: request.AnyContainer, Lane: request.App, Sharing: request.Estimated}},
	}
	shown := sandbox.GetLinux().GetPodResources()
	var err error
	if pod.QoS, err = qosOf(sandbox.GetLinux().GetCgroupParent()); err != nil || pod.QoS != request.Guaranteed {
		return pod, err
	}
	milli, limit, err := cpuOf(shown.GetCpu(), s.Machine().AllCPUs().Len())
	if err != nil {
		return pod, err
	}
	memory, err := memoryOf(shown, s.Machine())
	if err != nil || !s.Policy().PodLevelManagers {
		return pod, err
	}
	pod.Kind, pod.BudgetCPUMilli, pod.CPULimit, pod.BudgetMemory = request.PodLevel, milli, limit, memory
	if milli%1000 == 0 {
		pod.BudgetCPUs = int(milli / 1000)
	}
	return pod, nil
}

// qosOf reads the class of a pod from the name of its cgroup, as the kubelet makes it with the driver
// cgroupfs, "/kubepods/burstable/podUID", or systemd, "kubepods-burstable-podUID.slice". With an error the
// class is Burstable, of which nothing follows.
func qosOf(parent string) (request.QoS, error) {
	levels := strings.Split(strings.Trim(parent, "/"), "/")
	if slice, is := strings.CutSuffix(path.Base(parent), ".slice"); is {
		levels = strings.Split(slice, "-")
	}
	above := func(n int) string { // the name n levels above the pod's
		if at := len(levels) - 1 - n; at >= 0 {
			return levels[at]
		}
		return ""
	}
	switch {
	case !strings.HasPrefix(above(0), "pod"):
	case above(1) == "kubepods":
		return request.Guaranteed, nil
	case above(1) == "burstable" && above(2) == "kubepods":
		return request.Burstable, nil
	case above(1) == "besteffort" && above(2) == "kubepods":
		return request.BestEffort, nil
	}
	return request.Burstable, fmt.Errorf("its cgroup %q is not named as the kubelet names one", parent)
}

// cpuOf reads the CPU request and limit of a Guaranteed pod, which are the same, in thousandths. most is how
// many CPUs there are. The limit is 0 where the kubelet writes no quota.
func cpuOf(cpu *api.LinuxCPU, most int) (milli, limit int64, err error) {
	shares, quota, period := cpu.GetShares().GetValue(), cpu.GetQuota().GetValue(), cpu.GetPeriod().GetValue()
	switch {
	case shares < leastShares || shares > mostShares:
		return 0, 0, fmt.Errorf("its CPU shares are %d, which is no request", shares)
	case quota == 0 || quota == int64(node.NoQuota):
		if shares == mostShares {
			return 0, 0, fmt.Errorf("its CPU shares are %d, which is any request from %d CPUs, and it has no CFS quota", shares, mostShares/sharesPerCPU)
		}
		milli = (int64(shares)*1000 + sharesPerCPU - 1) / sharesPerCPU
	case quota < 0 || period < leastPeriod || period > mostPeriod || quota > int64(most)*int64(period):
		return 0, 0, fmt.Errorf("its CFS quota is %d in %d µs, which no %d CPUs have", quota, period, most)
	default:
		limit = (quota*1000 + int64(period) - 1) / int64(period)
		milli = limit
		if of := min(max(milli*sharesPerCPU/1000, leastShares), mostShares); of != int64(shares) {
			return 0, 0, fmt.Errorf("its CPU shares are %d and its CFS quota %d in %d µs, which would go with %d shares in a Guaranteed pod", shares, quota, period, of)
		}
	}
	if milli > int64(most)*1000 {
		return 0, 0, fmt.Errorf("its CPU shares are %d, which is more than the machine's %d CPUs", shares, most)
	}
	return milli, limit, nil
}

// memoryOf reads the memory and the huge pages that a Guaranteed pod is limited to. A size may be told
// several times, as containerd does after an update.
func memoryOf(shown *api.LinuxResources, m *machine.Machine) (request.Amounts, error) {
	there := totals(m)
	limit := shown.GetMemory().GetLimit().GetValue()
	if most, _ := there.Get(machine.Memory); limit <= 0 || limit > most {
		return nil, fmt.Errorf("its memory limit is %d bytes, which no Guaranteed pod has on a machine of %d", limit, most)
	}
	memory := request.Amounts{{Resource: machine.Memory, Value: limit}}
	for _, pages := range shown.GetHugepageLimits() {
		if pages.GetLimit() == 0 {
			continue
		}
		name := hugePageType(pages.GetPageSize())
		most, known := there.Get(name)
		if !known || pages.GetLimit() > uint64(most) {
			return nil, fmt.Errorf("it is limited to %d bytes of huge pages of size %q, of which the machine has %d", pages.GetLimit(), pages.GetPageSize(), most)
		}
		if before, told := memory.Get(name); told && before != int64(pages.GetLimit()) {
			return nil, fmt.Errorf("it is limited to %d and to %d bytes of %s", before, pages.GetLimit(), name)
		}
		memory = memory.With(name, int64(pages.GetLimit()))
	}
	return memory, nil
}

// totals are what the machine has of every type of memory, in bytes.
func totals(m *machine.Machine) request.Amounts {
	var all request.Amounts
	add := func(name string, bytes int64) {
		before, _ := all.Get(name)
		all = all.With(name, before+bytes)
	}
	for _, n := range m.Nodes() {
		add(machine.Memory, n.Memory)
		for _, pages := range n.HugePages {
			add(machine.HugePageType(pages.SizeKiB), pages.Count*pages.SizeKiB*1024)
		}
	}
	return all
}

// hugePageType is the resource of a page size as the kubelet writes it for a runtime, "2MB"; empty if it is
// none.
func hugePageType(size string) request.Resource {
	var number uint32
	var unit, rest string
	if n, _ := fmt.Sscanf(size, "%d%s%s", &number, &unit, &rest); n != 2 || bits.OnesCount32(number) != 1 {
		return ""
	}
	for at, name := range []string{"KB", "MB", "GB", "TB"} {
		if unit == name {
			return machine.HugePageType(int64(number) << (10 * at))
		}
	}
	return ""
}
