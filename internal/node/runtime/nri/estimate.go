package nri

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"path"
	"strings"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/quota"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/control"
)

// leastPeriod and mostPeriod limit the period of a CFS quota that the kernel accepts, in
// microseconds.
const (
	leastPeriod = 1_000
	mostPeriod  = 1_000_000
)

// find asks for the request of a pod that starts. It reads the numbers of the pod's cgroup only if
// the source of pods has no answer and Config.Estimate agrees.
func (p *Plugin) find(ctx context.Context, a control.Admission) control.Found {
	sandbox, _ := a.Shown.(*api.PodSandbox)
	pod, err := p.lookup(ctx, sandbox, a.Until.Sub(p.config.Now()))
	found := control.Found{Of: a, Pod: pod, Err: err}
	if err != nil && p.config.Estimate != nil && p.config.Estimate(err) && !errors.Is(ctx.Err(), context.Canceled) {
		found.Unlisted, found.Err = err, nil
		found.Pod, found.Doubt = estimate(sandbox, p.config.Engine.State())
	}
	return found
}

// findAll asks for the requests of running pods, one after the other.
func (p *Plugin) findAll(ctx context.Context, a control.Adoption, limit time.Duration) control.AllFound {
	found := control.AllFound{Of: a, Pods: make([]request.Pod, len(a.Boxes)), Errs: make([]error, len(a.Boxes))}
	for i, box := range a.Boxes {
		namespace, name, _ := strings.Cut(box.Who, "/")
		found.Pods[i], found.Errs[i] = p.lookup(ctx, &api.PodSandbox{Uid: box.Pod, Namespace: namespace, Name: name}, limit)
	}
	return found
}

// lookup asks the source of pods for a pod and, in parallel, asks Config.Devices for the devices
// that were allocated to it. It waits for the devices only if the pod asks for some, and for at
// most half of limit, the time that the caller has.
func (p *Plugin) lookup(ctx context.Context, sandbox *api.PodSandbox, limit time.Duration) (request.Pod, error) {
	begin := p.config.Now()
	within, cancel := context.WithTimeout(ctx, limit/2)
	defer cancel()
	chosen := p.askDevices(within, sandbox)
	pod, err := p.config.Pods.Lookup(ctx, sandbox.GetUid())
	if err == nil && p.config.Devices != nil && pod.AsksForDevices() {
		pod, err = p.withDevices(within, pod, chosen, limit/2)
	}
	p.config.Observer.Asked(p.config.Now().Sub(begin))
	return pod, err
}

// chosen is an answer of Config.Devices.
type chosen struct {
	add func(request.Pod) request.Pod
	err error
}

// askDevices calls Config.Devices in a goroutine, until ctx ends.
func (p *Plugin) askDevices(ctx context.Context, sandbox *api.PodSandbox) <-chan chosen {
	answers := make(chan chosen, 1)
	if p.config.Devices != nil {
		go func() {
			add, err := p.config.Devices(ctx, sandbox.GetNamespace(), sandbox.GetName())
			answers <- chosen{add, err}
		}()
	}
	return answers
}

// mostReason limits the length of the reason why devices are not known, in bytes. The reason is
// kept with the pod.
const mostReason = 300

// withDevices returns the pod with its devices. If there is no answer before ctx ends, or the
// answer is an error, CPUs and memory are not aligned with the devices, and the pod has the reason.
// A policy that rejects pods that are not aligned then rejects the pod if the answer may come
// later, because the placement of an admitted pod is never decided again. wait is the time limit
// that the reason names.
func (p *Plugin) withDevices(ctx context.Context, pod request.Pod, answers <-chan chosen, wait time.Duration) (request.Pod, error) {
	var a chosen
	select {
	case a = <-answers:
	case <-ctx.Done():
		a.err = context.Cause(ctx)
	}
	later := errors.Is(a.err, ErrLater)
	switch {
	case a.err == nil:
		return a.add(pod), nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		a.err, later = fmt.Errorf("the kubelet's PodResources socket did not answer within %v", wait), true
	}
	reason := strings.ToValidUTF8(a.err.Error(), "?")
	if len(reason) > mostReason {
		reason = strings.ToValidUTF8(reason[:mostReason], "") + "…"
	}
	pod.DevicesUnknown = reason
	topology := p.config.Engine.State().Policy().Topology
	if later && (topology == node.TopologyRestricted || topology == node.TopologySingleNUMANode) {
		return pod, fmt.Errorf("it requests devices, and %s", reason)
	}
	return pod, nil
}

// estimate computes the request of a pod from the numbers of its cgroup. A Guaranteed pod requests
// them for the pod as a whole if the policy has pools. Any other pod requests no CPUs and no memory
// of its own. NRI shows neither whether resources are pod-level nor which containers qualify for
// exclusive CPUs, so no container qualifies. The error is the reason why the numbers are not
// credible. The pod then requests no CPUs and no memory of its own.
func estimate(sandbox *api.PodSandbox, s *node.State) (request.Pod, error) {
	pod := request.Pod{
		Identity: request.Identity{UID: sandbox.GetUid(), Namespace: sandbox.GetNamespace(), Name: sandbox.GetName()}, Ask: request.Ask{
			Estimated:  true,
			Containers: []request.Container{{Name: request.AnyContainer, Type: request.App, Sharing: request.Estimated}},
		},
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

// qosOf reads the QoS class of a pod from the name of its cgroup. The kubelet writes the name for
// the cgroup driver cgroupfs as "/kubepods/burstable/podUID" and for systemd as
// "kubepods-burstable-podUID.slice". With an error the class is Burstable, which gives no CPUs of
// its own.
func qosOf(parent string) (request.QoS, error) {
	levels := strings.Split(strings.Trim(parent, "/"), "/")
	if slice, is := strings.CutSuffix(path.Base(parent), ".slice"); is {
		levels = strings.Split(slice, "-")
	}
	above := func(n int) string { // returns the name n levels above the pod's
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
	return request.Burstable, fmt.Errorf("its cgroup %q: expected a name that the kubelet gives to the cgroup of a pod", parent)
}

// cpuOf reads the CPU request and limit of a Guaranteed pod, which are equal, in thousandths of a
// CPU. most is the number of CPUs of the machine. The limit is 0 if the kubelet writes no quota.
func cpuOf(cpu *api.LinuxCPU, most int) (milli, limit int64, err error) {
	shares, micros, period := cpu.GetShares().GetValue(), cpu.GetQuota().GetValue(), cpu.GetPeriod().GetValue()
	switch {
	case shares < control.LeastShares || shares > control.MostShares:
		return 0, 0, fmt.Errorf("its CPU shares are %d: expected %d to %d", shares, control.LeastShares, control.MostShares)
	case micros == 0 || micros == int64(quota.None):
		if shares == control.MostShares {
			return 0, 0, fmt.Errorf("its CPU shares are %d, the most, which the kubelet writes for every request of %d CPUs or more, and it has no CFS quota", shares, control.MostShares/control.SharesPerCPU)
		}
		milli = (int64(shares)*1000 + control.SharesPerCPU - 1) / control.SharesPerCPU
	case micros < 0 || period < leastPeriod || period > mostPeriod || micros > int64(most)*int64(period):
		return 0, 0, fmt.Errorf("its CFS quota is %d µs in a period of %d µs: expected a period of %d to %d µs, and a quota of more than 0 and at most the machine's %d CPUs",
			micros, period, leastPeriod, mostPeriod, most)
	default:
		limit = (micros*1000 + int64(period) - 1) / int64(period)
		milli = limit
		if of := min(max(milli*control.SharesPerCPU/1000, control.LeastShares), control.MostShares); of != int64(shares) {
			return 0, 0, fmt.Errorf("its CPU shares are %d, and its CFS quota is %d µs in a period of %d µs: a Guaranteed pod with this quota has %d shares", shares, micros, period, of)
		}
	}
	if milli > int64(most)*1000 {
		return 0, 0, fmt.Errorf("its CPU shares are %d, a request for more than the machine's %d CPUs", shares, most)
	}
	return milli, limit, nil
}

// memoryOf reads the memory and huge page limits of a Guaranteed pod. A page size may be listed
// several times, as containerd does after an update.
func memoryOf(shown *api.LinuxResources, m *machine.Machine) (request.Amounts, error) {
	var there request.Amounts // the machine's bytes, by memory type
	add := func(name string, bytes int64) {
		there = there.Plus(request.Amounts{{Resource: name, Value: bytes}})
	}
	for _, n := range m.Nodes() {
		add(machine.Memory, n.Memory)
		for _, pages := range n.HugePages {
			add(machine.HugePageType(pages.SizeKiB), pages.Count*pages.SizeKiB*1024)
		}
	}
	limit := shown.GetMemory().GetLimit().GetValue()
	if most, _ := there.Get(machine.Memory); limit <= 0 || limit > most {
		return nil, fmt.Errorf("its memory limit is %d bytes: expected more than 0, and at most the machine's %d bytes", limit, most)
	}
	memory := request.Amounts{{Resource: machine.Memory, Value: limit}}
	for _, pages := range shown.GetHugepageLimits() {
		if pages.GetLimit() == 0 {
			continue
		}
		name := hugePageType(pages.GetPageSize())
		most, known := there.Get(name)
		if !known || pages.GetLimit() > uint64(most) {
			return nil, fmt.Errorf("its limit of huge pages of size %q is %d bytes: the machine has %d bytes of them", pages.GetPageSize(), pages.GetLimit(), most)
		}
		if before, known := memory.Get(name); known && before != int64(pages.GetLimit()) {
			return nil, fmt.Errorf("it has two limits of %s: %d and %d bytes", name, before, pages.GetLimit())
		}
		memory = memory.With(name, int64(pages.GetLimit()))
	}
	return memory, nil
}

// hugePageType returns the resource of a page size such as "2MB", as the kubelet writes it for a
// runtime. It returns an empty name if the text is not a page size.
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
