package nri

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"github.com/containerd/nri/pkg/api"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/node"
)

// Synchronize takes what runs as the table, plans what runs and holds nothing, and updates what does not run
// where it should.
func (p *Plugin) Synchronize(ctx context.Context, pods []*api.PodSandbox, containers []*api.Container) (_ []*api.ContainerUpdate, err error) {
	ctx, done := p.answer(ctx, "Synchronize")
	defer func() { done(&err) }()
	created := p.observe(ctx, pods, containers)
	if p.foreign(ctx) || p.isAside() {
		p.synchronised(ctx, nil, nil)
		return nil, nil
	}
	missed := p.adopt(ctx, oldest(created))
	p.mu.Lock()
	updates, stranded := p.table.compare(p.config.Engine.State(), "")
	p.carry(stopping, updates)
	p.mu.Unlock()
	p.say(ctx, stranded)
	p.synchronised(ctx, missed, updates)
	p.again()
	return updatesOf(updates), nil
}

// observe makes a new table. It returns when the first container of each pod was made.
func (p *Plugin) observe(ctx context.Context, pods []*api.PodSandbox, containers []*api.Container) map[string]int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.table = newTable(p.config.Now())
	uids, created := map[string]string{}, map[string]int64{}
	for _, pod := range pods {
		if uids[pod.GetId()] = pod.GetUid(); pod.GetUid() != "" {
			p.enter(pod)
		}
	}
	for _, c := range containers {
		uid := uids[c.GetPodSandboxId()]
		if uid == "" || !runs(c) {
			continue
		}
		setting, err := settingOf(c.GetLinux().GetResources())
		if err != nil {
			p.config.Log.ErrorContext(ctx, "what a container runs on is not to be read; it counts as running everywhere", "uid", uid, "container", c.GetName(), "error", err)
		}
		p.table.containers[c.GetId()] = &container{id: c.GetId(), pod: uid, name: c.GetName(), path: c.GetLinux().GetCgroupsPath(), setting: setting}
		if at, there := created[uid]; !there || c.GetCreatedAt() < at {
			created[uid] = c.GetCreatedAt()
		}
	}
	return created
}

// foreign stands aside when containers run on CPUs that somebody else gave them: this state never held
// anything, and something has a cpuset.
func (p *Plugin) foreign(ctx context.Context) bool {
	p.mu.Lock()
	fresh := p.fresh && !p.config.TakeOver
	p.fresh = false
	s := p.config.Engine.State()
	var strange *container
	var who string
	for _, c := range p.table.containers {
		if fresh && !c.setting.CPUs.IsEmpty() && !c.setting.CPUs.Equal(s.SharedCPUs()) {
			strange, who = c, p.table.who(c.pod)
		}
	}
	p.mu.Unlock()
	if strange == nil {
		return false
	}
	p.standAside(ctx, who, strange.name, strange.setting)
	return true
}

// adopt plans the pods that hold nothing yet, in that order, and returns who they were. Who is refused
// stays on the node's shared pool, and so does who is not listed: that it runs there already is no harm, and
// what an estimate gave it could not be mended.
func (p *Plugin) adopt(ctx context.Context, uids []string) (missed []string) {
	for _, uid := range uids {
		if _, known := p.config.Engine.State().Grant(uid); known || ctx.Err() != nil {
			continue
		}
		p.mu.Lock()
		var pod *api.PodSandbox
		for _, s := range p.table.sandboxes {
			if s.pod == uid {
				pod = sandboxOf(s)
			}
		}
		before, again := p.refused[uid]
		p.mu.Unlock()
		if pod == nil || again && before.generation == p.config.Engine.State().Generation() {
			continue
		}
		missed = append(missed, podName(pod))
		switch _, err := p.admit(ctx, pod, p.lookup); {
		case errors.Is(err, ErrRefused):
			p.config.Log.ErrorContext(ctx, "a pod that runs cannot have what it asks for: it stays on the node's shared pool", "pod", podName(pod), "uid", uid, "error", err)
		case err != nil:
			p.config.Log.WarnContext(ctx, "a pod that runs is not planned yet; it will be tried again", "pod", podName(pod), "uid", uid, "error", err)
		}
	}
	return missed
}

// sandboxOf is a sandbox as the runtime would show it, as far as admit needs it.
func sandboxOf(s *sandbox) *api.PodSandbox {
	pod := &api.PodSandbox{Id: s.id, Uid: s.pod, Name: s.who}
	for i := range s.who {
		if s.who[i] == '/' {
			pod.Namespace, pod.Name = s.who[:i], s.who[i+1:]
			break
		}
	}
	return pod
}

// synchronised ends the time without connection, and says what happened in it.
func (p *Plugin) synchronised(ctx context.Context, missed []string, updates []converge.Update) {
	p.mu.Lock()
	if p.link != nil {
		p.link.synchronised = true
	}
	away := p.config.Now().Sub(p.lost)
	containers := len(p.table.containers)
	p.mu.Unlock()
	p.config.Observer.Away(away)
	p.config.Observer.Connected(true)
	p.config.Observer.Repaired(len(updates))
	var repaired []string
	for _, u := range updates {
		repaired = append(repaired, u.Pod+"/"+u.Container)
	}
	slices.Sort(repaired)
	p.config.Log.InfoContext(ctx, "synchronised with the runtime", "away", away.String(), "containers", containers,
		"pods_started_without_us", missed, "containers_repaired", repaired)
}

// liftQuota takes the CFS quota from the pod's cgroups if it has none. NRI cannot, so this is done here.
func (p *Plugin) liftQuota(ctx context.Context, g *node.Grant, parents []string) {
	if g == nil || !g.LiftsPodQuota(p.config.Engine.State().Policy()) {
		return
	}
	for _, parent := range parents {
		if parent == "" {
			continue
		}
		changed, err := p.config.Cgroups.LiftQuota(parent)
		switch {
		case errors.Is(err, fs.ErrNotExist): // The pod has ended, and nobody has said so yet.
		case err != nil:
			p.config.Log.ErrorContext(ctx, "the pod's CFS quota is not lifted: its exclusive containers may be throttled", "pod", g.Pod.ID(), "uid", g.Pod.UID, "cgroup", parent, "error", err)
		case changed:
			p.config.Log.InfoContext(ctx, "the pod's CFS quota is lifted", "pod", g.Pod.ID(), "uid", g.Pod.UID, "cgroup", parent)
		}
	}
}
