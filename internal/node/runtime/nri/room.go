package nri

import (
	"context"
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
	// quiet is how long a pod is left alone after a container of it was created, changed or
	// stopped: a kubelet that starts the containers of a pod does that within seconds.
	quiet = 10 * time.Second
	// kept is how long a place is promised after the last move: several attempts of a kubelet,
	// which tries again after 10 to 15 s.
	kept = 2 * time.Minute
	// without is how long a pod is decided without moves after moves for it failed.
	without = 5 * time.Minute
	// rechecked is how long a rejection answers for a pod that asks again, under a policy that
	// moves pods: some pods were perhaps left alone at that time, or a place was promised.
	rechecked = 20 * time.Second
)

// ErrMoving is wrapped by the error that fails a sandbox while running pods are moved for its pod.
var ErrMoving = errors.New("moves under way")

// Why the moves of an operator do not begin: others are under way, or these could take what was
// made free for a pod.
var (
	errBusy     = errors.New("other moves are under way: ask again when they have ended")
	errPromised = errors.New("a pod waits for the CPUs and memory that moves made free, and this place is promised to it")
)

// Promises keep the place of the pod for which others are moved; see package promise. No method
// waits.
type Promises interface {
	Keep(uid string, place *node.Grant, moved []*node.Grant)
	Until(uid string, at time.Time)
	Drop(uid string)
}

// MovesConfig is how running pods are moved. Which ones may be is in the policy of the state.
type MovesConfig struct {
	// Notice is the time between Begun and the first change of CPUs.
	Notice time.Duration
	// Interval is how long a pod is left alone after a move of it.
	Interval time.Duration
	// May returns why a pod must not be moved now, for people; nil: it may, or nothing is asked. It
	// must not wait.
	May func(uid string) error
	// Promises keeps the places of pods that wait; nil: no pod is moved for another one.
	Promises Promises
	// Observer learns of moves; nil: none does.
	Observer MoveObserver
}

// promised is a pod with a promise, until a time.
type promised struct {
	uid   string
	until time.Time
}

// room is a set of moves that is under way.
type room struct {
	// pod waits for the set; nil: an operator asked for it.
	pod *request.Pod
	// left are the moves that have not ended. The first one is under way.
	left []moves.Move
}

// makeRoom looks for moves of running pods after which a pod fits that would be rejected, or not be
// aligned as the policy prefers, and begins them. It returns nil if there are none, and an error
// that wraps ErrMoving while they are under way.
func (p *Plugin) makeRoom(ctx context.Context, pod request.Pod) error {
	policy := p.config.Engine.State().Policy()
	if policy.Moves.Pods == 0 || p.config.Moves.Promises == nil || pod.Estimated {
		return nil
	}
	plan, asked := p.config.Engine.Preview(pod)
	if !moves.Wanted(plan) {
		return nil
	}
	type answer struct {
		err  error
		stay map[string]bool
	}
	a, err := ask(ctx, p, "make room", func(l *loop) answer {
		switch {
		case l.room != nil && l.room.pod != nil && l.room.pod.UID == pod.UID:
			return answer{err: l.room.underWay()}
		case l.busy() || l.session == nil || !l.session.mayUpdate || l.config.Now().Sub(l.failed[pod.UID]) < without:
			return answer{}
		case l.promised.uid != pod.UID && l.config.Now().Before(l.promised.until):
			return answer{} // One promise at a time.
		}
		return answer{stay: l.staying()}
	})
	if err != nil || a.err != nil || a.stay == nil {
		return a.err
	}
	set := p.findRoom(ctx, asked, pod, a.stay)
	if set == nil {
		return nil
	}
	if err := p.carry(ctx, &room{pod: &pod, left: set.Moves}, set.Plan.Grant); err != nil {
		p.config.Log.WarnContext(ctx, "moves that would make room for a pod did not begin", "pod", pod.ID(), "uid", pod.UID, "error", err)
		return nil
	}
	return (&room{left: set.Moves}).underWay()
}

// findRoom finds the cheapest set of moves of pods that do not stay. Only a pod that would be moved
// is asked whether it may be: that begins the time for which it can object.
func (p *Plugin) findRoom(ctx context.Context, s *node.State, pod request.Pod, stay map[string]bool) *moves.Set {
	terms := moves.TermsOf(s.Policy().Moves)
	consent := terms.Consent
	terms.Consent = func(g *node.Grant) request.Consent {
		if stay[g.Pod.UID] {
			return request.NeverMoves
		}
		return consent(g)
	}
	begin := p.config.Now()
	terms.Stop = func() bool { return ctx.Err() != nil || p.config.Now().Sub(begin) > p.config.Timeout/3 }
	for {
		set := moves.Find(s, pod, terms).Set
		if set == nil {
			return nil
		}
		may := true
		for _, m := range set.Moves {
			if uid := m.To.Pod.UID; p.mayNot(uid) != nil {
				may, stay[uid] = false, true
			}
		}
		if may {
			return set
		}
	}
}

// settleInRoom ends the promise of a pod that is admitted.
func (p *Plugin) settleInRoom(ctx context.Context, uid string) {
	if p.config.Moves.Promises == nil || p.config.Engine.State().Policy().Moves.Pods == 0 {
		return
	}
	p.config.Moves.Promises.Drop(uid)
	p.tell(ctx, "admitted", func(l *loop) {
		if l.promised.uid == uid {
			l.promised = promised{}
		}
	})
}

// mayNot is why a pod must not be moved now.
func (p *Plugin) mayNot(uid string) error {
	if p.config.Moves.May == nil {
		return nil
	}
	return p.config.Moves.May(uid)
}

// busy reports whether moves are under way.
func (l *loop) busy() bool { return l.room != nil || len(l.moves) > 0 || l.back != nil || !l.managed() }

// staying are the pods that are not moved now: a container of theirs is created, changed or
// stopped, or was shortly before, or they were moved not long ago.
func (l *loop) staying() map[string]bool {
	now, stay := l.config.Now(), map[string]bool{}
	for uid, at := range l.table.heard {
		stay[uid] = now.Sub(at) < quiet
	}
	for uid, at := range l.movedAt {
		stay[uid] = stay[uid] || now.Sub(at) < l.config.Moves.Interval
	}
	for uid := range l.lifting {
		stay[uid] = true
	}
	for uid := range l.behind {
		stay[uid] = true
	}
	for _, uid := range l.adopting {
		stay[uid] = true
	}
	for _, c := range l.table.containers {
		stay[c.pod] = stay[c.pod] || c.phase != settled
	}
	return stay
}

// underWay is the error for the pod that waits.
func (r *room) underWay() error {
	var texts []string
	for _, m := range r.left {
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

// Carry carries out a list of moves, one after the other, for an operator. Each pod must still be
// where its move takes it from and must consent, and each place must be free in its turn. With dry
// nothing changes. Carry returns when the first move is durable, or nothing has changed; Status has
// the progress.
func (p *Plugin) Carry(ctx context.Context, list []moves.Move, dry bool) error {
	if len(list) == 0 {
		return errors.New("the list of moves is empty")
	}
	state := p.config.Engine.State()
	terms := moves.TermsOf(state.Policy().Moves)
	stay, err := ask(ctx, p, "staying", (*loop).staying)
	if err != nil {
		return err
	}
	for _, m := range list {
		g, there := state.Grant(m.To.Pod.UID)
		switch {
		case !there || g.Resized != m.From.Resized || g.Sequence != m.From.Sequence:
			return fmt.Errorf("pod %s no longer has the CPUs and the memory that it has in the list of moves: ask for the list again", m.To.Pod.ID())
		case g.SameAssignments(m.To):
			return fmt.Errorf("pod %s already has these CPUs and this memory", m.To.Pod.ID())
		case terms.Consent(g) < request.MoveCPUs, m.Across && terms.Consent(g) < request.MoveMemory:
			return fmt.Errorf("pod %s does not consent to the move: %s", m.To.Pod.ID(), g.Pod.Moves)
		case stay[g.Pod.UID]:
			return fmt.Errorf("pod %s was started, changed, stopped or moved recently: ask again later", m.To.Pod.ID())
		case p.mayNot(g.Pod.UID) != nil:
			return fmt.Errorf("pod %s: %w", m.To.Pod.ID(), p.mayNot(g.Pod.UID))
		}
	}
	if dry {
		_, err := provable(state, list, nil, nil)
		return err
	}
	return p.carry(ctx, &room{left: list}, nil)
}

// carry begins a set of moves. The place is that of the pod that waits.
func (p *Plugin) carry(ctx context.Context, r *room, place *node.Grant) error {
	hindered, gone := ask(ctx, p, "carry", func(l *loop) error {
		switch {
		case l.busy():
			return errBusy
		case r.pod == nil && l.config.Now().Before(l.promised.until):
			return fmt.Errorf("%w until %s: ask again then", errPromised, l.promised.until.UTC().Format(time.RFC3339))
		}
		l.room = r
		if r.pod != nil {
			l.config.Moves.Promises.Keep(r.pod.UID, place, targets(r.left))
		}
		return nil
	})
	if err := errors.Join(gone, hindered); err != nil {
		return err
	}
	first := r.left[0].To
	err := p.config.Engine.Move(ctx, first.Pod.UID, func(s *node.State) (*node.State, error) { return provable(s, r.left, r.pod, place) })
	p.surely(ctx, "carried", func(l *loop) {
		if l.notBegun(r, first.Pod.UID) {
			l.leaveRoom(false)
			return
		}
		l.push()
	})
	return err
}

// notBegun reports whether the next move of a set is that of a pod and did not begin: the write
// failed, or the pod ended before it, and then no state shows the move.
func (l *loop) notBegun(r *room, uid string) bool {
	g, there := l.state().Grant(uid)
	return l.room == r && r.left[0].To.Pod.UID == uid && !(there && g.Moving != nil)
}

// targets are the places to which pods move.
func targets(list []moves.Move) []*node.Grant {
	grants := make([]*node.Grant, len(list))
	for i, m := range list {
		grants[i] = m.To
	}
	return grants
}

// provable is the state in which the first of some moves has begun, if all of them are possible,
// one after the other, and if the pod has its place then.
func provable(s *node.State, list []moves.Move, pod *request.Pod, place *node.Grant) (*node.State, error) {
	begun, at := (*node.State)(nil), s
	for _, m := range list {
		next, err := at.BeginMove(m.To)
		if err != nil {
			return nil, err
		}
		if begun == nil {
			begun = next
		}
		at = next.EndMove(m.To.Pod.UID, true)
	}
	if pod != nil {
		if _, err := at.PlanGrant(*pod, place); err != nil {
			return nil, err
		}
	}
	return begun, nil
}

// proceed begins the next move of the set when one has ended.
func (l *loop) proceed(uid string, done bool) {
	r := l.room
	if r == nil || r.left[0].To.Pod.UID != uid {
		return
	}
	r.left = slices.Clone(r.left[1:])
	if !done || len(r.left) == 0 {
		l.leaveRoom(done)
		return
	}
	to := r.left[0].To
	why := l.mayNot(to.Pod.UID)
	if why == nil && l.staying()[to.Pod.UID] {
		why = errors.New("it was started, changed or stopped recently")
	}
	if why != nil { // It may differ from when the set was made.
		l.config.Log.WarnContext(l.flow, "the next pod of a set of moves cannot be moved now: the rest of the set is cancelled", "pod", to.Pod.ID(), "uid", to.Pod.UID, "why", why)
		l.leaveRoom(false)
		return
	}
	l.job("next move", func(ctx context.Context) func(*loop) {
		asked, cancel := context.WithTimeout(ctx, l.config.Period)
		defer cancel()
		err := l.config.Engine.Move(asked, to.Pod.UID, func(s *node.State) (*node.State, error) { return s.BeginMove(to) })
		return func(l *loop) {
			if l.notBegun(r, to.Pod.UID) {
				l.config.Log.WarnContext(l.flow, "the next move of a set cannot begin: the rest of the set is cancelled", "pod", to.Pod.ID(), "uid", to.Pod.UID, "error", err)
				l.leaveRoom(false)
			}
			l.push()
		}
	})
}

// leaveRoom ends a set of moves.
func (l *loop) leaveRoom(done bool) {
	r := l.room
	l.room = nil
	if r == nil || r.pod == nil {
		return
	}
	if done {
		l.promised = promised{r.pod.UID, l.config.Now().Add(kept)}
		l.config.Moves.Promises.Until(r.pod.UID, l.promised.until)
		l.config.Log.InfoContext(l.flow, "a waiting pod fits now", "pod", r.pod.ID(), "uid", r.pod.UID)
		return
	}
	l.failed[r.pod.UID] = l.config.Now()
	l.config.Moves.Promises.Drop(r.pod.UID)
	l.config.Log.WarnContext(l.flow, "moves for a waiting pod failed: Paddock decides about it without moves for a while", "pod", r.pod.ID(), "uid", r.pod.UID, "for", without.String())
}
