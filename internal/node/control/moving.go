package control

import (
	"slices"
	"strings"
	"time"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/quota"
)

const (
	// stepTime is how long a step of a move may take before the move is cancelled. It is enough for
	// several rounds, an update that waits for the runtime's lock while the runtime creates a
	// container, and a write to a slow disk.
	stepTime = 30 * time.Second
	// perGiB is added to stepTime for each GiB of memory that moves. It assumes a quarter of the
	// speed of an old server (1 GB/s).
	perGiB = 4 * time.Second
)

// Moving is a move of a pod that is under way.
type Moving struct {
	UID, Pod string
	// Bytes is the amount of memory that goes to other NUMA nodes.
	Bytes int64
	Step  node.MoveStep
	// Deadline is the time before which no container of the pod gets other CPUs.
	Deadline time.Time
	Changes  []Change
}

// Change is the CPUs and memory nodes of a container before and after a move.
type Change struct {
	Container     string
	Before, After converge.Setting
}

// move is the move of a pod that has two places in the published state. It is not changed in place.
type move struct {
	number   uint64
	from, to *node.Grant
	bytes    int64
	step     node.MoveStep
	// since is when the step began. due is when the move is cancelled. notBefore is the earliest
	// time at which the CPUs may change. retry is when the step is verified again after a failed
	// verification.
	since, due, notBefore, retry time.Time
	// ending is true once the last step has succeeded, while the state in which the pod has one
	// place again is being written.
	ending bool
}

// moving returns the UIDs of the pods that are being moved, in ascending order.
func (l *Loop) moving() []string {
	var uids []string
	for uid, p := range l.pods.all() {
		if p.move != nil {
			uids = append(uids, uid)
		}
	}
	slices.Sort(uids)
	return uids
}

// followMoves compares the moves with the published state, if that has changed. Moves that appear
// in the state begin, and moves that have disappeared from it have ended. None begins before a
// runtime has shown its containers.
func (s *step) followMoves() {
	state := s.engine.State
	if s.followed == state && s.followedShown == s.shown {
		return
	}
	s.followed, s.followedShown = state, s.shown
	for _, uid := range s.moving() {
		if g, there := state.Grant(uid); !there || g.Moving == nil {
			s.moved(uid, there)
		}
	}
	for _, g := range state.Grants() {
		if g.Moving != nil && s.pod(g.Pod.UID).move == nil && s.shown {
			s.begun(g)
		}
	}
}

// begun notes a move. If a container has CPUs of the new place alone, an earlier process has
// already begun to change the CPUs.
func (s *step) begun(g *node.Grant) {
	from := g.Staying()
	s.moves++
	m := &move{number: s.moves, from: from, to: g.Moving, bytes: bytesBetween(from, g.Moving), since: s.now, notBefore: s.now.Add(s.config.Notice)}
	for _, c := range s.containers.all() {
		_, i := g.Pod.Container(c.name)
		if c.pod == g.Pod.UID && i >= 0 && !c.has.CPUs.Equal(from.Containers[i].CPUs) && c.has.CPUs.Equal(m.to.Containers[i].CPUs) {
			m.step, m.notBefore = node.MoveSwitched, s.now
		}
	}
	m.due = m.notBefore.Add(m.limit())
	p := s.pods.edit(s, g.Pod.UID)
	p.move, p.movedAt = m, s.now
	s.steps++
	s.info("a pod is being moved", "pod", g.Pod.ID(), "uid", g.Pod.UID, "from", from.CPUs().String(), "to", m.to.CPUs().String(),
		"bytes", m.bytes, "not_before", m.notBefore, "revision", s.engine.State.Generation())
	s.do(MoveBegun{m.describe()})
	s.shortly()
}

// bytesBetween returns the number of bytes of memory that get other NUMA nodes.
func bytesBetween(from, to *node.Grant) (bytes int64) {
	was, is := from.Charged(), to.Charged()
	for _, b := range is {
		if !slices.Contains(was, b) {
			bytes += b.Size
		}
	}
	return bytes
}

// limit returns the time limit of one step.
func (m *move) limit() time.Duration {
	return stepTime + time.Duration((m.bytes+1<<30-1)>>30)*perGiB
}

func (m *move) describe() Moving {
	d := Moving{UID: m.to.Pod.UID, Pod: m.to.Pod.ID(), Bytes: m.bytes, Step: m.step, Deadline: m.notBefore}
	for i := range m.to.Containers {
		before, after := placeOf(m.from, i), placeOf(m.to, i)
		if !before.Equal(after) {
			d.Changes = append(d.Changes, Change{m.to.Pod.Containers[i].Name, before, after})
		}
	}
	return d
}

func placeOf(g *node.Grant, i int) converge.Setting {
	c := &g.Containers[i]
	return converge.Setting{CPUs: c.CPUs, Mems: c.MemoryNodes, Quota: quota.Keep}
}

// moved notes that a pod has one place again or, if there is false, no grant.
func (s *step) moved(uid string, there bool) {
	p := s.pods.edit(s, uid)
	m := p.move
	p.move, p.movedAt = nil, s.now
	s.steps++
	done := there && m.step == node.MoveNarrowed
	if done {
		s.info("a pod was moved", "pod", m.to.Pod.ID(), "uid", uid, "cpus", m.to.CPUs().String(), "bytes", m.bytes)
	} else {
		s.warn("the move of a pod was cancelled", "pod", m.to.Pod.ID(), "uid", uid, "cpus", m.from.CPUs().String(), "pod_exists", there)
	}
	s.do(MoveEnded{m.describe(), done})
	s.proceed(uid, done)
	s.shortly()
}

// advance advances every move as far as possible now.
func (s *step) advance() {
	if s.back != nil {
		return
	}
	w := s.want()
	for _, uid := range s.moving() {
		s.advanceMove(w, uid, s.pod(uid).move)
	}
}

func (s *step) advanceMove(w *converge.Wanted, uid string, m *move) {
	switch {
	case m.ending: // A state without the other place may be durable at any moment: there is no way back.
		s.soon()
		if !s.now.Before(m.retry) {
			s.endMove(uid, m)
		}
		return
	case !s.now.Before(m.due) && m.step != node.MoveReturned:
		s.alert("a step of a move takes too long: the pod returns to its old CPUs and memory", "pod", m.to.Pod.ID(), "uid", uid, "step", m.step.String(), "for", s.now.Sub(m.since).String())
		s.enterStep(uid, node.MoveReturned)
		s.proceed(uid, false) // The return may take any time, and the pod that waits is decided without it.
		return
	case !s.now.Before(m.due):
		s.alert("a pod cannot return to its old CPUs and memory yet: it keeps both the old and the new ones", "pod", m.to.Pod.ID(), "uid", uid, "for", s.now.Sub(m.since).String())
		s.editMove(uid).due = s.now.Add(m.limit())
	case m.step == node.MoveWidened && s.now.Before(m.notBefore):
		s.within(m.notBefore.Sub(s.now))
		return
	}
	s.soon()
	if s.now.Before(m.retry) {
		return
	}
	if proofs := s.proofs(w, uid); proofs != nil {
		s.job("move "+uid, Prove{UID: uid, Proofs: proofs, Pages: m.step == node.MoveNarrowed && m.bytes > 0, move: m.number, step: m.step})
	}
}

// editMove returns a copy of the move of a pod that the Step can change.
func (s *step) editMove(uid string) *move {
	p := s.pods.edit(s, uid)
	m := *p.move
	p.move = &m
	return &m
}

// enterStep begins a step of a move. The next push makes the updates.
func (s *step) enterStep(uid string, to node.MoveStep) {
	m := s.editMove(uid)
	m.step, m.since, m.due, m.retry = to, s.now, s.now.Add(m.limit()), time.Time{}
	s.steps++
}

// Proof is a container whose cgroup must show a setting.
type Proof struct {
	ID, Path, Container string
	Want                converge.Setting
	touched             int
}

// proofs returns the containers of a pod if the loop knows that each of them has the setting that
// it should have. Otherwise it returns nil. For a pod without containers it returns an empty list
// that is not nil.
func (s *step) proofs(w *converge.Wanted, uid string) []Proof {
	proofs := []Proof{}
	for _, c := range s.containers.all() {
		if c.pod != uid || c.life == ended {
			continue
		}
		want := w.Setting(c.pod, c.name)
		if c.phase != settled || !Fulfils(c.has, want) {
			return nil
		}
		proofs = append(proofs, Proof{c.id, c.path, c.name, want, c.touched})
	}
	slices.SortFunc(proofs, func(a, b Proof) int { return strings.Compare(a.ID, b.ID) })
	return proofs
}

// Fulfils reports whether a container has the CPUs and memory nodes of the setting want. Empty CPUs
// or memory nodes in want are not compared.
func Fulfils(has, want converge.Setting) bool {
	return (want.CPUs.IsEmpty() || has.CPUs.Equal(want.CPUs)) && (want.Mems.IsEmpty() || has.Mems == want.Mems)
}

// Proven is the outcome of Prove. Wrong describes what the containers do not have. If nil, they
// have everything.
type Proven struct {
	Of    Prove
	Wrong error
}

func (e Proven) on(s *step) {
	uid := e.Of.UID
	m := s.pod(uid).move
	if m == nil || m.number != e.Of.move || m.step != e.Of.step {
		return
	}
	for _, at := range e.Of.Proofs {
		if c := s.containers.get(at.ID); c != nil && c.touched != at.touched {
			return // It has changed in the meantime: the next round looks again.
		}
	}
	if e.Wrong != nil {
		s.warn("a step of a move has not succeeded yet", "pod", m.to.Pod.ID(), "uid", uid, "step", m.step.String(), "why", e.Wrong)
		s.editMove(uid).retry = s.now.Add(soonest)
		s.soon()
		return
	}
	switch m.step {
	case node.MoveWidened:
		s.enterStep(uid, node.MoveSwitched)
	case node.MoveSwitched:
		s.enterStep(uid, node.MoveNarrowed)
	case node.MoveNarrowed, node.MoveReturned:
		m := s.editMove(uid)
		m.ending = true
		s.endMove(uid, m)
		return
	}
	s.push()
}

// endMove makes it durable that a pod has one place. The published state shows when that is done.
func (s *step) endMove(uid string, m *move) {
	s.job("end "+uid, EndMove{UID: uid, Done: m.step == node.MoveNarrowed, move: m.number})
}

// MoveWritten is the outcome of EndMove.
type MoveWritten struct {
	Of  EndMove
	Err error
}

func (e MoveWritten) on(s *step) {
	if e.Err != nil {
		s.warn("the end of a move cannot be written yet; the agent tries again", "uid", e.Of.UID, "error", e.Err)
		if m := s.pod(e.Of.UID).move; m != nil && m.number == e.Of.move {
			s.editMove(e.Of.UID).retry = s.now.Add(soonest) // A broken disk fails at once.
		}
		s.soon()
	}
	s.push()
}
