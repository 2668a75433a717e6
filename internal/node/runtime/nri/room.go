package nri

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/paddock-project/paddock/internal/core/moves"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/control"
)

// Promises keeps the place of the pod for which other pods are moved; see package promise. No
// method waits.
type Promises interface {
	Keep(uid string, place *node.Grant, moved []*node.Grant)
	Until(uid string, at time.Time)
	Drop(uid string)
	// Kept returns the pod that has a promise now, and the end of the promise. uid is empty if no
	// pod has one.
	Kept() (uid string, until time.Time)
}

// MovesConfig configures how running pods are moved. The policy of the state decides which pods may
// be moved.
type MovesConfig struct {
	// Notice is the time between Begun and the first change of CPUs.
	Notice time.Duration
	// Interval is the time after a move of a pod in which the pod is not moved again.
	Interval time.Duration
	// May returns the reason, for users, why a pod must not be moved now, or nil if it may be
	// moved. If May is nil, every pod may be moved. It must not wait.
	May func(uid string) error
	// Promises keeps the places of pods that wait. If nil, no pod is moved for another one.
	Promises Promises
	// Observer is notified of moves. If nil, there is no notification.
	Observer MoveObserver
}

// findRoom finds the cheapest set of moves of pods that are not in Stay. It asks only the pods that
// would be moved whether they may be, because the question starts the time in which a pod can
// object.
func (p *Plugin) findRoom(ctx context.Context, a control.FindRoom) control.RoomFound {
	s, pod, stay := a.Base, a.Of.Pod, maps.Clone(a.Stay)
	terms := moves.TermsOf(s.Policy().Moves)
	// An earlier promise belongs to this pod, and does not suffice.
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
			if uid := m.To.Pod.UID; p.mayNot(uid, a.Cgroups[uid]) != nil {
				may, stay[uid] = false, true
			}
		}
		if may {
			return control.RoomFound{Of: a, Set: set}
		}
	}
}

// mayNot returns the reason why a pod must not be moved now, or nil if it may be moved. A container
// with cgroups of its own that have CPUs is not moved: its program has pinned its threads, and they
// would not follow (R-MOV-11).
func (p *Plugin) mayNot(uid string, cgroups []string) error {
	for _, path := range cgroups {
		switch name, cpus, err := p.config.Cgroups.Inner(path); {
		case errors.Is(err, fs.ErrNotExist): // It has ended.
		case err != nil:
			return fmt.Errorf("whether its program pins its threads is not known: %w", err)
		case name != "":
			return fmt.Errorf("its program pins its threads itself: the cgroup %s in %s has CPUs %s", name, path, cpus)
		}
	}
	if p.config.Moves.May == nil {
		return nil
	}
	return p.config.Moves.May(uid)
}

// Carry carries out a list of moves for an operator, one after the other; see control.Carry. It
// returns when the first move is durable, or when it is certain that nothing changes. Status has
// the progress.
func (p *Plugin) Carry(ctx context.Context, list []moves.Move, dry bool) error {
	err, gone := ask[error](ctx, p, control.Carry{Left: list, Dry: dry, Until: p.config.Now().Add(p.config.Period)})
	return errors.Join(gone, err)
}

// beginSet makes the first move of a set durable.
func (p *Plugin) beginSet(ctx context.Context, set control.BeginSet) error {
	if set.Pod == nil {
		for _, m := range set.Left {
			if why := p.mayNot(m.To.Pod.UID, set.Cgroups[m.To.Pod.UID]); why != nil {
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
