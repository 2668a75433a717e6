package control

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
)

// Life is how far a container is in its life cycle, as shown by a runtime that synchronises.
type Life int

// The lives of a container. A runtime does not show a container that has ended.
const (
	OfUnknownLife Life = iota
	IsCreated          // It does not run yet.
	IsRunning
)

// Shown is a container as shown by a runtime that synchronises.
type Shown struct {
	Container // without the pod
	Box       string
	Life      Life
	// CreatedAt is in nanoseconds since 1970.
	CreatedAt int64
	Setting   converge.Setting
	// Err is the reason why the setting cannot be read. If nil, it can be read.
	Err error
}

// Synchronise is an event: a runtime shows everything that it has, which replaces the table of
// containers. The loop no longer waits for replies and updates of the connection before, because a
// runtime applies or drops them before it synchronises. Placed is the answer, after these jobs:
//
//	Read                reads the cgroups: the runtime does not know of lost updates or of other writers
//	ListGone            if pods with grants do not run: the pods that are gone are released
//	FindAll, AdmitAll   plan the pods that run without a grant
type Synchronise struct {
	Connection uint64
	Boxes      []*Sandbox
	Containers []Shown
	// Until is the latest time at which the jobs end.
	Until time.Time
}

// synchronising is a synchronisation that is under way. Each of its jobs has it.
type synchronising struct {
	request, connection uint64
	until               time.Time
	// without are the sandboxes of the pods that run without a grant. The pod with the oldest
	// container comes first.
	without []*Sandbox
	// missed are the names of the pods that were created without Paddock or could not be planned.
	missed []string
	// sights are what the cgroups show.
	sights []Sight
}

func (e Synchronise) on(s *step) {
	y := synchronising{request: s.event.Request, connection: e.Connection, until: e.Until}
	if s.left(y) {
		return
	}
	before := s.containers
	s.containers, s.sandboxes, s.since = records[container]{}, records[boxes]{}, s.now
	if s.replies = nil; s.flight != nil && !s.flight.direct {
		s.flight = nil
	}
	w, unasked := converge.Want(s.engine.State), map[string]bool{}
	uids, created := map[string]string{}, map[string]int64{}
	for _, box := range e.Boxes {
		if uids[box.ID] = box.Pod; box.Pod != "" {
			s.enterBox(box)
		}
	}
	for _, c := range e.Containers {
		uid := uids[c.Box]
		if uid == "" {
			continue
		}
		now := s.found(w, uid, c)
		s.containers.put(s, c.ID, now)
		if s.startedUnasked(w, &before, &now, c.CreatedAt) {
			unasked[s.who(uid)] = true
		}
		if at, there := created[uid]; !there || c.CreatedAt < at {
			created[uid] = c.CreatedAt
		}
	}
	if s.link.listsLate {
		s.keepUnlisted(&before, e.Containers)
	}
	s.keepWrites()
	if s.link.mode == resuming {
		s.link.mode = managing
	}
	s.findForeign()
	oldest := slices.SortedFunc(maps.Keys(created), func(a, b string) int {
		return cmp.Or(cmp.Compare(created[a], created[b]), cmp.Compare(a, b))
	})
	y.without, y.missed = s.without(oldest), slices.Sorted(maps.Keys(unasked))
	s.jobUntil(y.name(), y.until, Read{Sights: s.sights(), of: &y})
}

// name returns the name of the jobs. One connection does not synchronise twice at the same time.
func (y synchronising) name() string { return fmt.Sprint("synchronise ", y.request) }

// left reports whether the connection has ended. If so, it ends the synchronisation.
func (s *step) left(y synchronising) bool {
	over := y.connection != s.link.id
	if over {
		s.do(Answer{y.request, Placed{Err: ErrGone}})
	}
	return over
}

// glanced continues after the cgroups were read, or could not be read in time.
func (s *step) glanced(y synchronising, sights []Sight) {
	if y.sights = sights; s.left(y) {
		return
	}
	if !s.managed() {
		s.synchronised(y)
		return
	}
	if traces := s.traces(); len(traces) > 0 {
		s.jobUntil(y.name(), y.until, ListGone{Of: y, Traces: traces})
		return
	}
	s.adoptShown(y)
}

func (y synchronising) listed(s *step, listing Listing, err error) {
	if s.left(y) {
		return
	}
	if err == nil { // Otherwise the next round reports it.
		s.release(listing, nil)
	}
	s.adoptShown(y)
}

// adoptShown plans the pods that run without a grant.
func (s *step) adoptShown(y synchronising) {
	if len(y.without) == 0 {
		s.synchronised(y)
		return
	}
	s.adopt(Adoption{Boxes: y.without, name: y.name(), until: y.until, of: &y})
}

// startedUnasked reports whether a container was created without a request to Paddock. The time of
// the last answer of an earlier process is known only to within some seconds. So a container that
// was created since then and has its CPUs counts as created by that answer.
func (s *step) startedUnasked(w *converge.Wanted, before *records[container], now *container, createdAt int64) bool {
	if s.shown {
		return before.get(now.id) == nil
	}
	return createdAt >= s.lost.UnixNano() && !now.has.CPUs.Equal(w.Setting(now.pod, now.name).CPUs)
}

// keepUnlisted keeps the containers that a runtime is creating and does not show. The runtime shows
// them only after their creation. It never shows those whose creation failed or that have ended. It
// is not known whether the reply to the creation was applied.
func (s *step) keepUnlisted(before *records[container], shown []Shown) {
	listed := map[string]bool{}
	for _, c := range shown {
		listed[c.ID] = true
	}
	for id, c := range before.all() {
		if (c.phase == coming || c.phase == learned) && !listed[id] && s.now.Sub(c.since) < creation {
			kept := *c
			kept.has, kept.sent, kept.phase, kept.since = c.everything(), nil, unlisted, s.now
			s.containers.put(s, id, kept)
		}
	}
}

// found returns the record of a container that the runtime shows, with the setting that the runtime
// shows.
func (s *step) found(w *converge.Wanted, uid string, shown Shown) container {
	if shown.Err != nil {
		s.alert("the CPUs of a container cannot be read: Paddock assumes that it runs on all CPUs", "uid", uid, "container", shown.Name, "error", shown.Err)
	}
	c := shown.record()
	c.pod, c.has, c.own, c.since = uid, shown.Setting, w.Owns(uid, shown.Name), s.now
	switch shown.Life {
	case IsCreated:
		c.phase = coming
	case IsRunning:
		c.life = begun
	case OfUnknownLife:
	}
	return c
}

// findForeign finds the containers whose CPUs another manager chose: those that were created with
// CPUs and still exist and, if the state never had a grant, all containers with a cpuset that is
// neither the node shared pool nor all CPUs.
func (s *step) findForeign() {
	first := s.foreign.len() == 0
	s.foreign.removeIf(s, func(id string, _ *foreigner) bool { return s.containers.get(id) == nil })
	shared, all := s.engine.State.SharedCPUs(), s.engine.State.Machine().AllCPUs()
	free := func(cpus cpuset.Set) bool { // On the node shared pool, or everywhere.
		return cpus.IsEmpty() || cpus.Equal(shared) || cpus.Contains(all)
	}
	for id, c := range s.containers.all() {
		if s.fresh && !s.config.TakeOver && !free(c.has.CPUs) {
			s.foreign.put(s, id, foreigner{s.who(c.pod), c.name, c.has})
		}
	}
	s.fresh = s.fresh && s.foreign.len() > 0
	if s.foreign.len() > 0 {
		s.publishUnmanaged(first)
	}
}

// without returns a sandbox of each of the given pods that has no grant.
func (s *step) without(uids []string) []*Sandbox {
	var boxes []*Sandbox
	for _, uid := range uids {
		if s.grant(uid) != nil {
			continue
		}
		if box := s.sandboxOf(uid); box != nil {
			boxes = append(boxes, box)
		}
	}
	return boxes
}

// synchronised answers a runtime that synchronises. It ends the time in which pods started without
// Paddock, and logs what happened in that time. The next round checks whether the reply was
// applied.
func (s *step) synchronised(y synchronising) {
	if s.left(y) {
		return
	}
	s.saw(y.sights)
	if !s.shown {
		s.shown = true
		s.followMoves() // The moves of an earlier process begin.
	}
	var a converge.Answer
	var by *operation
	if s.foreign.len() == 0 {
		a = s.updates(converge.Occasion{By: converge.Stepwise})
		by = s.begin("", false)
		s.reply(by, a)
	}
	away := s.now.Sub(s.lost)
	s.link.mode, s.lost = managing, s.now
	s.endAdoption()
	s.publish()
	repaired := make([]string, 0, len(a.Updates))
	for _, u := range a.Updates {
		repaired = append(repaired, u.Pod+"/"+u.Container)
	}
	slices.Sort(repaired)
	repaired = slices.Compact(repaired)
	s.do(CountAway{away}, CountConnected{true}, CountRepaired{len(repaired)})
	missed := slices.Sorted(slices.Values(y.missed))
	s.info("synchronised with the runtime", "away", away.String(), "containers", s.containers.len(),
		"pods_started_without_paddock", slices.Compact(missed), "containers_repaired", repaired)
	s.shortly()
	s.do(Answer{y.request, Placed{Updates: a.Updates, by: by}})
}
