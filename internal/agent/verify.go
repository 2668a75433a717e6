package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path"
	"slices"
	"time"

	"github.com/paddock-project/paddock/internal/cgroup"
	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/podres"
	"github.com/paddock-project/paddock/internal/podsource/kubelet"
	"github.com/paddock-project/paddock/internal/podspec"
	"github.com/paddock-project/paddock/internal/store"
)

// Verified is what was compared, and every difference, a line each.
type Verified struct {
	Containers  int
	Differences []string
}

// differ adds a line.
func (v *Verified) differ(format string, args ...any) {
	v.Differences = append(v.Differences, fmt.Sprintf(format, args...))
}

// Verify compares the state file, what the API tells of it, and the cgroups of every container that the
// kubelet says runs. Nothing is changed. The error is of what could not be read.
func Verify(ctx context.Context, c Config, log *slog.Logger) (*Verified, error) {
	s, err := stored(ctx, c)
	if err != nil {
		return nil, err
	}
	source, err := kubelet.New(c.Kubelet.address(), kubelet.Options{Gates: gatesOf(s.Policy()), After: time.After, Log: log})
	if err != nil {
		return nil, err
	}
	running, err := source.Running(ctx)
	if err != nil {
		return nil, err
	}
	v := &Verified{}
	if err := v.cgroups(s, cgroup.FS{Root: c.CgroupRoot}, running); err != nil {
		return nil, err
	}
	if c.PodResources.Socket != "" {
		v.api(ctx, s, c.PodResources.Socket)
	}
	return v, nil
}

func gatesOf(p node.Policy) podspec.Gates {
	return podspec.Gates{PodLevelResources: p.PodLevelResources, PodLevelManagers: p.PodLevelManagers}
}

// stored is the state as it is on disk, without a lock: its writer exchanges the file as a whole.
func stored(ctx context.Context, c Config) (*node.State, error) {
	p, err := readPlace(c)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(c.State)
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	s, _, err := p.adopt(ctx, c, store.Loaded{Path: c.State, Data: data}, slog.New(slog.DiscardHandler))
	return s, err
}

// cgroups compares the containers' files, and the quota of the pods'.
func (v *Verified) cgroups(s *node.State, files cgroup.FS, running []kubelet.Running) error {
	ids, who := make([]string, len(running)), map[string]string{}
	for i, r := range running {
		ids[i] = r.ID
		who[r.ID] = fmt.Sprintf("%s (uid %s): container %s", r.Who, r.Pod, r.Container)
	}
	paths, err := files.Find(ids)
	if err != nil {
		return fmt.Errorf("cgroups: %w", err)
	}
	v.Containers = len(running)
	var observed []converge.Observed
	for _, r := range running {
		var setting converge.Setting
		err := fs.ErrNotExist
		if paths[r.ID] != "" {
			setting, err = files.Read(paths[r.ID])
		}
		if errors.Is(err, fs.ErrNotExist) {
			v.differ("%s: it runs, says the kubelet, and has no cgroup below %s", who[r.ID], files.Root)
			continue
		}
		if err != nil {
			return err
		}
		observed = append(observed, converge.Observed{ID: r.ID, Pod: r.Pod, Container: r.Container, Setting: setting})
		v.podQuota(s, files, r, path.Dir(paths[r.ID]))
	}
	v.compare(s, observed, who)
	return nil
}

// compare says how what was observed differs from what should be.
func (v *Verified) compare(s *node.State, observed []converge.Observed, who map[string]string) {
	for i, o := range observed {
		// A container without a limit has no quota of its own to begin with.
		if g, known := s.Grant(o.Pod); known && o.LiftQuota {
			_, k := g.Pod.Container(o.Container)
			observed[i].LiftQuota = k >= 0 && g.LiftsQuota(s.Policy(), k)
		}
	}
	report := converge.Compare(s, observed)
	for _, u := range report.Updates {
		if !u.Before.CPUs.Equal(u.After.CPUs) {
			v.differ("%s: cpuset.cpus is %q, want %q", who[u.ID], u.Before.CPUs, u.After.CPUs)
		}
		if u.Before.Mems != u.After.Mems {
			v.differ("%s: cpuset.mems is %s, want %s", who[u.ID], u.Before.Mems, u.After.Mems)
		}
		if u.Before.LiftQuota != u.After.LiftQuota {
			v.differ("%s: it has a CFS quota, want none: its CPUs are its own", who[u.ID])
		}
	}
	for _, o := range report.Stranded {
		v.differ("%s: it should run on the node's shared pool, which is empty; it runs on %q", who[o.ID], o.CPUs)
	}
	for _, o := range report.Strangers {
		if !o.CPUs.Equal(s.SharedCPUs()) {
			v.differ("%s: it holds nothing, and runs on %q; want the node's shared pool %q", who[o.ID], o.CPUs, s.SharedCPUs())
		}
	}
}

// podQuota compares the quota of a pod's cgroup.
func (v *Verified) podQuota(s *node.State, files cgroup.FS, r kubelet.Running, parent string) {
	g, known := s.Grant(r.Pod)
	if !known || !g.LiftsPodQuota(s.Policy()) {
		return
	}
	lifted, err := files.QuotaLifted(parent)
	line := fmt.Sprintf("%s (uid %s): its cgroup %s has a CFS quota, want none", r.Who, r.Pod, parent)
	if err == nil && !lifted && !slices.Contains(v.Differences, line) {
		v.differ("%s", line)
	}
}

// api compares what the PodResources API tells with the state: which pods there are, and the CPUs of
// containers that have some for their own.
func (v *Verified) api(ctx context.Context, s *node.State, socket string) {
	told, err := ask(ctx, socket)
	if err != nil {
		v.differ("PodResources API: %v", err)
		return
	}
	for _, g := range s.Grants() {
		containers, there := told[g.Pod.ID()]
		if !there {
			v.differ("%s (uid %s): the PodResources API does not tell of it", g.Pod.ID(), g.Pod.UID)
			continue
		}
		delete(told, g.Pod.ID())
		for i, c := range g.Pod.Containers {
			cpus, shown := containers[c.Name]
			if shown && g.Isolation(i) == node.ContainerIsolation && !cpus.Equal(g.Containers[i].CPUs) {
				v.differ("%s (uid %s): container %s: the PodResources API tells CPUs %q, the state %q", g.Pod.ID(), g.Pod.UID, c.Name, cpus, g.Containers[i].CPUs)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(told)) {
		v.differ("%s: the PodResources API tells of it, and the state does not know it", id)
	}
}

// ask returns the CPUs of containers by pod and name.
func ask(ctx context.Context, socket string) (_ map[string]map[string]cpuset.Set, err error) {
	client, err := podres.Dial(ctx, socket)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	list, err := client.List(ctx)
	if err != nil {
		return nil, err
	}
	pods := map[string]map[string]cpuset.Set{}
	for _, p := range list.GetPodResources() {
		containers := map[string]cpuset.Set{}
		for _, c := range p.GetContainers() {
			var cpus cpuset.Builder
			for _, id := range c.GetCpuIds() {
				if id >= 0 && id <= maxCPU {
					cpus.Add(int(id))
				}
			}
			containers[c.GetName()] = cpus.Set()
		}
		pods[p.GetNamespace()+"/"+p.GetName()] = containers
	}
	return pods, nil
}

// maxCPU bounds the ids that are believed.
const maxCPU = 1 << 16
