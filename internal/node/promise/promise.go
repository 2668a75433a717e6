// Package promise keeps a place for a pod while running pods are moved for it, and for a time after
// that.
//
// The free parts of that place, and of the places to which the other pods move, are reserved in the
// state that is planned on (node.Reservation). Reservations is a part of engine.Config.Reserve.
// This package knows how long the promise lasts. There is one promise at a time, because a node
// makes one set of moves at a time. A promise is not durable: after a restart the pod is planned
// again on what the moves have left.
//
// A Keeper is safe for concurrent use. No method waits.
package promise

import (
	"sync/atomic"
	"time"

	"github.com/paddock-project/paddock/internal/core/node"
)

// Keeper keeps at most one promise.
type Keeper struct {
	now  func() time.Time
	kept atomic.Pointer[promise]
}

// promise is a place for a pod, and the places to which other pods move for it. until is zero while
// the moves are under way.
type promise struct {
	uid   string
	list  []node.Reservation
	until time.Time
}

// New returns a keeper. now must have a monotonic clock, as time.Now has.
func New(now func() time.Time) *Keeper { return &Keeper{now: now} }

// Keep promises a place to a pod, and to other pods the places to which they move. The promise
// lasts until Until or Drop ends it. It replaces an earlier promise.
func (k *Keeper) Keep(uid string, place *node.Grant, moved []*node.Grant) {
	list := []node.Reservation{{Grant: place, Why: node.RoomForPod}}
	for _, to := range moved {
		list = append(list, node.Reservation{Grant: to, Why: node.MovedTo})
	}
	k.kept.Store(&promise{uid: uid, list: list})
}

// Until makes the promise of a pod end at the given time.
func (k *Keeper) Until(uid string, at time.Time) {
	if p := k.kept.Load(); p != nil && p.uid == uid {
		k.kept.Store(&promise{uid, p.list, at})
	}
}

// Drop ends the promise of a pod now.
func (k *Keeper) Drop(uid string) {
	if p := k.kept.Load(); p != nil && p.uid == uid {
		k.kept.Store(nil)
	}
}

// inForce returns the present promise, or nil.
func (k *Keeper) inForce() *promise {
	p := k.kept.Load()
	if p == nil || !p.until.IsZero() && !k.now().Before(p.until) {
		return nil
	}
	return p
}

// Kept returns the pod that has a promise now, and when the promise ends. The time is zero while
// moves for the pod are under way. The UID is empty if there is no promise.
func (k *Keeper) Kept() (uid string, until time.Time) {
	if p := k.inForce(); p != nil {
		return p.uid, p.until
	}
	return "", time.Time{}
}

// Reservations returns the places of the present promise. The caller must not change the slice.
func (k *Keeper) Reservations() []node.Reservation {
	if p := k.inForce(); p != nil {
		return p.list
	}
	return nil
}
