package nri

import (
	"fmt"

	"github.com/containerd/nri/pkg/api"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
)

// settingOf is the setting in a message. If the message has no quota, or 0, which runtimes ignore,
// the quota is not known. A quota is for a period of node.QuotaPeriod.
func settingOf(r *api.LinuxResources) (converge.Setting, error) {
	cpu := r.GetCpu()
	var s converge.Setting
	var err error
	if s.CPUs, err = cpuset.Parse(cpu.GetCpus()); err != nil {
		return s, fmt.Errorf("cpuset.cpus: %w", err)
	}
	mems, err := cpuset.Parse(cpu.GetMems())
	if err != nil {
		return s, fmt.Errorf("cpuset.mems: %w", err)
	}
	if mems.Highest() > mask.MaxNode {
		return s, fmt.Errorf("cpuset.mems: %s: want NUMA nodes from 0 to %d", mems, mask.MaxNode)
	}
	s.Mems = mask.Of(mems.IDs()...)
	quota, period := cpu.GetQuota().GetValue(), int64(cpu.GetPeriod().GetValue())
	if period <= 0 {
		period = node.QuotaPeriod
	}
	s.Quota = node.QuotaIn(quota, period)
	return s, nil
}

// hasCPUSet reports whether the container is pinned already.
func hasCPUSet(r *api.LinuxResources) bool {
	return r.GetCpu().GetCpus() != "" || r.GetCpu().GetMems() != ""
}

// resources is a setting as a message; nil if it is empty. Empty sets are left out, because they
// would mean "no change" and not "none".
func resources(s converge.Setting) *api.LinuxResources {
	var cpu api.LinuxCPU
	if !s.CPUs.IsEmpty() {
		cpu.Cpus = s.CPUs.String()
		switch s.Quota {
		case node.KeepQuota:
		case node.NoQuota:
			cpu.Quota = api.Int64(int64(node.NoQuota))
		default:
			cpu.Quota, cpu.Period = api.Int64(int64(s.Quota)), api.UInt64(uint64(node.QuotaPeriod))
		}
	}
	if !s.Mems.IsEmpty() {
		cpu.Mems = memsText(s.Mems)
	}
	if cpu.Cpus == "" && cpu.Mems == "" {
		return nil
	}
	return &api.LinuxResources{Cpu: &cpu}
}

// memsText is a list of NUMA nodes as the kernel writes it: "0-1,3".
func memsText(m mask.Mask) string { return cpuset.Of(m.Nodes()...).String() }

// updatesOf are updates as messages, in the same order. A quota is sent if it differs from the
// known one before. Before.Quota is node.KeepQuota if the quota is to be sent in any case. An
// update that only gives more CPUs may fail: no other container needs it, and it is tried again.
func updatesOf(updates []converge.Update) []*api.ContainerUpdate {
	var out []*api.ContainerUpdate
	for _, u := range updates {
		after := u.After
		if after.Quota == u.Before.Quota {
			after.Quota = node.KeepQuota // The kubelet may just be writing another.
		}
		if r := resources(after); r != nil {
			out = append(out, &api.ContainerUpdate{
				ContainerId: u.ID, Linux: &api.LinuxContainerUpdate{Resources: r},
				IgnoreFailure: u.After.CPUs.Contains(u.Before.CPUs),
			})
		}
	}
	return out
}

// leastNRI is the first NRI that takes unsolicited updates: before, such an update and a hook could
// wait for each other for ever (containerd#13733).
var leastNRI = version.MustParseSemantic("0.12.1")

// leastRelease are the first releases of runtimes with at least leastNRI, by the name in Configure.
// No release of CRI-O is known to have it.
var leastRelease = map[string]*version.Version{"containerd": version.MustParseSemantic("2.4.0")}

// takesUpdates reports whether a runtime takes unsolicited updates. The runtime's own version
// decides if its name is in leastRelease, otherwise the NRI version that it reports.
func takesUpdates(runtime, release, nri string) bool {
	if least, known := leastRelease[runtime]; known {
		return atLeast(release, least)
	}
	return atLeast(nri, leastNRI)
}

// atLeast reports whether a version is a release, and least or newer. A version before its release,
// such as "2.4.0-rc.1", may have any content.
func atLeast(text string, least *version.Version) bool {
	v, err := version.ParseSemantic(text)
	return err == nil && v.PreRelease() == "" && v.AtLeast(least)
}
