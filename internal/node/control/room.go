package control

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/paddock-project/paddock/internal/core/moves"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

const (
	// quiet is how long a pod is left alone after one of its containers was created, changed or
	// stopped. A kubelet that starts the containers of a pod does that within seconds.
	quiet = 10 * time.Second
	// kept is how long a place is promised after the last move. That is enough for several attempts
	// of a kubelet, which tries again after 10 to 15 s.
	kept = 2 * time.Minute
	// without is how long a pod is decided without moves after moves for it failed.
	without = 5 * time.Minute
	// rechecked is how long a rejection is the answer for a pod that asks again, if the policy
	// moves pods or places are promised. At the time of the rejection some pods may have been left
	// alone, or a place may have been promised.
	rechecked = 20 * time.Second
)

// ErrMoving is wrapped by the error that fails a sandbox while running pods are moved for its pod.
var ErrMoving = errors.New("moves under way")

// The reasons why the moves of an operator do not begin: other moves are under way, or these could
// take what was made free for a pod.
var (
	errBusy     = errors.New("other moves are under way: ask again when they have ended")
	errPromised = errors.New("a pod waits for the CPUs and memory that moves made free, and this place is promised to it")
)

// room is a set of moves that is under way. It is not changed in place.
type room struct {
	number uint64
	// pod is the pod that waits for the set. If nil, an operator asked for the set.
	pod *request.Pod
	// left are the moves that have not ended. The first one is under way.
	left []moves.Move
}

// busy reports whether moves are under way, or Paddock does not manage the node.
func (s *step) busy() bool { return s.room != nil || len(s.moving()) > 0 || !s.managed() }

// staying returns the pods that are not moved now, by UID: a container of theirs is being created,
// changed or stopped, or was so shortly before, or the pod itself was moved not long ago.
func (s *step) staying() map[string]bool {
	stay := map[string]bool{}
	for uid, p := range s.pods.all() {
		stay[uid] = s.now.Sub(p.heard) < quiet || !p.movedAt.IsZero() && s.now.Sub(p.movedAt) < s.config.Interval ||
			!p.lifting.IsZero() || !p.behind.since.IsZero() || p.adopting
	}
	for _, c := range s.containers.all() {
		stay[c.pod] = stay[c.pod] || c.phase != settled
	}
	return stay
}

// cgroups returns the paths of the containers of each pod, by UID, as far as they are known.
func (l *Loop) cgroups() map[string][]string {
	of := map[string][]string{}
	for _, c := range l.containers.all() {
		if c.path != "" {
			of[c.pod] = append(of[c.pod], c.path)
		}
	}
	return of
}

// cgroupsOf is cgroups for the pods of some grants only.
func (l *Loop) cgroupsOf(grants []*node.Grant) map[string][]string {
	of := make(map[string][]string, len(grants))
	for _, g := range grants {
		of[g.Pod.UID] = nil
	}
	for _, c := range l.containers.all() {
		if paths, asked := of[c.pod]; asked && c.path != "" {
			of[c.pod] = append(paths, c.path)
		}
	}
	return of
}

// underWay returns the error for a pod for which the given moves are made.
func underWay(left []moves.Move) error {
	var texts []string
	for _, m := range left {
		texts = append(texts, moveText(m))
	}
	return fmt.Errorf("%w to make room for it: %s; the kubelet tries again", ErrMoving, strings.Join(texts, ", then "))
}

func moveText(m moves.Move) string {
	text := fmt.Sprintf("%s moves from CPUs %s to %s", m.From.Pod.ID(), m.From.CPUs(), m.To.CPUs())
	if m.Bytes > 0 {
		text += " with " + request.RoundedBytes(m.Bytes) + " of memory"
	}
	return text
}

// Carry is an event: an operator asks for moves, one after the other. Each pod must still have the
// place from which its move takes it, and must consent. Each new place must be free when its turn
// comes. If Dry is true, nothing changes. The answer is the reason why the set does not begin. If
// nil, the first move is durable.
type Carry struct {
	Left []moves.Move
	Dry  bool
	// Until is the latest time at which the job ends.
	Until time.Time
}

func (e Carry) on(s *step) {
	if err := s.mayCarry(e); err != nil {
		s.answer(err)
		return
	}
	set := BeginSet{Left: e.Left, Cgroups: s.cgroupsOf(targets(e.Left)), Dry: e.Dry, request: s.event.Request}
	if e.Dry {
		s.jobUntil(fmt.Sprint("try moves ", set.request), e.Until, set)
		return
	}
	s.beginSet(set, e.Until)
}

// mayCarry returns the reason why the moves that an operator asks for must not begin.
func (s *step) mayCarry(e Carry) error {
	if len(e.Left) == 0 {
		return errors.New("the list of moves is empty")
	}
	terms, stay := moves.TermsOf(s.engine.State.Policy().Moves), s.staying()
	for _, m := range e.Left {
		g, there := s.engine.State.Grant(m.To.Pod.UID)
		switch {
		case !there || g.Resized != m.From.Resized || g.Sequence != m.From.Sequence:
			return fmt.Errorf("pod %s no longer has the CPUs and the memory that it has in the list of moves: ask for the list again", m.To.Pod.ID())
		case g.SameAssignments(m.To):
			return fmt.Errorf("pod %s already has these CPUs and this memory", m.To.Pod.ID())
		case terms.Consent(g) < request.MoveCPUs, m.Across && terms.Consent(g) < request.MoveMemory:
			return fmt.Errorf("pod %s does not consent to the move: %s", m.To.Pod.ID(), g.Pod.Moves)
		case stay[g.Pod.UID]:
			return fmt.Errorf("pod %s was started, changed, stopped or moved recently: ask again later", m.To.Pod.ID())
		}
	}
	switch {
	case e.Dry:
	case s.busy():
		return errBusy
	case s.event.Promised.UID != "":
		return fmt.Errorf("%w until %s: ask again then", errPromised, s.event.Promised.Until.UTC().Format(time.RFC3339))
	}
	return nil
}

// beginSet begins a set of moves. From now on the place of the pod that waits for the set is
// promised.
func (s *step) beginSet(set BeginSet, until time.Time) {
	s.moves++
	set.room = s.moves
	s.room = &room{number: set.room, pod: set.Pod, left: set.Left}
	if set.Pod != nil {
		s.do(KeepPlace{set.Pod.UID, set.Place, targets(set.Left)})
	}
	s.jobUntil(fmt.Sprint("moves ", set.room), until, set)
}

// SetBegun is the outcome of BeginSet: the first move of a set is durable, or it did not begin.
type SetBegun struct {
	Of  BeginSet
	Err error
}

func (e SetBegun) on(s *step) {
	set := e.Of
	if !set.Dry {
		if s.notBegun(set.room, set.Left[0].To.Pod.UID) {
			s.leaveRoom(false)
		} else {
			s.push()
		}
	}
	switch a := set.of; {
	case set.Pod == nil:
		s.do(Answer{set.request, e.Err})
	case e.Err != nil:
		s.noRoom(a, set.by, e.Err)
	default:
		s.movesFor(a, set.Left)
	}
}

// notBegun reports whether the next move of a set is that of the given pod and did not begin.
// Either the write failed, or the pod ended before it, so that no state shows the move.
func (s *step) notBegun(number uint64, uid string) bool {
	g, there := s.state().Grant(uid)
	return s.room != nil && s.room.number == number && s.room.left[0].To.Pod.UID == uid && !(there && g.Moving != nil)
}

// targets returns the grants with the places to which pods move.
func targets(list []moves.Move) []*node.Grant {
	grants := make([]*node.Grant, len(list))
	for i, m := range list {
		grants[i] = m.To
	}
	return grants
}

// proceed begins the next move of the set after the move of a pod has ended.
func (s *step) proceed(uid string, done bool) {
	if s.room == nil || s.room.left[0].To.Pod.UID != uid {
		return
	}
	r := &room{s.room.number, s.room.pod, slices.Clone(s.room.left[1:])}
	s.room = r
	switch {
	case !done || len(r.left) == 0:
		s.leaveRoom(done)
	case s.staying()[r.left[0].To.Pod.UID]:
		s.cannotProceed(r.left[0].To, errors.New("it was started, changed or stopped recently"))
	default:
		to := r.left[0].To
		s.job("next move", BeginMove{To: to, Cgroups: s.cgroupsOf([]*node.Grant{to})[to.Pod.UID], room: r.number})
	}
}

// cannotProceed cancels the rest of a set. A pod may have changed since the set was made.
func (s *step) cannotProceed(to *node.Grant, why error) {
	s.warn("the next pod of a set of moves cannot be moved now: the rest of the set is cancelled", "pod", to.Pod.ID(), "uid", to.Pod.UID, "why", why)
	s.leaveRoom(false)
}

// NextBegun is the outcome of BeginMove. MayNot is the reason why the pod must not be moved now. If
// nil, it may be moved.
type NextBegun struct {
	Of          BeginMove
	MayNot, Err error
}

func (e NextBegun) on(s *step) {
	to := e.Of.To
	if s.notBegun(e.Of.room, to.Pod.UID) {
		if e.MayNot != nil {
			s.cannotProceed(to, e.MayNot)
		} else {
			s.warn("the next move of a set cannot begin: the rest of the set is cancelled", "pod", to.Pod.ID(), "uid", to.Pod.UID, "error", e.Err)
			s.leaveRoom(false)
		}
	}
	s.push()
}

// leaveRoom ends a set of moves.
func (s *step) leaveRoom(done bool) {
	r := s.room
	s.room = nil
	if r == nil || r.pod == nil {
		return
	}
	if done {
		s.do(KeepUntil{r.pod.UID, s.now.Add(kept)})
		s.info("a waiting pod fits now", "pod", r.pod.ID(), "uid", r.pod.UID)
		return
	}
	s.pods.edit(s, r.pod.UID).failed = s.now
	s.do(DropPlace{r.pod.UID})
	s.warn("moves for a waiting pod failed: Paddock decides about it without moves for a while", "pod", r.pod.ID(), "uid", r.pod.UID, "for", without.String())
}
