package nri

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

const (
	// stepTime is how long a step of a move may take before the move is cancelled: several rounds,
	// an update that waits for the runtime's lock while it creates a container, and a write to a
	// slow disk.
	stepTime = 30 * time.Second
	// perGiB is added to stepTime for the memory that moves: a quarter of the speed of an old
	// server (1 GB/s).
	perGiB = 4 * time.Second
	// leftBehind is how much of a container's anonymous memory may be outside its NUMA nodes after
	// a move: pages that are in use by the kernel at that moment. leftPart is the same as a part of
	// all of it.
	leftBehind, leftPart = int64(16 << 20), 100
)

// Moving is a move of a pod that is under way.
type Moving struct {
	UID, Pod string
	// Bytes of memory go to other NUMA nodes.
	Bytes int64
	Step  node.MoveStep
	// Deadline: before it, no container of the pod gets other CPUs.
	Deadline time.Time
	Changes  []Change
}

// Change is what a move changes of a container: its CPUs and memory nodes.
type Change struct {
	Container     string
	Before, After converge.Setting
}

// MoveObserver learns of moves, in the event loop: it must not wait.
type MoveObserver interface {
	// Begun: both places are durable, and nothing has changed yet. It is also called for a move
	// that an earlier process began.
	Begun(Moving)
	// Ended: the pod has one place again, the new one if the move is done. A pod that ended
	// meanwhile has none.
	Ended(m Moving, done bool)
}

// move is a pod that has two places in the published state.
type move struct {
	from, to *node.Grant
	bytes    int64
	step     node.MoveStep
	// since is when the step began, due when the move is cancelled, notBefore when the CPUs may
	// change. retry is when the step is verified again after that failed.
	since, due, notBefore, retry time.Time
	// ending: the last step has succeeded, and it is being written that the pod has one place
	// again.
	ending bool
}

// followed is a state as the loop sees it: with the pods that are being moved in their steps.
type followed struct {
	of, state *node.State
	steps     int
}

// during returns the state with each pod that is being moved in its step. Moves that appear in the
// state begin, and those that are not in it any more have ended. None begins before a runtime has
// shown its containers.
func (l *loop) during(s *node.State) *node.State {
	if l.seen.of == s && l.seen.steps == l.steps {
		return l.seen.state
	}
	if l.seen.of != s {
		for _, uid := range slices.Sorted(maps.Keys(l.moves)) {
			if g, there := s.Grant(uid); !there || g.Moving == nil {
				l.moved(uid, there)
			}
		}
		for _, g := range s.Grants() {
			if g.Moving != nil && l.moves[g.Pod.UID] == nil && l.shown {
				l.begun(s, g)
			}
		}
	}
	v := s
	for _, uid := range slices.Sorted(maps.Keys(l.moves)) {
		v = v.During(uid, l.moves[uid].step)
	}
	l.seen = followed{s, v, l.steps}
	return v
}

// begun notes a move. If a container has CPUs of the new place alone, an earlier process had begun
// to change them.
func (l *loop) begun(s *node.State, g *node.Grant) {
	now := l.config.Now()
	from := g.Staying()
	m := &move{from: from, to: g.Moving, bytes: bytesBetween(from, g.Moving), since: now, notBefore: now.Add(l.config.Moves.Notice)}
	for _, c := range l.table.containers {
		_, i := g.Pod.Container(c.name)
		if c.pod == g.Pod.UID && i >= 0 && !c.has.CPUs.Equal(from.Containers[i].CPUs) && c.has.CPUs.Equal(m.to.Containers[i].CPUs) {
			m.step, m.notBefore = node.MoveSwitched, now
		}
	}
	m.due = m.notBefore.Add(m.limit())
	l.moves[g.Pod.UID] = m
	l.config.Log.InfoContext(l.flow, "a pod is being moved", "pod", g.Pod.ID(), "uid", g.Pod.UID, "from", from.CPUs().String(), "to", m.to.CPUs().String(),
		"bytes", m.bytes, "not_before", m.notBefore, "revision", s.Generation())
	if o := l.config.Moves.Observer; o != nil {
		o.Begun(m.describe())
	}
	l.movedAt[g.Pod.UID] = now
	l.shortly()
}

// bytesBetween is the memory that gets other NUMA nodes.
func bytesBetween(from, to *node.Grant) (bytes int64) {
	was, is := from.Charged(), to.Charged()
	for _, b := range is {
		if !slices.Contains(was, b) {
			bytes += b.Size
		}
	}
	return bytes
}

// limit is the time for one step.
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
	return converge.Setting{CPUs: c.CPUs, Mems: c.MemoryNodes, Quota: node.KeepQuota}
}

// moved notes that a pod has one place again, or none.
func (l *loop) moved(uid string, there bool) {
	m := l.moves[uid]
	delete(l.moves, uid)
	l.movedAt[uid] = l.config.Now()
	done := there && m.step == node.MoveNarrowed
	if done {
		l.config.Log.InfoContext(l.flow, "a pod was moved", "pod", m.to.Pod.ID(), "uid", uid, "cpus", m.to.CPUs().String(), "bytes", m.bytes)
	} else {
		l.config.Log.WarnContext(l.flow, "the move of a pod was cancelled", "pod", m.to.Pod.ID(), "uid", uid, "cpus", m.from.CPUs().String(), "pod_exists", there)
	}
	if o := l.config.Moves.Observer; o != nil {
		o.Ended(m.describe(), done)
	}
	l.proceed(uid, done)
	l.shortly()
}

// advance takes every move as far as it can go now.
func (l *loop) advance() {
	w := l.want()
	if l.back != nil {
		return
	}
	for _, uid := range slices.Sorted(maps.Keys(l.moves)) {
		l.advanceMove(w, uid, l.moves[uid])
	}
}

func (l *loop) advanceMove(w *converge.Wanted, uid string, m *move) {
	now := l.config.Now()
	switch {
	case m.ending: // A state without the other place may be durable at any moment: there is no way back.
		l.soon()
		if !now.Before(m.retry) {
			l.endMove(uid, m)
		}
		return
	case !now.Before(m.due) && m.step != node.MoveReturned:
		l.config.Log.ErrorContext(l.flow, "a step of a move takes too long: the pod returns to its old CPUs and memory", "pod", m.to.Pod.ID(), "uid", uid, "step", m.step.String(), "for", now.Sub(m.since).String())
		l.enterStep(m, node.MoveReturned)
		l.proceed(uid, false) // The return may take any time, and the pod that waits is decided without it.
		return
	case !now.Before(m.due):
		l.config.Log.ErrorContext(l.flow, "a pod cannot return to its old CPUs and memory yet: it keeps both the old and the new ones", "pod", m.to.Pod.ID(), "uid", uid, "for", now.Sub(m.since).String())
		m.due = now.Add(m.limit())
	case m.step == node.MoveWidened && now.Before(m.notBefore):
		l.within(m.notBefore.Sub(now))
		return
	}
	l.soon()
	if now.Before(m.retry) {
		return
	}
	sights := l.placed(w, uid)
	if sights == nil {
		return
	}
	step, narrow := m.step, m.step == node.MoveNarrowed && m.bytes > 0
	l.job("move "+uid, func(ctx context.Context) func(*loop) {
		wrong := l.verify(ctx, sights, narrow)
		return func(l *loop) { l.verified(uid, m, step, sights, wrong) }
	})
}

// enterStep begins a step of a move. The next push makes the updates.
func (l *loop) enterStep(m *move, step node.MoveStep) {
	now := l.config.Now()
	m.step, m.since, m.due, m.retry = step, now, now.Add(m.limit()), time.Time{}
	l.steps++
}

// proof is a container whose cgroup must show a setting.
type proof struct {
	sight
	who  string
	want converge.Setting
}

// placed are the containers of a pod, if the loop knows that each of them has what it should; nil:
// it does not. The list is not nil if there are none.
func (l *loop) placed(w *converge.Wanted, uid string) []*proof {
	proofs := []*proof{}
	for _, id := range slices.Sorted(maps.Keys(l.table.containers)) {
		c := l.table.containers[id]
		if c.pod != uid || c.absent {
			continue
		}
		want := w.Setting(c.pod, c.name)
		if c.phase != settled || !fulfils(c.has, want) {
			return nil
		}
		proofs = append(proofs, &proof{sight{id: id, path: c.path, touched: c.touched}, c.name, want})
	}
	return proofs
}

// verify reads back that the containers have their settings and, with pages, that their memory is
// on their NUMA nodes. It returns what is wrong, nil if nothing is. It may wait.
func (p *Plugin) verify(ctx context.Context, proofs []*proof, pages bool) error {
	for _, at := range proofs {
		if at.path == "" {
			continue
		}
		has, err := p.config.Cgroups.Read(at.path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // It has ended.
		case err != nil:
			return err
		case !fulfils(has, at.want):
			return fmt.Errorf("container %s has CPUs %s and memory nodes %s: want CPUs %s and memory nodes %s", at.who, has.CPUs, has.Mems, at.want.CPUs, at.want.Mems)
		}
		if !pages || ctx.Err() != nil {
			continue
		}
		byNode, err := p.config.Cgroups.Pages(at.path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if outside, all := outsideOf(byNode, at.want.Mems); outside > max(leftBehind, all/int64(leftPart)) {
			return fmt.Errorf("container %s has %s of its %s of anonymous memory outside NUMA nodes %s: pinned pages do not move", at.who, request.RoundedBytes(outside), request.RoundedBytes(all), at.want.Mems)
		}
	}
	return nil
}

// fulfils reports whether a container has the CPUs and memory nodes of a setting, if it has any.
func fulfils(has, want converge.Setting) bool {
	return (want.CPUs.IsEmpty() || has.CPUs.Equal(want.CPUs)) && (want.Mems.IsEmpty() || has.Mems == want.Mems)
}

func outsideOf(byNode map[int]int64, nodes mask.Mask) (outside, all int64) {
	for id, bytes := range byNode {
		if all += bytes; !nodes.Has(id) {
			outside += bytes
		}
	}
	return outside, all
}

// verified is an event: what the containers of a pod have was read.
func (l *loop) verified(uid string, m *move, step node.MoveStep, proofs []*proof, wrong error) {
	if l.moves[uid] != m || m.step != step {
		return
	}
	for _, at := range proofs {
		if c := l.table.containers[at.id]; c != nil && c.touched != at.touched {
			return // It changed meanwhile: the next round looks again.
		}
	}
	if wrong != nil {
		l.config.Log.WarnContext(l.flow, "a step of a move has not succeeded yet", "pod", m.to.Pod.ID(), "uid", uid, "step", step.String(), "why", wrong)
		m.retry = l.config.Now().Add(soonest)
		l.soon()
		return
	}
	switch step {
	case node.MoveWidened:
		l.enterStep(m, node.MoveSwitched)
	case node.MoveSwitched:
		l.enterStep(m, node.MoveNarrowed)
	case node.MoveNarrowed, node.MoveReturned:
		m.ending = true
		l.endMove(uid, m)
		return
	}
	l.push()
}

// endMove makes it durable that a pod has one place. The published state shows when it is.
func (l *loop) endMove(uid string, m *move) {
	done := m.step == node.MoveNarrowed
	l.job("end "+uid, func(ctx context.Context) func(*loop) {
		asked, cancel := context.WithTimeout(ctx, l.config.Period)
		defer cancel()
		err := l.config.Engine.Move(asked, uid, func(s *node.State) (*node.State, error) { return s.EndMove(uid, done), nil })
		return func(l *loop) {
			if err != nil {
				l.config.Log.WarnContext(l.flow, "the end of a move cannot be written yet; the agent tries again", "uid", uid, "error", err)
				m.retry = l.config.Now().Add(soonest) // A disk that fails does that at once.
				l.soon()
			}
			l.push()
		}
	})
}

// moving are the moves that are under way, by UID.
func (l *loop) moving() []Moving {
	var list []Moving
	for _, uid := range slices.Sorted(maps.Keys(l.moves)) {
		list = append(list, l.moves[uid].describe())
	}
	return list
}
