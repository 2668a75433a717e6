package nri

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/absence"
)

// flight is an unsolicited update that is under way.
type flight struct {
	by      *operation
	session *session
	updates []converge.Update
}

// tick is an event: a round. It starts the jobs that check whether everything is as it should be.
// Their outcomes are events.
func (l *loop) tick() {
	now := l.config.Now()
	l.due = time.Time{}
	l.within(l.config.Period)
	maps.DeleteFunc(l.rejections, func(_ string, r rejected) bool { return now.Sub(r.at) > remembered })
	maps.DeleteFunc(l.failed, func(_ string, at time.Time) bool { return now.Sub(at) >= without })
	maps.DeleteFunc(l.movedAt, func(_ string, at time.Time) bool { return now.Sub(at) >= l.config.Moves.Interval })
	running := l.table.pods()
	maps.DeleteFunc(l.table.heard, func(pod string, at time.Time) bool {
		old := now.Sub(at) > max(remembered, 10*l.config.Grace)
		return old && !l.table.hasSandbox(pod) && !slices.Contains(running, pod)
	})
	l.job("write", func(ctx context.Context) func(*loop) {
		asked, cancel := context.WithTimeout(ctx, l.config.Period)
		defer cancel()
		if err := l.config.Engine.Tick(asked); err != nil {
			l.config.Log.WarnContext(ctx, "the state still cannot be written", "error", err)
		}
		return func(*loop) {}
	})
	if !l.synchronised {
		return
	}
	if l.config.Alive != nil && now.Sub(l.beat) >= beating {
		l.beat = now
		l.job("alive", func(context.Context) func(*loop) {
			l.config.Alive(now)
			return func(*loop) {}
		})
	}
	if l.resuming {
		l.hangUp(hanging{
			cause: errors.New("the connection was closed so that the runtime synchronises and Paddock manages this node again"),
			still: func(l *loop) bool { return l.resuming },
		})
	}
	l.keepNotices()
	l.keepGone()
	if len(l.foreign) > 0 || l.resuming {
		l.differing = map[string]differing{} // Nothing is assigned here now.
		l.config.Observer.Unverified(0)
		return
	}
	l.overdue()
	// The wait for containers that the runtime never reported as created ends. Everything else in a
	// reply may still be applied, however late, until the runtime asks again.
	for _, c := range l.table.containers {
		if c.phase == creating && now.Sub(c.since) >= creation {
			c.phase = unknown
			l.settle(func(by *operation) bool { return by.creates == c.id }, (*container).doubt)
		}
	}
	inspects := l.back == nil && l.inspect()
	if !inspects {
		l.look()
	}
	if l.back == nil {
		l.list()
		l.adoptLate()
		l.follow()
		l.keepQuotas("quotas", nil)
	}
	if inspects {
		l.soon() // What is compared now is not changed meanwhile. The comparison pushes when it ends.
		l.publish()
		return
	}
	l.push()
}

// list asks the source of pods which pods are gone, if a grant is not used or was estimated.
func (l *loop) list() {
	if len(l.idle()) == 0 && len(l.estimated()) == 0 {
		return
	}
	l.job("list", func(ctx context.Context) func(*loop) {
		asked, cancel := context.WithTimeout(ctx, l.config.Timeout)
		defer cancel()
		listed, err := l.config.Pods.List(asked)
		return func(l *loop) { l.listed(listed, err) }
	})
}

// listed is an event: the source of pods answered, or did not.
func (l *loop) listed(listed map[string]request.Pod, err error) {
	l.reportList(err)
	if !l.synchronised {
		return
	}
	if l.release(listed, err) {
		l.job("release", func(ctx context.Context) func(*loop) {
			asked, cancel := context.WithTimeout(ctx, l.config.Period)
			defer cancel()
			if err := l.config.Engine.Tick(asked); err != nil {
				l.config.Log.ErrorContext(ctx, "pods that are gone keep their CPUs until the state can be written", "error", err)
			}
			return (*loop).push
		})
	}
	if err != nil {
		return
	}
	s := l.config.Engine.State()
	for _, uid := range l.estimated() {
		g, known := s.Grant(uid)
		if now, there := listed[uid]; known && there {
			l.reported[uid] = true
			l.reportPlan(s, g, now)
		}
	}
}

// reportList logs that the source of pods does not answer: once when that begins, and from time to
// time while it lasts.
func (l *loop) reportList(err error) {
	now := l.config.Now()
	switch {
	case err != nil && now.Sub(l.unlistedAt) >= relisted:
		l.unlistedAt = now
		l.config.Log.WarnContext(l.flow, "the list of pods cannot be read: it is unknown which pods are gone", "error", err)
	case err == nil && !l.unlistedAt.IsZero():
		l.unlistedAt = time.Time{}
		l.config.Log.InfoContext(l.flow, "the list of pods can be read again")
	}
}

// idle are the grants of pods without a container that runs or is being created, including grants
// that are not durable yet.
func (l *loop) idle() []*node.Grant {
	if !l.synchronised && len(l.table.containers) == 0 && len(l.table.sandboxes) == 0 {
		return nil // It is not known what runs.
	}
	snapshot := l.config.Engine.Snapshot()
	used := map[string]bool{}
	for _, c := range l.table.containers {
		used[c.pod] = used[c.pod] || !c.absent
	}
	for _, uid := range snapshot.Unreleased {
		used[uid] = true
	}
	var idle []*node.Grant
	for _, grants := range [][]*node.Grant{snapshot.State.Grants(), snapshot.Pending} {
		for _, g := range grants {
			if !used[g.Pod.UID] {
				idle = append(idle, g)
			}
		}
	}
	return idle
}

// estimated are the pods whose request was estimated, and whose listed request was not logged yet.
func (l *loop) estimated() []string {
	var uids []string
	for _, g := range l.config.Engine.State().Grants() {
		if g.Pod.Estimated && !l.reported[g.Pod.UID] {
			uids = append(uids, g.Pod.UID)
		}
	}
	return uids
}

// release drops the grants of pods that are gone, if the source answered. It reports whether there
// were any. Containers that still run stay in the table.
func (l *loop) release(listed map[string]request.Pod, err error) (released bool) {
	for _, g := range l.idle() {
		if _, there := listed[g.Pod.UID]; err != nil || there || !l.isGone(g) {
			l.soon()
			continue
		}
		l.config.Engine.Drop(l.flow, g.Pod.UID)
		maps.DeleteFunc(l.table.containers, func(_ string, c *container) bool { return c.pod == g.Pod.UID && c.absent })
		released = true
	}
	return released
}

// unlisted is how many times Config.Grace a pod with a sandbox and without a container keeps its
// estimated assignments, if a source that answers never listed it: such a source does not report
// its end either. Ten times are the five minutes of the kubelet's longest back-off.
const unlisted = 10

// isGone reports whether a pod without containers, which is not listed, is gone. A source that
// never listed the pod proves nothing.
func (l *loop) isGone(g *node.Grant) bool {
	uid := g.Pod.UID
	since, known := l.table.heard[uid]
	if !known {
		since = l.table.since
	}
	sandbox := l.table.hasSandbox(uid)
	if !g.Pod.Estimated || l.reported[uid] {
		return l.config.Pods.Gone(uid, absence.Trace{Sandbox: sandbox, Since: since})
	}
	grace := l.config.Grace
	if sandbox {
		grace *= unlisted
	}
	return l.config.Now().Sub(since) >= grace
}

// reportPlan logs what an estimated pod would get with the request that the kubelet lists now, if
// it were created again.
func (l *loop) reportPlan(s *node.State, g *node.Grant, now request.Pod) {
	log := l.config.Log.With("pod", now.ID(), "uid", now.UID, "has", g.CPUs().String())
	plan := s.Release(now.UID).Plan(now)
	if plan.Rejection != nil {
		log.WarnContext(l.flow, "the kubelet lists an estimated pod now: it keeps what it has, and would be rejected if it were created again", "why", plan.Rejection.Error())
		return
	}
	log.WarnContext(l.flow, "the kubelet lists an estimated pod now: it keeps what it has until it is created again", "would_get", plan.Grant.CPUs().Len(), "cpus_now", g.CPUs().Len())
}

// adoptLate plans the pods that run without a grant.
func (l *loop) adoptLate() {
	boxes := l.without(l.table.pods())
	maps.DeleteFunc(l.unplanned, func(uid, _ string) bool {
		return !slices.ContainsFunc(boxes, func(box *sandbox) bool { return box.pod == uid })
	})
	if len(boxes) == 0 {
		return
	}
	l.job("adopt", func(ctx context.Context) func(*loop) {
		asked, cancel := context.WithTimeout(ctx, l.config.Timeout)
		defer cancel()
		l.adopt(asked, boxes, l.config.Timeout)
		return func(l *loop) {
			l.adopting = nil
			l.push()
		}
	})
}

// keepQuotas writes the CFS quotas of the pods' cgroups again: the kubelet writes its own when a
// container of the pod is resized. only are the pods by UID; nil: all. job is the name of the job.
func (l *loop) keepQuotas(job string, only []string) {
	s := l.state()
	type pod struct {
		grant   *node.Grant
		want    node.Quota
		parents []string
	}
	var pods []pod
	for _, g := range s.Grants() {
		if want := g.PodQuota(s.Policy()); want != node.KeepQuota && (only == nil || slices.Contains(only, g.Pod.UID)) {
			pods = append(pods, pod{g, want, l.table.parents(g.Pod.UID)})
		}
	}
	if len(pods) == 0 {
		return
	}
	l.job(job, func(ctx context.Context) func(*loop) {
		for _, p := range pods {
			l.setQuota(ctx, p.grant, p.want, p.parents)
		}
		return func(*loop) {}
	})
}

// push updates the containers that do not have their settings, if the runtime takes unsolicited
// updates.
func (l *loop) push() {
	l.publish()
	if l.session == nil || !l.synchronised || len(l.foreign) > 0 || l.flight != nil {
		return
	}
	l.advance()
	w := l.want()
	now := l.config.Now()
	updates, stranded := l.compare("")
	if l.back != nil && len(updates)+l.table.beingCreated() == 0 {
		select {
		case <-l.back.done:
		default:
			close(l.back.done)
		}
	}
	l.reportStranded(stranded)
	all := len(updates)
	updates = slices.DeleteFunc(updates, func(u converge.Update) bool {
		c := l.table.containers[u.ID]
		return c.waits(now) || now.Before(c.awaited)
	})
	updates, withheld := l.table.safe(w, updates, unsolicited)
	if withheld > 0 || len(updates) < all {
		l.soon()
	}
	if len(updates) > most {
		updates = updates[:most]
	}
	if !l.session.mayUpdate {
		l.owe(now, len(updates) > 0)
		return
	}
	messages := updatesOf(updates)
	if len(messages) == 0 {
		return
	}
	f := &flight{by: l.begin("", true), session: l.session, updates: updates}
	for _, u := range updates {
		l.table.containers[u.ID].send(f.by, u.After, takes(w, u))
	}
	l.flight = f
	l.jobs.Go(func() { // It ends with its connection at the latest.
		failed, err := f.session.link.UpdateContainers(messages)
		l.tell(l.ctx, "landed", func(l *loop) { l.landed(f, failed, err) })
	})
}

// owe closes the connection of a runtime that takes updates only in replies, if none took them for
// a while: the runtime synchronises again, and that reply contains them. While the runtime creates
// a sandbox or a container, this waits, for as long as a kubelet waits for a creation: what is
// created between two connections is created without Paddock. If updates are soon needed again,
// because they fail or another process writes the cgroups, the wait doubles each time.
func (l *loop) owe(now time.Time, owes bool) {
	wait := owing << l.dunned
	switch {
	case !owes:
		l.owed = time.Time{}
	case l.owed.IsZero():
		if now.Sub(l.dunnedAt) > 2*wait+resend {
			l.dunned = 0
		}
		l.owed = now
		l.soon()
	case now.Sub(l.owed) < wait, now.Sub(l.owed) < wait+creation && l.underWay():
		l.soon()
	default:
		l.hangUp(hanging{
			cause: errors.New("the connection was closed so that the runtime synchronises and takes the updates that wait"),
			still: func(l *loop) bool { return !l.owed.IsZero() },
			done:  func(l *loop) { l.dunned, l.dunnedAt = min(l.dunned+1, patience), l.config.Now() },
		})
	}
}

// overdue asks the runtime to synchronise again if an update never landed although other requests
// came. An update that is stuck under the runtime's lock is different: no other request comes
// meanwhile, and if the connection were closed, the runtime would create its next container without
// Paddock.
func (l *loop) overdue() {
	f := l.flight
	if f == nil || l.heard.Sub(f.by.at) < landing {
		return
	}
	if l.hanging.session == nil {
		l.config.Log.ErrorContext(l.flow, "the runtime does not apply an update: the connection is closed so that the runtime synchronises", "containers", len(f.updates), "for", landing.String())
		l.hangUp(hanging{cause: errors.New("the runtime did not apply an update"), still: func(l *loop) bool { return l.flight == f }})
	}
}

// landed is an event: an unsolicited update was applied, in part or not at all.
func (l *loop) landed(f *flight, failed []*api.ContainerUpdate, err error) {
	if l.flight != f {
		return // The runtime synchronised since.
	}
	l.flight = nil
	lost := map[string]bool{}
	for _, u := range failed {
		lost[u.GetContainerId()] = true
	}
	repaired := 0
	for _, u := range f.updates {
		c := l.table.containers[u.ID]
		switch {
		case c == nil:
		case err != nil || lost[u.ID]:
			c.doubt(f.by)
		default:
			c.made(f.by)
			if !u.After.CPUs.Contains(u.Before.CPUs) { // Others only get what became free.
				repaired++
			}
		}
	}
	l.config.Observer.Repaired(repaired)
	if err != nil || len(failed) > 0 {
		l.config.Log.ErrorContext(l.flow, "containers could not be updated; the agent tries again", "failed", len(failed), "of", len(f.updates), "error", err)
		l.soon()
		return
	}
	l.push() // Other updates may have waited for these.
}
