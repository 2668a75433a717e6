package nri

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Reconcile makes one round: retry, adopt, release, look, update. It tells whether something is expected
// to change soon. One goroutine may call it.
func (p *Plugin) Reconcile(ctx context.Context) (soon bool) {
	ctx = p.config.Operation(ctx)
	if err := p.config.Engine.Tick(ctx); err != nil {
		p.config.Log.WarnContext(ctx, "state still not written", "error", err)
	}
	if !p.managing() {
		return false
	}
	adopting := p.adoptLate(ctx)
	releasing := p.release(ctx)
	p.look(ctx)
	waiting := p.push(ctx)
	p.keepQuotas(ctx)
	return adopting || releasing || waiting
}

// calm is after how long a reply is certainly carried out that was given last.
const calm = 3 * time.Second

// adoptLate plans what runs and holds nothing. It is the only way in which CPUs are given away outside of
// the runtime's order of hooks, so it waits until no reply is on its way that could give them to others,
// and tells whether it does.
func (p *Plugin) adoptLate(ctx context.Context) (waiting bool) {
	s := p.config.Engine.State()
	p.mu.Lock()
	uids := slices.DeleteFunc(p.table.pods(), func(uid string) bool { _, known := s.Grant(uid); return known })
	waiting = p.config.Now().Sub(p.replied) < calm
	p.mu.Unlock()
	if len(uids) == 0 {
		return false
	}
	if !waiting {
		asked, cancel := context.WithTimeout(ctx, p.config.Timeout)
		defer cancel()
		p.adopt(asked, uids)
	}
	return waiting
}

// managing tells whether the table is what the runtime has, and ours.
func (p *Plugin) managing() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.aside == nil && p.link != nil && p.link.synchronised
}

// release takes back what pods hold that are gone. It tells whether some may be soon.
func (p *Plugin) release(ctx context.Context) (soon bool) {
	idle, resized, estimated := p.idle()
	if len(idle) == 0 && len(resized) == 0 && len(estimated) == 0 {
		return false
	}
	asked, cancel := context.WithTimeout(ctx, p.config.Timeout)
	listed, err := p.config.Pods.List(asked)
	cancel()
	if err != nil && len(idle)+len(resized) > 0 {
		p.config.Log.WarnContext(ctx, "the source of pods cannot tell who is gone", "error", err)
	}
	for _, g := range idle {
		if _, there := listed[g.Pod.UID]; there {
			soon = true
			continue
		}
		if !p.isGone(g, err == nil) {
			soon = true
			continue
		}
		if err := p.config.Engine.Release(ctx, g.Pod.UID); err != nil {
			p.config.Log.ErrorContext(ctx, "pod is gone and holds its CPUs until the state can be written", "pod", g.Pod.ID(), "uid", g.Pod.UID, "error", err)
			continue
		}
		p.config.Log.InfoContext(ctx, "pod released", "pod", g.Pod.ID(), "uid", g.Pod.UID)
	}
	if err == nil {
		p.forget(listed)
		for _, uid := range resized {
			p.sayResize(ctx, uid, listed)
		}
		for _, uid := range estimated {
			p.sayListed(ctx, uid, listed)
		}
	}
	return soon
}

// idle are the grants of pods without a container, the pods whose request may have changed, and those whose
// request was estimated and that were not listed since.
func (p *Plugin) idle() (idle []*node.Grant, resized, estimated []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range p.config.Engine.State().Grants() {
		if !p.table.hasContainer(g.Pod.UID) {
			idle = append(idle, g)
		}
		if g.Pod.Estimated && !p.told[g.Pod.UID] {
			estimated = append(estimated, g.Pod.UID)
		}
	}
	for uid := range p.resized {
		resized = append(resized, uid)
	}
	return idle, resized, estimated
}

// unlisted is how many times Config.Grace a pod keeps what it holds that was estimated, has a sandbox and no
// container, and was never listed by a source that answers: that has not been said to be gone.
const unlisted = 10

// isGone tells whether a pod that is not listed, by a source that could be asked or not, holds nothing any
// more. With a sandbox it is perhaps still being started or stopped, without one and without a
// source perhaps between two. A source that never listed it is as good as none.
func (p *Plugin) isGone(g *node.Grant, asked bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	uid := g.Pod.UID
	quiet := p.config.Now().Sub(p.table.quietSince(uid))
	never := g.Pod.Estimated && !p.told[uid]
	switch {
	case p.table.hasContainer(uid):
		return false // It was started meanwhile.
	case p.table.hasSandbox(uid) && never:
		return asked && quiet >= unlisted*p.config.Grace
	case p.table.hasSandbox(uid):
		return asked && quiet >= p.config.Grace
	}
	return asked && !never || quiet >= p.config.Grace
}

// forget drops what is remembered of pods that are gone.
func (p *Plugin) forget(listed map[string]request.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	gone := func(uid string) bool {
		_, there := listed[uid]
		return !there && !p.table.hasSandbox(uid) && !p.table.hasContainer(uid)
	}
	for uid := range p.refused {
		if gone(uid) {
			delete(p.refused, uid)
		}
	}
	for uid := range p.told {
		if gone(uid) {
			delete(p.told, uid)
		}
	}
	for uid := range p.table.quiet {
		if gone(uid) {
			delete(p.table.quiet, uid)
		}
	}
}

// sayResize says of a pod that was resized in place what it would need, and whether the node has that.
func (p *Plugin) sayResize(ctx context.Context, uid string, listed map[string]request.Pod) {
	s := p.config.Engine.State()
	g, known := s.Grant(uid)
	now, there := listed[uid]
	estimated := known && g.Pod.Estimated
	p.mu.Lock()
	delete(p.resized, uid)
	if estimated {
		delete(p.told, uid) // What it would get is to be said again.
	}
	p.mu.Unlock()
	if !known || !there || estimated || g.Pod.Equal(now) {
		return
	}
	p.sayAnew(ctx, s, g, now, "the pod was resized")
}

// sayListed says of a pod whose request was estimated and that is listed by now what it would get.
func (p *Plugin) sayListed(ctx context.Context, uid string, listed map[string]request.Pod) {
	s := p.config.Engine.State()
	g, known := s.Grant(uid)
	now, there := listed[uid]
	if !known || !there {
		return
	}
	p.mu.Lock()
	p.told[uid] = true
	p.mu.Unlock()
	p.sayAnew(ctx, s, g, now, "the pod was estimated from cgroup numbers, is listed now,")
}

// sayAnew says what a pod would get that was made anew and asked for now.
func (p *Plugin) sayAnew(ctx context.Context, s *node.State, g *node.Grant, now request.Pod, what string) {
	log := p.config.Log.With("pod", now.ID(), "uid", now.UID, "has", g.CPUs().String())
	plan := s.Release(now.UID).Plan(now)
	if plan.Refusal != nil {
		log.WarnContext(ctx, what+" and keeps what it has: made anew it would be refused", "why", plan.Refusal.Error())
		return
	}
	log.WarnContext(ctx, what+" and keeps what it has until it is made anew", "would_get", plan.Grant.CPUs().Len(), "cpus_now", g.CPUs().Len())
}

// look reads what the kernel was told, and believes it where no update is under way.
func (p *Plugin) look(ctx context.Context) {
	type sight struct {
		id, path string
		touched  int
	}
	var sights []sight
	p.mu.Lock()
	flying := p.link != nil && p.link.flight != nil
	for _, c := range p.table.containers {
		if c.path != "" && !flying {
			sights = append(sights, sight{c.id, c.path, c.touched})
		}
	}
	p.mu.Unlock()
	for _, at := range sights {
		setting, err := p.config.Cgroups.Read(at.path)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				p.config.Log.WarnContext(ctx, "a container's cgroup cannot be read", "cgroup", at.path, "error", err)
			}
			continue
		}
		p.mu.Lock()
		if c := p.table.containers[at.id]; c != nil && c.touched == at.touched {
			c.see(setting, p.config.Now())
		}
		p.mu.Unlock()
	}
}

// push updates what does not run where it should, if the runtime stands that. Containers for which a reply
// is still on its way are left for the next round: nobody knows which of two would be the last. It tells
// whether there are such.
func (p *Plugin) push(ctx context.Context) (waiting bool) {
	p.mu.Lock()
	link := p.link
	if link == nil || !link.synchronised || !link.mayUpdate || link.flight != nil {
		p.mu.Unlock()
		return false
	}
	s := p.config.Engine.State()
	updates, stranded := p.table.compare(s, "")
	all := len(updates)
	updates = slices.DeleteFunc(updates, func(u converge.Update) bool { return p.table.containers[u.ID].waits(p.config.Now()) })
	waiting = len(updates) < all
	messages := updatesOf(updates)
	if len(messages) == 0 {
		p.mu.Unlock()
		p.say(ctx, stranded)
		return waiting
	}
	link.flight = &flight{generation: s.Generation(), done: make(chan struct{})}
	p.table.expect(flying, updates, p.config.Now())
	p.mu.Unlock()
	p.say(ctx, stranded)
	failed, err := link.UpdateContainers(messages)
	p.landed(ctx, link, updates, failed, err)
	return waiting
}

// flying is the operation of updates that nobody asked for.
const flying = "flying"

func (p *Plugin) landed(ctx context.Context, link *linked, updates []converge.Update, failed []*api.ContainerUpdate, err error) {
	p.mu.Lock()
	close(link.flight.done)
	link.flight = nil
	ids := make([]string, len(failed))
	for i, u := range failed {
		ids[i] = u.GetContainerId()
	}
	if err != nil {
		for _, u := range updates {
			ids = append(ids, u.ID)
		}
	}
	p.table.confirm(flying, ids...)
	p.mu.Unlock()
	if err != nil || len(failed) > 0 {
		p.config.Log.ErrorContext(ctx, "containers not updated; the next round tries again", "failed", len(ids), "error", err)
		return
	}
	repaired := 0
	for _, u := range updates {
		if !u.After.CPUs.Contains(u.Before.CPUs) { // Others only get what became free.
			repaired++
		}
		p.config.Log.DebugContext(ctx, "container updated", "uid", u.Pod, "container", u.Container, "from", u.Before.CPUs.String(), "to", u.After.CPUs.String())
	}
	p.config.Observer.Repaired(repaired)
}

// keepQuotas lifts the quota of pods again, of those that should have none.
func (p *Plugin) keepQuotas(ctx context.Context) {
	for _, g := range p.config.Engine.State().Grants() {
		p.mu.Lock()
		parents := p.table.parents(g.Pod.UID)
		p.mu.Unlock()
		p.liftQuota(ctx, g, parents)
	}
}

// reconcile is the loop.
func (p *Plugin) reconcile(ctx context.Context) error {
	const soonest = 2 * time.Second
	for {
		wait := p.config.Period
		if p.Reconcile(ctx) {
			wait = min(wait, soonest)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-p.kick:
		case <-p.config.After(wait):
		}
	}
}
