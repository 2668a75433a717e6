package nri

import (
	"fmt"

	"github.com/containerd/nri/pkg/api"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/quota"
	"github.com/paddock-project/paddock/internal/node/control"
)

// settingOf returns the setting in a message. If the message has no quota, or 0, which runtimes
// ignore, the quota is not known. A quota is converted to a period of quota.Period.
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
		return s, fmt.Errorf("cpuset.mems: %s: expected NUMA nodes from 0 to %d", mems, mask.MaxNode)
	}
	s.Mems = mask.Of(mems.IDs()...)
	micros, period := cpu.GetQuota().GetValue(), int64(cpu.GetPeriod().GetValue())
	if period <= 0 {
		period = quota.Period
	}
	s.Quota = quota.In(micros, period)
	return s, nil
}

func sandboxFrom(pod *api.PodSandbox) *control.Sandbox {
	return &control.Sandbox{ID: pod.GetId(), Pod: pod.GetUid(), Who: podName(pod), Parent: pod.GetLinux().GetCgroupParent(), Grant: handover.TextOf(pod.GetAnnotations())}
}

func containerFrom(pod *api.PodSandbox, c *api.Container) control.Container {
	return control.Container{ID: c.GetId(), Pod: pod.GetUid(), Name: c.GetName(), Path: c.GetLinux().GetCgroupsPath()}
}

// shownBy returns what a runtime shows when it synchronises, without the containers that have
// ended.
func shownBy(connection uint64, pods []*api.PodSandbox, containers []*api.Container) control.Synchronise {
	shown := control.Synchronise{Connection: connection}
	for _, pod := range pods {
		shown.Boxes = append(shown.Boxes, sandboxFrom(pod))
	}
	for _, c := range containers {
		now := control.Shown{Container: containerFrom(nil, c), Box: c.GetPodSandboxId(), CreatedAt: c.GetCreatedAt()}
		now.Setting, now.Err = settingOf(c.GetLinux().GetResources())
		switch c.GetState() {
		case api.ContainerState_CONTAINER_STOPPED:
			continue
		case api.ContainerState_CONTAINER_CREATED:
			now.Life = control.IsCreated
		case api.ContainerState_CONTAINER_RUNNING:
			now.Life = control.IsRunning
		default:
			now.Life = control.OfUnknownLife
		}
		shown.Containers = append(shown.Containers, now)
	}
	return shown
}

// hasCPUSet reports whether the resources have CPUs or memory nodes, so that the container is
// already pinned.
func hasCPUSet(r *api.LinuxResources) bool {
	return r.GetCpu().GetCpus() != "" || r.GetCpu().GetMems() != ""
}

// resources returns a setting as a message, or nil if it is empty. Empty sets are left out, because
// they would mean "no change" and not "none".
func resources(s converge.Setting) *api.LinuxResources {
	var cpu api.LinuxCPU
	if !s.CPUs.IsEmpty() {
		cpu.Cpus = s.CPUs.String()
		switch s.Quota {
		case quota.Keep:
		case quota.None:
			cpu.Quota = api.Int64(int64(quota.None))
		default:
			cpu.Quota, cpu.Period = api.Int64(int64(s.Quota)), api.UInt64(uint64(quota.Period))
		}
	}
	if !s.Mems.IsEmpty() {
		cpu.Mems = s.Mems.List()
	}
	if cpu.Cpus == "" && cpu.Mems == "" {
		return nil
	}
	return &api.LinuxResources{Cpu: &cpu}
}

// updatesOf returns updates as messages, in the same order. A quota is sent only if it differs from
// the known one before. Before.Quota is quota.Keep if the quota is to be sent in any case. An
// update that only adds CPUs may fail: no other container needs it, and it is tried again.
func updatesOf(updates []converge.Update) []*api.ContainerUpdate {
	var out []*api.ContainerUpdate
	for _, u := range updates {
		after := u.After
		if after.Quota == u.Before.Quota {
			after.Quota = quota.Keep // The kubelet may be writing another quota at this moment.
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

// since is when a feature of NRI came: the first NRI version with it, and the first releases of
// runtimes with that version, by the name of the runtime in Configure.
type since struct {
	nri      *version.Version
	releases map[string]*version.Version
}

// unsolicited is the feature that unsolicited updates are safe. With earlier versions, such an
// update and a hook could wait for each other for ever (containerd#13733). No release of CRI-O is
// known to have it.
var unsolicited = since{version.MustParseSemantic("0.12.1"), map[string]*version.Version{"containerd": version.MustParseSemantic("2.4.0")}}

// podUpdates is the event UpdatePodSandbox. Earlier versions reject a plugin that subscribes to an
// event that they do not know.
var podUpdates = since{version.MustParseSemantic("0.10.0"), map[string]*version.Version{
	"containerd": version.MustParseSemantic("2.2.0"), "cri-o": version.MustParseSemantic("1.35.0"),
}}

// withoutPodUpdates has every event of a session that all versions know.
var withoutPodUpdates = api.MustParseEventMask("RunPodSandbox", "StopPodSandbox", "RemovePodSandbox", "CreateContainer", "PostCreateContainer",
	"StartContainer", "PostStartContainer", "UpdateContainer", "StopContainer", "RemoveContainer")

// in reports whether a runtime has the feature. The runtime's own version decides if its name is
// among the releases; otherwise the NRI version that it reports decides.
func (f since) in(runtime, release, nri string) bool {
	if least, known := f.releases[runtime]; known {
		return atLeast(release, least)
	}
	return atLeast(nri, f.nri)
}

// atLeast reports whether a version is a release that is not older than least. A version before its
// release, such as "2.4.0-rc.1", may have any content.
func atLeast(text string, least *version.Version) bool {
	v, err := version.ParseSemantic(text)
	return err == nil && v.PreRelease() == "" && v.AtLeast(least)
}

// endsSandboxes has the first release of each series of containerd that ends the process of a
// sandbox that a plugin rejected. Before 2.0, all of them did. No release of the series 2.0 and 2.1
// does.
var endsSandboxes = []*version.Version{
	version.MustParseSemantic("2.2.8"), version.MustParseSemantic("2.3.4"), version.MustParseSemantic("2.4.0"),
}

// leavesSandboxes reports whether a runtime leaves the process of a sandbox that the plugin
// rejects. The kubelet tries such a pod again and again, so these processes become many.
func leavesSandboxes(runtime, release string) bool {
	v, err := version.ParseSemantic(release)
	if err != nil || runtime != "containerd" || v.Major() < 2 {
		return false
	}
	for _, first := range endsSandboxes {
		if v.Major() == first.Major() && v.Minor() == first.Minor() {
			return !v.AtLeast(first)
		}
	}
	return !v.AtLeast(endsSandboxes[0])
}

// amountsShown returns the numbers of a cgroup in a message. No CFS quota counts as not set.
func amountsShown(r *api.LinuxResources) control.Amounts {
	a := control.Amounts{Shares: r.GetCpu().GetShares().GetValue(), Memory: max(0, r.GetMemory().GetLimit().GetValue())}
	if micros, period := r.GetCpu().GetQuota().GetValue(), int64(r.GetCpu().GetPeriod().GetValue()); micros > 0 {
		if period <= 0 {
			period = quota.Period
		}
		a.Quota = quota.In(micros, period)
	}
	return a
}
