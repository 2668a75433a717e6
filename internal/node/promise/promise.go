// Package promise keeps the place of a pod for which running pods are being moved.
//
// What is free of the place, and of the places to which the others move, is given to no other pod
// until the promise ends: neither to one that is admitted, nor to one that grows. The pod itself is
// planned at its place as soon as every rule of admission allows that. There is one promise at a
// time, because a node makes one set of moves at a time. It is not durable: after a restart the pod
// is planned again on what the moves have left.
//
// A Keeper is safe for use by several goroutines. No method waits. Without a promise, Plan costs
// one atomic read.
package promise

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Planner decides about a pod, as engine.Config.Plan.
type Planner func(*node.State, request.Pod) (plan *node.Plan, asked *node.State)

// Keeper keeps at most one promise.
type Keeper struct {
	now  func() time.Time
	kept atomic.Pointer[promise]
}

// promise is a place for a pod. until is zero while the moves are under way.
type promise struct {
	uid   string
	place *node.Grant
	moved []*node.Grant
	until time.Time

	mu       sync.Mutex
	of, with *node.State // the last state, and the same with the promise
}

// New makes a keeper. now must have a monotonic clock, as time.Now has.
func New(now func() time.Time) *Keeper { return &Keeper{now: now} }

// Keep promises a place to a pod, and to others the places to which they move, until Until or Drop
// ends that. It replaces an earlier promise.
func (k *Keeper) Keep(uid string, place *node.Grant, moved []*node.Grant) {
	k.kept.Store(&promise{uid: uid, place: place, moved: moved})
}

// Until ends the promise of a pod at that time.
func (k *Keeper) Until(uid string, at time.Time) {
	if p := k.kept.Load(); p != nil && p.uid == uid {
		k.kept.Store(&promise{uid: uid, place: p.place, moved: p.moved, until: at})
	}
}

// Drop ends the promise of a pod now.
func (k *Keeper) Drop(uid string) {
	if p := k.kept.Load(); p != nil && p.uid == uid {
		k.kept.Store(nil)
	}
}

// Plan is engine.Config.Plan: that of next, besides the promise.
func (k *Keeper) Plan(next Planner) Planner {
	return func(s *node.State, pod request.Pod) (*node.Plan, *node.State) {
		p := k.inForce(s)
		if _, known := s.Grant(pod.UID); p == nil || known {
			return next(s, pod)
		}
		if pod.UID == p.uid {
			if plan, err := s.PlanGrant(pod, p.place); err == nil {
				return plan, s
			}
			return next(s, pod)
		}
		plan, asked := next(p.beside(s), pod)
		if own := s.PlanBesides(plan); own != nil {
			return own, asked
		}
		return next(s, pod)
	}
}

// Resizer decides about another request of a pod, as engine.Config.Resize.
type Resizer func(*node.State, request.Pod) *node.Plan

// Resize is engine.Config.Resize: that of next, besides the promise. A pod that is to be moved
// waits until it is (R-MOV-10).
func (k *Keeper) Resize(next Resizer) Resizer {
	return func(s *node.State, pod request.Pod) *node.Plan {
		p := k.inForce(s)
		if p == nil {
			return next(s, pod)
		}
		plan := s.ResizeBesides(next(p.beside(s), pod))
		switch {
		case plan.Rejection == nil && p.moves(s, pod.UID):
			return plan.Rejected(node.BeingMoved, "the pod is about to be moved to other CPUs or memory: it can be resized when the move has ended")
		case plan.Rejection == nil:
			return plan
		}
		alone := next(s, pod)
		if alone.Rejection != nil {
			return alone // Its account has all that is free.
		}
		plan.Rejection.Reason = node.Deferred
		plan.Rejection.Detail += fmt.Sprintf("; there would be enough without what is promised to pod %s, for which running pods are moved", p.place.Pod.ID())
		return plan
	}
}

// inForce is the promise, if it has not ended and its pod is not there; nil: there is none.
func (k *Keeper) inForce(s *node.State) *promise {
	p := k.kept.Load()
	if p == nil || !p.until.IsZero() && !k.now().Before(p.until) {
		return nil
	}
	if _, there := s.Grant(p.uid); there {
		return nil
	}
	return p
}

// beside is the state without what is promised.
func (p *promise) beside(s *node.State) *node.State {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == s {
		return p.with
	}
	places := []*node.Grant{p.place}
	for _, to := range p.moved {
		if p.moves(s, to.Pod.UID) {
			places = append(places, to)
		}
	}
	p.of, p.with = s, s.Reserving(places...)
	return p.with
}

// moves reports whether a pod is still to be moved. One that is being moved, or was, has its new
// place already.
func (p *promise) moves(s *node.State, uid string) bool {
	g, there := s.Grant(uid)
	return there && g.Moving == nil && slices.ContainsFunc(p.moved, func(to *node.Grant) bool { return to.Pod.UID == uid && !g.SameAssignments(to) })
}
