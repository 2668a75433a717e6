package control

import (
	"time"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// list asks the source of pods which pods are gone, if a grant is unused or was estimated.
func (s *step) list() {
	if traces := s.traces(); len(traces) > 0 || len(s.estimated()) > 0 {
		s.jobOfRound("list", ListGone{Of: listOfRound{}, Traces: traces})
	}
}

// Listing is the answer of the source of pods: the pods that exist and, for each trace that was
// asked about, whether its pod is gone.
type Listing struct {
	Pods   map[string]request.Pod
	Traces map[string]Trace
	Gone   map[string]bool
}

// listOfRound is the listener for the list of a round.
type listOfRound struct{}

func (listOfRound) listed(s *step, of Listing, err error) {
	s.reportList(err)
	if !s.link.synchronised() {
		return
	}
	if s.release(of, err) {
		s.job("release", Write{Releases: true})
	}
	if err != nil {
		return
	}
	for _, uid := range s.estimated() {
		g, known := s.engine.State.Grant(uid)
		if now, there := of.Pods[uid]; known && there {
			s.pods.edit(s, uid).reported = true
			s.reportPlan(g, now)
		}
	}
}

// listener gets a list of the pods that it waits for.
type listener interface{ listed(*step, Listing, error) }

// GoneListed is the outcome of ListGone.
type GoneListed struct {
	Of      ListGone
	Listing Listing
	Err     error
}

func (e GoneListed) on(s *step) { e.Of.Of.listed(s, e.Listing, e.Err) }

// reportList logs that the source of pods does not answer: once when that begins, and every
// `relisted` while it lasts.
func (s *step) reportList(err error) {
	switch {
	case err != nil && s.now.Sub(s.unlistedAt) >= relisted:
		s.unlistedAt = s.now
		s.warn("the list of pods cannot be read: it is unknown which pods are gone", "error", err)
	case err == nil && !s.unlistedAt.IsZero():
		s.unlistedAt = time.Time{}
		s.info("the list of pods can be read again")
	}
}

// idle returns the grants of pods without a container that runs or is being created. It includes
// grants that are not durable yet.
func (s *step) idle() []*node.Grant {
	if !s.link.synchronised() && s.containers.len() == 0 && s.sandboxes.len() == 0 {
		return nil // It is not known what runs.
	}
	used := map[string]bool{}
	for _, c := range s.containers.all() {
		used[c.pod] = used[c.pod] || c.life != ended
	}
	for _, uid := range s.engine.Unreleased {
		used[uid] = true
	}
	var idle []*node.Grant
	for _, grants := range [][]*node.Grant{s.engine.State.Grants(), s.engine.Pending} {
		for _, g := range grants {
			if !used[g.Pod.UID] {
				idle = append(idle, g)
			}
		}
	}
	return idle
}

// traces returns the traces of the idle grants. It returns nil if there are none.
func (s *step) traces() map[string]Trace {
	var traces map[string]Trace
	for _, g := range s.idle() {
		if traces == nil {
			traces = map[string]Trace{}
		}
		traces[g.Pod.UID] = s.trace(g.Pod.UID)
	}
	return traces
}

func (l *Loop) trace(uid string) Trace {
	since := l.pod(uid).heard
	if since.IsZero() {
		since = l.since
	}
	return Trace{Sandbox: len(l.boxesOf(uid)) > 0, Since: since}
}

// estimated returns the UIDs of the pods whose request was estimated and whose listed request was
// not logged yet.
func (s *step) estimated() []string {
	var uids []string
	for _, g := range s.engine.State.Grants() {
		if g.Pod.Estimated && !s.pod(g.Pod.UID).reported {
			uids = append(uids, g.Pod.UID)
		}
	}
	return uids
}

// release drops the grants of pods that are gone, if the source answered. It reports whether it
// dropped any. Containers that still run stay in the table.
func (s *step) release(of Listing, err error) (released bool) {
	for _, g := range s.idle() {
		uid := g.Pod.UID
		if _, there := of.Pods[uid]; err != nil || there || !s.isGone(g, of) {
			s.soon()
			continue
		}
		s.do(Drop{uid})
		s.containers.removeIf(s, func(_ string, c *container) bool { return c.pod == uid && c.life == ended })
		released = true
	}
	return released
}

// unlistedGraces is how many times Config.Grace a pod with a sandbox and without a container keeps
// its estimated assignments, if a source that answers never listed the pod. Such a source does not
// report the end of the pod either. Ten times Grace is the five minutes of the kubelet's longest
// back-off.
const unlistedGraces = 10

// isGone reports whether a pod without containers that is not listed is gone. A source that never
// listed the pod proves nothing, and neither does an answer about an earlier trace of the pod.
func (s *step) isGone(g *node.Grant, of Listing) bool {
	uid := g.Pod.UID
	trace := s.trace(uid)
	if !g.Pod.Estimated || s.pod(uid).reported {
		return of.Gone[uid] && of.Traces[uid] == trace
	}
	grace := s.config.Grace
	if trace.Sandbox {
		grace *= unlistedGraces
	}
	return s.now.Sub(trace.Since) >= grace
}

// reportPlan logs what an estimated pod would get with the request that the kubelet lists now, if
// it were created again.
func (s *step) reportPlan(g *node.Grant, now request.Pod) {
	args := []any{"pod", now.ID(), "uid", now.UID, "has", g.CPUs().String()}
	plan := s.engine.State.Release(now.UID).Plan(now)
	if plan.Rejection != nil {
		s.warn("the kubelet lists an estimated pod now: it keeps what it has, and would be rejected if it were created again", append(args, "why", plan.Rejection.Error())...)
		return
	}
	s.warn("the kubelet lists an estimated pod now: it keeps what it has until it is created again", append(args, "would_get", plan.Grant.CPUs().Len(), "cpus_now", g.CPUs().Len())...)
}
