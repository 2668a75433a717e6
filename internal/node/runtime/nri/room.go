package nri

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/paddock-project/paddock/internal/core/moves"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/control"
	"github.com/paddock-project/paddock/internal/node/engine"
)

// Promises keep the place of the pod for which others are moved; see package promise. No method
// waits.
type Promises interface {
	Keep(uid string, place *node.Grant, moved []*node.Grant)
	Until(uid string, at time.Time)
	Drop(uid string)
	// Kept is the pod that has a promise now, and until when; empty: none has.
	Kept() (uid string, until time.Time)
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

// makeRoom looks for moves of running pods after which a pod fits that would be rejected, or not be
// aligned as the policy prefers, and begins them. It returns nil if there are none, and an error
// that wraps ErrMoving while they are under way.
func (p *Plugin) makeRoom(ctx context.Context, asks engine.Candidate) error {
	pod := asks.Pod
	policy := p.config.Engine.State().Policy()
	if policy.Moves.Pods == 0 || p.config.Moves.Promises == nil || pod.Estimated {
		return nil
	}
	d := p.config.Engine.Preview(asks)
	if !moves.Wanted(d.Plan) {
		return nil
	}
	room, err := ask[control.Room](ctx, p, control.MakeRoom{UID: pod.UID})
	if err != nil || room.Err != nil || room.Stay == nil {
		return room.Err
	}
	set := p.findRoom(ctx, d.Base, pod, room.Stay)
	if set == nil {
		return nil
	}
	if err := p.carry(ctx, control.Carry{Pod: &pod, Left: set.Moves, Place: set.Plan.Grant}); err != nil {
		p.config.Log.WarnContext(ctx, "moves that would make room for a pod did not begin", "pod", pod.ID(), "uid", pod.UID, "error", err)
		return nil
	}
	return control.UnderWay(set.Moves)
}

// findRoom finds the cheapest set of moves of pods that do not stay. Only a pod that would be moved
// is asked whether it may be: that begins the time for which it can object.
func (p *Plugin) findRoom(ctx context.Context, s *node.State, pod request.Pod, stay map[string]bool) *moves.Set {
	terms := moves.TermsOf(s.Policy().Moves)
	// An earlier promise is the pod's own, and it does not do.
	s = s.WithReservations(slices.DeleteFunc(slices.Clone(s.Reservations()), func(r node.Reservation) bool { return r.Why != node.OnItsWay }))
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
func (p *Plugin) settleInRoom(uid string) {
	if p.config.Moves.Promises == nil || p.config.Engine.State().Policy().Moves.Pods == 0 {
		return
	}
	p.config.Moves.Promises.Drop(uid)
}

// mayNot is why a pod must not be moved now.
func (p *Plugin) mayNot(uid string) error {
	if p.config.Moves.May == nil {
		return nil
	}
	return p.config.Moves.May(uid)
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
	stay, err := ask[map[string]bool](ctx, p, control.Staying{})
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
	return p.carry(ctx, control.Carry{Left: list})
}

// carry begins a set of moves.
func (p *Plugin) carry(ctx context.Context, set control.Carry) error {
	begun, gone := ask[control.Begun](ctx, p, set)
	if err := errors.Join(gone, begun.Err); err != nil {
		return err
	}
	first := set.Left[0].To.Pod.UID
	err := p.config.Engine.Move(ctx, first, func(s *node.State) (*node.State, error) { return provable(s, set.Left, set.Pod, set.Place) })
	p.surely(ctx, control.Carried{Room: begun.Room, UID: first})
	return err
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
