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

	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/explain"
	"github.com/paddock-project/paddock/internal/node/cgroup"
	"github.com/paddock-project/paddock/internal/node/podres"
	"github.com/paddock-project/paddock/internal/node/podsource/kubelet"
	"github.com/paddock-project/paddock/internal/node/store"
)

// Verified is the result of Verify: how many containers were compared, and a line for each
// difference.
type Verified struct {
	Containers  int      `json:"containers"`
	Differences []string `json:"differences"`
	// Throttling describes how often exclusive containers were throttled.
	Throttling VerifiedThrottling `json:"throttling"`
	// Degraded has a line for each pod with offline CPUs. They do not count as differences: until
	// the CPUs are back, the containers run on the correct other CPUs.
	Degraded []string `json:"degraded,omitempty"`
	// WithoutClass has a line for each container that asks for a part of the caches and has none.
	// These are not differences either, because only a new pod can get a part.
	WithoutClass []string `json:"withoutClass,omitempty"`
}

// differ adds a line to the differences.
func (v *Verified) differ(format string, args ...any) {
	v.Differences = append(v.Differences, fmt.Sprintf(format, args...))
}

// Verify compares the state file with the PodResources API, and with the cgroups of every container
// that runs according to the kubelet. It changes nothing. If there are containers with exclusive
// CPUs, it watches for 2 s, measured by after, whether they are throttled. It returns an error if
// something cannot be read.
func Verify(ctx context.Context, c Config, log *slog.Logger, after func(time.Duration) <-chan time.Time) (*Verified, error) {
	s, err := stored(ctx, c)
	if err != nil {
		return nil, err
	}
	source, err := kubelet.New(c.Kubelet.address(), kubelet.Options{Gates: podspec.GatesOf(s.Policy()), Now: time.Now, After: time.After, Log: log})
	if err != nil {
		return nil, err
	}
	running, unread, err := source.Running(ctx)
	if err != nil {
		return nil, err
	}
	v := &Verified{Differences: []string{}, WithoutClass: explain.WithoutClass(s)}
	for _, d := range s.Degraded() {
		line := fmt.Sprintf("%s (uid %s): degraded: its CPUs %s are offline", d.Grant.Pod.ID(), d.Grant.Pod.UID, d.Offline)
		if elsewhere := displaced(s, d); elsewhere != "" {
			line += "; these containers have no online CPU and run elsewhere: " + elsewhere
		}
		v.Degraded = append(v.Degraded, line)
	}
	for _, err := range unread {
		v.differ("%v: the kubelet's entry for this pod cannot be read, so its containers are not compared", err)
	}
	if err := v.cgroups(ctx, s, cgroup.FS{Root: c.CgroupRoot}, running, after); err != nil {
		return nil, err
	}
	if c.PodResources.Socket != "" {
		v.api(ctx, s, c.PodResources.Socket)
	}
	return v, nil
}

// stored returns the state on disk. It reads without a lock, because the writer replaces the whole
// file at once.
func stored(ctx context.Context, c Config) (*node.State, error) {
	env, err := Here().complete(c).read()
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(c.State)
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	s, _, err := env.adopt(ctx, c, store.Loaded{Path: c.State, Data: data}, slog.New(slog.DiscardHandler))
	return s, err
}

// cgroups compares the cgroup files of the containers, and the quotas of their pods.
func (v *Verified) cgroups(ctx context.Context, s *node.State, files cgroup.FS, running []kubelet.Running, after func(time.Duration) <-chan time.Time) error {
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
	var cgroups []runningCgroup
	for _, r := range running {
		var setting converge.Setting
		err := fs.ErrNotExist
		if paths[r.ID] != "" {
			setting, err = files.Read(paths[r.ID])
		}
		if errors.Is(err, fs.ErrNotExist) {
			v.differ("%s: it runs according to the kubelet, but has no cgroup below %s", who[r.ID], files.Root)
			continue
		}
		if err != nil {
			return err
		}
		observed = append(observed, converge.Observed{ID: r.ID, Pod: r.Pod, Container: r.Container, Setting: setting})
		cgroups = append(cgroups, runningCgroup{Who: r.Who, Pod: r.Pod, Container: r.Container, Path: paths[r.ID], Parent: path.Dir(paths[r.ID])})
	}
	v.compare(s, observed, who)
	if err := v.quotas(s, files, cgroups); err != nil {
		return err
	}
	return v.throttling(ctx, s, files, cgroups, after)
}

// compare adds the differences between what was observed and the state.
func (v *Verified) compare(s *node.State, observed []converge.Observed, who map[string]string) {
	for _, d := range converge.Want(s).Verify(observed) {
		for _, line := range d.Lines() {
			v.differ("%s: %s", who[d.ID], line)
		}
	}
}

// api compares the answer of the PodResources API with the state: which pods there are, and the
// CPUs of containers that have exclusive CPUs.
func (v *Verified) api(ctx context.Context, s *node.State, socket string) {
	listed, invalid, err := ask(ctx, socket)
	if err != nil {
		v.differ("PodResources API: %v", err)
		return
	}
	for _, line := range invalid {
		v.differ("PodResources API: %s", line)
	}
	for _, g := range s.Grants() {
		containers, there := listed[g.Pod.ID()]
		if !there {
			v.differ("%s (uid %s): the PodResources API does not report it", g.Pod.ID(), g.Pod.UID)
			continue
		}
		delete(listed, g.Pod.ID())
		for i, c := range g.Pod.Containers {
			cpus, shown := containers[c.Name]
			if shown && g.Isolation(i) == node.ContainerIsolation && !cpus.Equal(g.Containers[i].CPUs) {
				v.differ("%s (uid %s): container %s: the PodResources API reports CPUs %q, the state %q", g.Pod.ID(), g.Pod.UID, c.Name, cpus, g.Containers[i].CPUs)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(listed)) {
		v.differ("%s: the PodResources API reports it, but it is not in the state", id)
	}
}

// ask returns the CPUs of containers by pod and container name, and a line for each CPU id that no
// machine can have.
func ask(ctx context.Context, socket string) (_ map[string]map[string]cpuset.Set, invalid []string, err error) {
	client, err := podres.Dial(ctx, socket)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	list, err := client.List(ctx)
	if err != nil {
		return nil, nil, err
	}
	pods := map[string]map[string]cpuset.Set{}
	for _, p := range list.GetPodResources() {
		containers, who := map[string]cpuset.Set{}, p.GetNamespace()+"/"+p.GetName()
		for _, c := range p.GetContainers() {
			cpus, others := podres.CPUs(c.GetCpuIds())
			for _, id := range others {
				invalid = append(invalid, fmt.Sprintf("%s: container %s: CPU %d, expected 0 to %d", who, c.GetName(), id, cpuset.MaxID))
			}
			containers[c.GetName()] = cpus
		}
		pods[who] = containers
	}
	return pods, invalid, nil
}
