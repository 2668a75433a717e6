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

// settingOf is what a message says that a container runs on.
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
		return s, fmt.Errorf("cpuset.mems: %s: NUMA nodes above %d are not known here", mems, mask.MaxNode)
	}
	s.Mems = mask.Of(mems.IDs()...)
	s.Quota = quotaOf(cpu)
	return s, nil
}

// quotaOf is a quota as a message has it, for a period of node.QuotaPeriod. Not known is one of which
// the message has nothing, and 0, which runtimes take for nothing.
func quotaOf(cpu *api.LinuxCPU) node.Quota {
	quota, period := cpu.GetQuota().GetValue(), int64(cpu.GetPeriod().GetValue())
	if period <= 0 {
		period = node.QuotaPeriod
	}
	return node.QuotaIn(quota, period)
}

// hasCPUSet tells whether somebody pinned the container.
func hasCPUSet(r *api.LinuxResources) bool {
	return r.GetCpu().GetCpus() != "" || r.GetCpu().GetMems() != ""
}

// resources are a setting in the runtime's words; nil if it says nothing. What is empty is left out, since
// it would mean "no change" and not "none".
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

// memsText is a list of nodes as the kernel writes it: "0-1,3".
func memsText(m mask.Mask) string { return cpuset.Of(m.Nodes()...).String() }

// adjustment creates a container with a setting; nil if it says nothing.
func adjustment(s converge.Setting) *api.ContainerAdjustment {
	r := resources(s)
	if r == nil {
		return nil
	}
	return &api.ContainerAdjustment{Linux: &api.LinuxContainerAdjustment{Resources: r}}
}

// updatesOf are updates in the runtime's words and their order. A quota is sent where it differs from what is
// known of it before: Before.Quota is node.KeepQuota where it is to be sent in any case. An update that only gives more may fail:
// nobody is hurt, and it is tried again.
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

// runs tells whether a container can still use what it has.
func runs(c *api.Container) bool {
	return c.GetState() != api.ContainerState_CONTAINER_STOPPED
}

// leastNRI is the NRI whose runtimes stand updates that nobody asked for: before, such an update and a
// hook could wait for each other for ever (containerd#13733).
var leastNRI = version.MustParseSemantic("0.12.1")

// standing are the first releases of runtimes with at least leastNRI, by the name that they tell.
// CRI-O has none so far that is known.
var standing = map[string]*version.Version{"containerd": version.MustParseSemantic("2.4.0")}

// standsUpdates tells whether a runtime can be sent updates that it did not ask for. The runtime's own
// name and version decide where they are in the table, otherwise the NRI version that it says it has.
func standsUpdates(runtime, release, nri string) bool {
	if least, known := standing[runtime]; known {
		return atLeast(release, least)
	}
	return atLeast(nri, leastNRI)
}

// atLeast tells whether a version is a release, and least or newer. One before its release, "2.4.0-rc.1", may
// have anything in it.
func atLeast(text string, least *version.Version) bool {
	v, err := version.ParseSemantic(text)
	return err == nil && v.PreRelease() == "" && v.AtLeast(least)
}
