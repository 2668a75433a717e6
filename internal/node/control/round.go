package control

import (
	"errors"
	"slices"
	"time"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/quota"
)

// flight is an unsolicited update that is under way. It never changes. direct is true if the agent
// writes the cgroups itself. blocked is true after it was logged that such a write does not end.
type flight struct {
	by              *operation
	updates         []converge.Update
	direct, blocked bool
}

// round starts the jobs that check whether everything is as it should be.
func (s *step) round() {
	s.due = time.Time{}
	s.within(s.config.Period)
	s.forget()
	s.job("write", Write{})
	if !s.link.synchronised() {
		return
	}
	if s.config.Alive && s.now.Sub(s.beat) >= beating {
		s.beat = s.now
		s.job("alive", KeepAlive{s.now})
	}
	if s.link.mode == resuming {
		s.hangUp(toResume, errors.New("the connection was closed so that the runtime synchronises and Paddock manages this node again"))
	}
	s.keepNotices()
	s.keepGone()
	if s.foreign.len() > 0 || s.link.mode == resuming {
		s.differing = records[differing]{} // Nothing is assigned here now.
		s.do(CountUnverified{0})
		s.do(CountUnsettled{0})
		return
	}
	s.overdue()
	s.endCreations()
	inspects := s.back == nil && s.inspect()
	if !inspects {
		s.look()
	}
	if s.back == nil {
		s.list()
		s.adoptLate()
		s.follow()
		s.keepQuotas("quotas", nil)
	}
	if inspects {
		s.soon() // Containers are not changed while they are compared. The comparison pushes when it ends.
		s.publish()
		return
	}
	s.push()
}

// forget drops what is known about pods and no longer matters. A sandbox of a pod without a grant
// and without containers does not matter, because any request about it describes it again.
func (s *step) forget() {
	there := map[string]bool{}
	for _, c := range s.containers.all() {
		there[c.pod] = true
	}
	granted := func(uid string) bool {
		_, known := s.engine.State.Grant(uid)
		return known
	}
	quiet := max(remembered, 10*s.config.Grace)
	for uid, of := range s.sandboxes.all() {
		if !there[uid] && !granted(uid) && s.now.Sub(s.trace(uid).Since) > quiet {
			for _, box := range *of {
				s.leaveBox(uid, box.ID)
			}
		}
	}
	passed := func(at time.Time, after time.Duration) bool { return !at.IsZero() && s.now.Sub(at) >= after }
	for uid, p := range s.pods.all() {
		next := *p
		if s.now.Sub(p.rejected.At) > remembered {
			next.rejected = Rejection{}
		}
		if passed(p.failed, without) {
			next.failed = time.Time{}
		}
		if passed(p.movedAt, s.config.Interval) {
			next.movedAt = time.Time{}
		}
		if s.now.Sub(p.heard) > quiet && len(s.boxesOf(uid)) == 0 && !there[uid] {
			next.heard = time.Time{}
		}
		next.reported = p.reported && granted(uid)
		switch {
		case next.empty():
			s.pods.remove(s, uid)
		case next.reported != p.reported || !next.heard.Equal(p.heard) || !next.movedAt.Equal(p.movedAt) || !next.failed.Equal(p.failed) || !next.rejected.At.Equal(p.rejected.At):
			s.pods.put(s, uid, next)
		}
	}
}

// endCreations ends the wait for containers that the runtime never reported as created, and for the
// replies to their creation. All other replies may still be applied, however late, until the
// runtime asks again.
func (s *step) endCreations() {
	for id, c := range s.containers.all() {
		if c.creating() && s.now.Sub(c.since) >= creation {
			s.containers.edit(s, id).waitEnds()
		}
	}
	s.settle(func(by *operation) bool { return by.creates != "" && s.now.Sub(by.at) >= creation }, (*container).doubt)
}

// Written is the outcome of Write.
type Written struct {
	Releases bool
	Err      error
}

func (e Written) on(s *step) {
	switch {
	case e.Err != nil && e.Releases:
		s.alert("pods that are gone keep their CPUs until the state can be written", "error", e.Err)
	case e.Err != nil:
		s.warn("the state still cannot be written", "error", e.Err)
	}
	if e.Releases {
		s.push()
	}
}

// keepQuotas writes the CFS quotas of the pods' cgroups again, because the kubelet writes its own
// when a container of the pod is resized. only has the UIDs of the pods. If nil, it writes those of
// all pods. job is the name of the job.
func (s *step) keepQuotas(job string, only []string) {
	state := s.state()
	var pods []PodQuota
	for _, g := range state.Grants() {
		if want := quota.OfPod(g, state.Policy()); want != quota.Keep && (only == nil || slices.Contains(only, g.Pod.UID)) {
			pods = append(pods, PodQuota{g, want, s.parents(g.Pod.UID)})
		}
	}
	if len(pods) > 0 {
		s.job(job, SetQuotas{pods})
	}
}

// push updates the containers that do not have their settings, if the runtime takes unsolicited
// updates.
func (s *step) push() {
	s.publish()
	if !s.link.synchronised() || s.foreign.len() > 0 || s.flight != nil {
		return
	}
	s.advance()
	a := s.updates(converge.Occasion{By: converge.Unsolicited})
	unsettled := a.Differing + s.beingCreated()
	s.do(CountUnsettled{unsettled})
	if s.back != nil && unsettled == 0 {
		s.do(HandedBack{})
	}
	s.reportStranded(a.Stranded)
	if a.Withheld > 0 || len(a.Updates) < a.Differing {
		s.soon()
	}
	updates := a.Updates[:min(len(a.Updates), most)]
	if stopping := s.writable(updates, true); len(stopping) > 0 {
		s.writeCgroups(stopping)
		return
	}
	if !s.link.mayUpdate {
		s.owe(len(updates) > 0, updates)
		return
	}
	if !slices.ContainsFunc(updates, converge.Update.Changes) {
		s.owe(a.Withheld > 0 && s.allSettled(), nil) // Containers that run only on each other's CPUs: a reply exchanges them.
		return
	}
	s.fly(s.begin("", true), updates, false)
	s.do(Update{s.link.id, s.flight.by.number, updates})
}

// allSettled reports whether nothing is under way that could make room for an update.
func (s *step) allSettled() bool {
	for _, c := range s.containers.all() {
		if c.phase != settled {
			return false
		}
	}
	return true
}

// owe closes the connection if updates wait for a reply and no reply took them for a while. The
// runtime then synchronises again, and the reply to that has the updates. They wait because the
// runtime takes no other updates, or because only a reply makes them one right after the other. If
// updates are soon needed again, because they fail or another process writes the cgroups, the wait
// doubles each time.
//
// A container that is created between two connections is created without Paddock, and a container
// that stops can keep the runtime from synchronising. So owe does not close the connection while
// the runtime creates a sandbox or a container, or stops one that blocks it. The agent then writes
// the cgroups itself. Updates without a safe order wait, as long as a kubelet waits for a creation.
func (s *step) owe(owes bool, updates []converge.Update) {
	d := &s.link.debt
	wait := owing << d.dunned
	switch {
	case !owes:
		d.since = time.Time{}
	case d.since.IsZero():
		if s.now.Sub(d.dunnedAt) > 2*wait+resend {
			d.dunned = 0
		}
		d.since = s.now
		s.soon()
	case s.now.Sub(d.since) < wait:
		s.soon()
	case !s.mayDun():
		if updates = s.writable(updates, false); len(updates) > 0 {
			s.info("a new connection would disturb creations, or wait for a container that stops: the agent writes the cgroups", "containers", len(updates))
			s.writeCgroups(updates)
		}
		s.soon()
	default:
		s.hangUp(inDebt, errors.New("the connection was closed so that the runtime synchronises and takes the updates that wait"))
	}
}

// overdue asks the runtime to synchronise again if an update never landed although other requests
// came. An update that is stuck under the runtime's lock is a different case. No other request
// comes then, and if the connection were closed, the runtime would create its next container
// without Paddock.
func (s *step) overdue() {
	f := s.flight
	if f != nil && f.direct {
		s.blocked(*f)
		return
	}
	if f == nil || s.link.heard.Sub(f.by.at) < landing || s.link.ending.why != staying {
		return
	}
	s.alert("the runtime does not apply an update: the connection is closed so that the runtime synchronises", "containers", len(f.updates), "for", landing.String())
	s.link.ending.flight = f.by.number
	s.hangUp(stuck, errors.New("the runtime did not apply an update"))
}

// Landed is the outcome of Update. The update was applied completely, in part or not at all.
type Landed struct {
	Number uint64
	Failed []string // the IDs of the containers
	Err    error
}

func (e Landed) on(s *step) {
	f := s.flight
	if f == nil || f.by.number != e.Number {
		return // The runtime synchronised since.
	}
	s.flight = nil
	repaired, all := 0, e.Err != nil && !f.direct // A write of cgroups fails for each container alone.
	for _, u := range f.updates {
		if s.containers.get(u.ID) == nil {
			continue
		}
		c := s.containers.edit(s, u.ID)
		if all || slices.Contains(e.Failed, u.ID) {
			c.doubt(f.by)
			continue
		}
		c.made(f.by)
		if !u.After.CPUs.Contains(u.Before.CPUs) { // Other updates only add CPUs that became free.
			repaired++
		}
	}
	s.do(CountRepaired{repaired})
	if e.Err != nil || len(e.Failed) > 0 {
		s.alert("containers could not be updated; the agent tries again", "failed", len(e.Failed), "of", len(f.updates), "error", e.Err)
		s.soon()
		return
	}
	s.push() // Other updates may have waited for these.
}
