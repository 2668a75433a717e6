package agent

import (
	"errors"
	"io/fs"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/node/cgroup"
	"github.com/paddock-project/paddock/internal/node/telemetry"
)

// runningCgroup is a running container with its cgroups.
type runningCgroup struct {
	// Who is the namespace/name of the pod, for people. Pod is its UID.
	Who, Pod, Container string
	// Path is the cgroup of the container, and Parent that of the pod, as cgroup.Path returns them.
	Path, Parent string
}

// throttleable is a cgroup whose quota would throttle an exclusive container.
type throttleable struct {
	running runningCgroup
	path    string
	ofPod   bool
}

// throttleables returns the cgroups of the containers that have exclusive CPUs, and the cgroups of
// their pods, each once.
func throttleables(s *node.State, running []runningCgroup) []throttleable {
	var list []throttleable
	pods := map[string]bool{}
	for _, r := range running {
		g, known := s.Grant(r.Pod)
		if !known {
			continue
		}
		if _, i := g.Pod.Container(r.Container); i < 0 || g.Isolation(i) != node.ContainerIsolation {
			continue
		}
		list = append(list, throttleable{running: r, path: r.Path})
		if r.Parent != "" && !pods[r.Parent] {
			pods[r.Parent] = true
			list = append(list, throttleable{running: r, path: r.Parent, ofPod: true})
		}
	}
	return list
}

// throttling returns the sample function for telemetry.NewThrottling: the kernel's counts for the
// cgroups of exclusive containers and of their pods. It omits cgroups that are gone or cannot be
// read.
func throttling(files cgroup.FS, state func() *node.State, running func() []runningCgroup) func() []telemetry.Throttled {
	return func() []telemetry.Throttled {
		var sample []telemetry.Throttled
		for _, t := range throttleables(state(), running()) {
			if n, err := files.Throttled(t.path); err == nil {
				sample = append(sample, telemetry.Throttled{Cgroup: t.path, OfPod: t.ofPod, Periods: n.Periods, Throttled: n.Throttled, Time: n.Time})
			}
		}
		return sample
	}
}

// gone reports whether a cgroup ended while it was read.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) }
