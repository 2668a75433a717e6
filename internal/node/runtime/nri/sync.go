package nri

import (
	"cmp"
	"maps"
	"slices"

	"github.com/containerd/nri/pkg/api"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
)

// observed is the answer to observe.
type observed struct {
	managed bool
	// without are the sandboxes of pods that run without a grant, the oldest first.
	without []*sandbox
	// sights are the containers whose cgroups are to be read: the runtime does not know of lost
	// updates, or of other processes that write there.
	sights []*sight
	// unasked are the pods, by name, of which containers were created since the last answer to the
	// runtime.
	unasked []string
	err     error
}

// observe is an event: the table becomes what the runtime shows. The loop no longer waits for
// replies and updates of the connection before: a runtime applies or drops them before it
// synchronises.
func (l *loop) observe(s *session, pods []*api.PodSandbox, containers []*api.Container) observed {
	if s != l.session {
		return observed{err: errGone}
	}
	before := l.table
	l.table, l.replies, l.flight = newTable(l.config.Now()), nil, nil
	l.table.heard = before.heard
	w, unasked := converge.Want(l.config.Engine.State()), map[string]bool{}
	uids, created := map[string]string{}, map[string]int64{}
	for _, pod := range pods {
		if uids[pod.GetId()] = pod.GetUid(); pod.GetUid() != "" {
			l.table.enter(sandboxFrom(pod))
		}
	}
	for _, c := range containers {
		uid := uids[c.GetPodSandboxId()]
		if uid == "" || c.GetState() == api.ContainerState_CONTAINER_STOPPED {
			continue
		}
		l.table.containers[c.GetId()] = l.found(w, uid, c)
		if l.startedUnasked(w, before, c) {
			unasked[l.table.who(uid)] = true
		}
		if at, there := created[uid]; !there || c.GetCreatedAt() < at {
			created[uid] = c.GetCreatedAt()
		}
	}
	if s.listsLate {
		l.keepUnlisted(before, containers)
	}
	l.resuming = false
	l.findForeign()
	oldest := slices.SortedFunc(maps.Keys(created), func(a, b string) int {
		return cmp.Or(cmp.Compare(created[a], created[b]), cmp.Compare(a, b))
	})
	return observed{managed: l.managed(), without: l.without(oldest), sights: l.sights(), unasked: slices.Sorted(maps.Keys(unasked))}
}

// startedUnasked reports whether a container was created while no runtime asked Paddock. The last
// answer of an earlier process is known to some seconds, so what was created since then and has its
// CPUs counts as created by its answer.
func (l *loop) startedUnasked(w *converge.Wanted, before *table, c *api.Container) bool {
	if l.shown {
		return before.containers[c.GetId()] == nil
	}
	now := l.table.containers[c.GetId()]
	return c.GetCreatedAt() >= l.lost.UnixNano() && !now.has.CPUs.Equal(w.Setting(now.pod, now.name).CPUs)
}

// keepUnlisted keeps the containers that a runtime creates just now and does not show. It shows
// them only after their creation, and those whose creation failed or that have ended never. It is
// open whether the reply to the creation was applied.
func (l *loop) keepUnlisted(before *table, shown []*api.Container) {
	now, listed := l.config.Now(), map[string]bool{}
	for _, c := range shown {
		listed[c.GetId()] = true
	}
	for id, c := range before.containers {
		if c.phase == creating && !listed[id] && now.Sub(c.since) < creation && c.unlisted.IsZero() {
			c.has, c.sent, c.learned, c.unlisted = c.everything(), nil, true, now
			l.table.containers[id] = c
		}
	}
}

// found is a container that the runtime shows, with the setting that the runtime shows.
func (l *loop) found(w *converge.Wanted, uid string, c *api.Container) *container {
	setting, err := settingOf(c.GetLinux().GetResources())
	if err != nil {
		l.config.Log.ErrorContext(l.flow, "the CPUs of a container cannot be read: Paddock assumes that it runs on all CPUs", "uid", uid, "container", c.GetName(), "error", err)
	}
	phase := settled
	if c.GetState() == api.ContainerState_CONTAINER_CREATED {
		phase = creating
	}
	return &container{
		id: c.GetId(), pod: uid, name: c.GetName(), path: c.GetLinux().GetCgroupsPath(), has: setting, phase: phase,
		own: w.Owns(uid, c.GetName()), since: l.config.Now(), begun: c.GetState() == api.ContainerState_CONTAINER_RUNNING,
	}
}

// findForeign finds the containers whose CPUs another manager chose: those that came with CPUs and
// are still there, and, if the state never had a grant, all that have a cpuset.
func (l *loop) findForeign() {
	maps.DeleteFunc(l.foreign, func(id string, _ foreigner) bool { return l.table.containers[id] == nil })
	s := l.config.Engine.State()
	free := func(cpus cpuset.Set) bool { // On the shared pool, or everywhere.
		return cpus.IsEmpty() || cpus.Equal(s.SharedCPUs()) || cpus.Contains(s.Machine().AllCPUs())
	}
	for id, c := range l.table.containers {
		if l.fresh && !l.config.TakeOver && !free(c.has.CPUs) {
			l.foreign[id] = foreigner{l.table.who(c.pod), c.name, c.has}
		}
	}
	l.fresh = l.fresh && len(l.foreign) > 0
	if len(l.foreign) > 0 {
		l.publishUnmanaged()
	}
}

// without are the sandboxes of the pods among those that have no grant.
func (l *loop) without(uids []string) []*sandbox {
	var boxes []*sandbox
	for _, uid := range uids {
		if l.grant(uid) != nil {
			continue
		}
		if box := l.table.sandboxOf(uid); box != nil {
			boxes = append(boxes, box)
		}
	}
	return boxes
}

// synchronise is an event: it answers a runtime that synchronises. It ends the time in which pods
// started without Paddock, and logs what happened in it. The next round looks whether the reply was
// applied.
func (l *loop) synchronise(s *session, missed []string, sights []*sight) placed {
	if s != l.session {
		return placed{err: errGone}
	}
	l.saw(sights)
	if !l.shown {
		l.shown, l.seen = true, followed{} // Moves of an earlier process begin.
	}
	var updates []converge.Update
	var by *operation
	if len(l.foreign) == 0 {
		var stranded []converge.Observed
		updates, stranded = l.compare("")
		updates, _ = l.table.safe(l.want(), updates, stepwise)
		by = l.begin("", false)
		l.reply(by, updates)
		l.reportStranded(stranded)
	}
	now := l.config.Now()
	away := now.Sub(l.lost)
	l.synchronised, l.lost, l.adopting = true, now, nil
	l.publish()
	l.config.Observer.Away(away)
	l.config.Observer.Connected(true)
	slices.Sort(missed)
	missed = slices.Compact(missed)
	var repaired []string
	for _, u := range updates {
		repaired = append(repaired, u.Pod+"/"+u.Container)
	}
	slices.Sort(repaired)
	repaired = slices.Compact(repaired)
	l.config.Observer.Repaired(len(repaired))
	l.config.Log.InfoContext(l.flow, "synchronised with the runtime", "away", away.String(), "containers", len(l.table.containers),
		"pods_started_without_paddock", missed, "containers_repaired", repaired)
	l.shortly()
	return placed{updates: updates, by: by}
}
