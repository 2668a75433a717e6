package nri

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/paddock-project/paddock/internal/core/moves"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/control"
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

// findRoom finds the cheapest set of moves of pods that do not stay. Only a pod that would be moved
// is asked whether it may be: that begins the time for which it can object.
func (p *Plugin) findRoom(ctx context.Context, a control.FindRoom) control.RoomFound {
	s, pod, stay := a.Base, a.Of.Pod, maps.Clone(a.Stay)
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
			return control.RoomFound{Of: a}
		}
		may := true
		for _, m := range set.Moves {
			if uid := m.To.Pod.UID; p.mayNot(uid) != nil {
				may, stay[uid] = false, true
			}
		}
		if may {
			return control.RoomFound{Of: a, Set: set}
		}
	}
}

// mayNot is why a pod must not be moved now.
func (p *Plugin) mayNot(uid string) error {
	if p.config.Moves.May == nil {
		return nil
	}
	return p.config.Moves.May(uid)
}

// Carry carries out a list of moves, one after the other, for an operator; see control.Carry. It
// returns when the first move is durable, or nothing has changed; Status has the progress.
func (p *Plugin) Carry(ctx context.Context, list []moves.Move, dry bool) error {
	err, gone := ask[error](ctx, p, control.Carry{Left: list, Dry: dry, Until: p.config.Now().Add(p.config.Period)})
	return errors.Join(gone, err)
}

// beginSet makes the first of some moves durable.
func (p *Plugin) beginSet(ctx context.Context, set control.BeginSet) error {
	if set.Pod == nil {
		for _, m := range set.Left {
			if why := p.mayNot(m.To.Pod.UID); why != nil {
				return fmt.Errorf("pod %s: %w", m.To.Pod.ID(), why)
			}
		}
	}
	if set.Dry {
		_, err := moves.Begin(p.config.Engine.State(), set.Left, nil, nil)
		return err
	}
	return p.config.Engine.Move(ctx, set.Left[0].To.Pod.UID, func(s *node.State) (*node.State, error) {
		return moves.Begin(s, set.Left, set.Pod, set.Place)
	})
}
