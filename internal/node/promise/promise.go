// Package promise keeps the place of a pod for which running pods are being moved, for a time.
//
// What is free of the place, and of the places to which the others move, is reserved in the state
// that is planned on (node.Reservation): Reservations is a part of engine.Config.Reserve. This
// package knows for how long. There is one promise at a time, because a node makes one set of moves
// at a time. It is not durable: after a restart the pod is planned again on what the moves have
// left.
//
// A Keeper is safe for use by several goroutines. No method waits.
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

// promise is a place for a pod, and the places to which others move for it. until is zero while the
// moves are under way.
type promise struct {
	uid   string
	list  []node.Reservation
	until time.Time
}

// New makes a keeper. now must have a monotonic clock, as time.Now has.
func New(now func() time.Time) *Keeper { return &Keeper{now: now} }

// Keep promises a place to a pod, and to others the places to which they move, until Until or Drop
// ends that. It replaces an earlier promise.
func (k *Keeper) Keep(uid string, place *node.Grant, moved []*node.Grant) {
	list := []node.Reservation{{Grant: place, Why: node.RoomForPod}}
	for _, to := range moved {
		list = append(list, node.Reservation{Grant: to, Why: node.MovedTo})
	}
	k.kept.Store(&promise{uid: uid, list: list})
}

// Until ends the promise of a pod at that time.
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

// inForce is the promise of now; nil: there is none.
func (k *Keeper) inForce() *promise {
	p := k.kept.Load()
	if p == nil || !p.until.IsZero() && !k.now().Before(p.until) {
		return nil
	}
	return p
}

// Kept is the pod that has a promise now, and when that ends: zero while moves for it are under
// way. The UID is empty if there is none.
func (k *Keeper) Kept() (uid string, until time.Time) {
	if p := k.inForce(); p != nil {
		return p.uid, p.until
	}
	return "", time.Time{}
}

// Reservations are the places of the promise of now. The slice is the keeper's own.
func (k *Keeper) Reservations() []node.Reservation {
	if p := k.inForce(); p != nil {
		return p.list
	}
	return nil
}
