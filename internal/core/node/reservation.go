package node

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/account"
	"github.com/paddock-project/paddock/internal/core/cache"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Purpose is why a place is reserved. It decides when the reservation is in force, and which pods
// respect it.
type Purpose int

// The purposes.
const (
	// RoomForPod means that running pods are moved so that the pod fits in the place. The
	// reservation is in force until the pod has a grant. It covers what is free of the place: the
	// rest becomes free as the other pods leave. State.Plan plans the pod there if every rule
	// allows that.
	RoomForPod Purpose = iota
	// MovedTo means that a running pod is about to be moved to the place. The reservation is in
	// force until the move begins. It covers what is free of the place, without what the pod has
	// already: memory that stays where it is, and the classes of the caches, which are widened.
	MovedTo
	// OnItsWay means that the grant was made elsewhere for a pod that is bound to the Kubernetes
	// node and has not started. The reservation is in force until the pod has a grant, and only
	// while all of the place is free: otherwise the pod cannot get it. It does not count for pods
	// whose own grant was made elsewhere as well (PlanGrant).
	OnItsWay
)

// Reservation keeps a place for one pod: no other pod gets what is free of it. It takes nothing
// from a grant. The caller that reserves decides for how long.
type Reservation struct {
	// Grant is the place, for the pod of the grant. A place without a pod UID is kept from every
	// pod.
	Grant *Grant
	Why   Purpose
}

// reserved has the reservations of a state. It never changes.
type reserved struct {
	list []Reservation
	// all is the offer to pods without a reservation. If nil, each plan computes it.
	all *offer
}

// offer is what a pod can get in a state: what is free on the Kubernetes node, without what is kept
// for other pods.
type offer struct {
	ledger
	kept []kept
}

// kept is the free part of a reservation that is in force.
type kept struct {
	pod     string // namespace/name
	why     Purpose
	cpus    cpuset.Set
	blocks  []memory.Block
	devices []device.Assigned
	classes []cache.Class
	// widens is true if classes are parts of classes that the pod has already.
	widens bool
}

// WithReservations returns the state with these reservations instead of its present ones. If two of
// them overlap, the first one has the common part. The generation stays, and nothing is assigned: a
// Kubernetes node does not keep reservations over a restart. If the reservations are the same, it
// returns s.
func (s *State) WithReservations(list []Reservation) *State {
	if s.reserved == nil && len(list) == 0 || s.reserved != nil && s.reserved.all != nil && slices.Equal(s.reserved.list, list) {
		return s
	}
	n := *s
	if n.reserved = nil; len(list) > 0 {
		n.reserved = &reserved{list: slices.Clone(list)}
		all := n.offerTo("", OnItsWay)
		n.reserved.all = &all
	}
	return &n
}

// Reservations returns the reservations as passed to WithReservations. The slice belongs to the
// state.
func (s *State) Reservations() []Reservation {
	if s.reserved == nil {
		return nil
	}
	return s.reserved.list
}

// Reserved returns how many reservations for a purpose are in force.
func (s *State) Reserved(why Purpose) int {
	n := 0
	for _, k := range s.offerTo("", OnItsWay).kept {
		if k.why == why {
			n++
		}
	}
	return n
}

// offerTo returns what a pod can get, without what is reserved for other pods for purposes up to
// most.
func (s *State) offerTo(uid string, most Purpose) offer {
	o := offer{ledger: s.ledger}
	if s.reserved == nil {
		return o
	}
	own := func(r Reservation) bool { return uid != "" && r.Grant.Pod.UID == uid }
	if s.reserved.all != nil && most == OnItsWay && !slices.ContainsFunc(s.reserved.list, own) {
		return *s.reserved.all
	}
	for _, r := range s.reserved.list {
		if r.Why <= most && !own(r) && s.inForce(r) {
			o.keep(r, s.needs(r))
		}
	}
	return o
}

// inForce reports whether the pod of a reservation still needs it.
func (s *State) inForce(r Reservation) bool {
	g, there := s.Grant(r.Grant.Pod.UID)
	switch {
	case r.Grant.Pod.UID == "":
		return true
	case r.Why == MovedTo:
		return there && g.Moving == nil && !g.SameAssignments(r.Grant)
	}
	return !there
}

// needs has the memory and the classes that the place of a reservation takes.
type needs struct {
	blocks  []memory.Block
	classes []cache.Class
	widens  bool // see kept
}

// needs returns what the place of a reservation takes beside what the pod has now.
func (s *State) needs(r Reservation) needs {
	g := r.Grant
	old, there := s.Grant(g.Pod.UID)
	if r.Why != MovedTo || !there || len(old.Containers) != len(g.Containers) {
		return needs{g.Charged(), g.Classes(), false}
	}
	both := *old
	both.Moving = g
	n := needs{blocks: both.Charged()[len(old.Charged()):], widens: true}
	had, has := old.Classes(), both.Classes()
	if len(had) != len(has) {
		return needs{n.blocks, g.Classes(), false}
	}
	for i, c := range has {
		n.classes = append(n.classes, c.Beyond(had[i]))
	}
	return n
}

// keep removes the free part of a reservation from the offer.
func (o *offer) keep(r Reservation, of needs) {
	g, next := r.Grant, *o
	k := kept{pod: g.Pod.ID(), why: r.Why, cpus: g.CPUs().Intersection(o.unassigned), widens: of.widens}
	next.unassigned = o.unassigned.Difference(k.cpus)
	whole := k.cpus.Equal(g.CPUs())
	for _, b := range of.blocks {
		if !next.usage.Fits(b.Nodes, request.Amounts{{Resource: b.Type, Value: b.Size}}) {
			whole = false
			continue
		}
		k.blocks = append(k.blocks, b)
		next.usage = next.usage.Charge(k.blocks[len(k.blocks)-1:], nil)
	}
	for _, h := range g.Devices() {
		free := device.Assigned{Resource: h.Resource}
		for _, id := range h.IDs {
			if _, is := slices.BinarySearch(next.devices.Free(h.Resource), id); is {
				free.IDs = append(free.IDs, id)
			}
		}
		whole = whole && len(free.IDs) == len(h.IDs)
		if taken, err := next.devices.Take(free.Resource, free.IDs); err == nil && len(free.IDs) > 0 {
			next.devices, k.devices = taken, append(k.devices, free)
		}
	}
	for _, c := range of.classes {
		taken, free := next.caches.TakeFree(c, of.widens)
		if whole = whole && len(free) == len(c); len(free) > 0 {
			next.caches, k.classes = taken, append(k.classes, free)
		}
	}
	if r.Why == OnItsWay && !whole {
		return
	}
	next.kept = slices.Concat(o.kept, []kept{k}) // Other offers share what was kept before.
	*o = next
}

// without returns what is free on the Kubernetes node after an admission has taken its part of an
// offer: what l has free, plus what is kept for other pods.
func (o *offer) without(l ledger) ledger {
	for _, k := range o.kept {
		l.unassigned, l.usage, l.devices = l.unassigned.Union(k.cpus), l.usage.Release(k.blocks), returnDevices(l.devices, k.devices)
		for _, c := range k.classes {
			if k.widens {
				l.caches = l.caches.Narrow(c)
			} else {
				l.caches = l.caches.Return(c)
			}
		}
	}
	return l
}

// room returns the place that is reserved for a pod for which others are moved, or nil.
func (s *State) room(uid string) *Grant {
	if s.reserved != nil {
		for _, r := range s.reserved.list {
			if r.Why == RoomForPod && uid != "" && r.Grant.Pod.UID == uid {
				return r.Grant
			}
		}
	}
	return nil
}

// aboutToMove reports whether the pod is about to be moved and the move has not begun.
func (s *State) aboutToMove(uid string) bool {
	return s.reserved != nil && slices.ContainsFunc(s.reserved.list, func(r Reservation) bool {
		return r.Why == MovedTo && r.Grant.Pod.UID == uid && s.inForce(r)
	})
}

// forMove returns what the pod can be moved to. If a reservation exists for the move, the place
// belongs to the pod. Then no other reservation counts, because the moves of a set make room for
// each other.
func (s *State) forMove(uid string) offer {
	if s.aboutToMove(uid) {
		return offer{ledger: s.ledger}
	}
	return s.offerTo(uid, OnItsWay)
}

// keptFrom returns an error if any of the CPUs is reserved for another pod.
func (o *offer) keptFrom(cpus cpuset.Set) error {
	for _, k := range o.kept {
		if both := k.cpus.Intersection(cpus); !both.IsEmpty() {
			return broken("CPUs %s are %s%s", both, account.ReservedFor, k.pod)
		}
	}
	return nil
}

// checkReserved proves that nothing that is kept belongs to a grant, and that nothing is kept
// twice.
func (s *State) checkReserved() error {
	if s.reserved == nil {
		return nil
	}
	o := s.offerTo("", OnItsWay)
	free, usage := s.unassigned, s.usage
	for _, k := range o.kept {
		if !free.Contains(k.cpus) {
			return broken("CPUs %s are %s%s and assigned, or reserved for another pod", k.cpus.Difference(free), account.ReservedFor, k.pod)
		}
		free, usage = free.Difference(k.cpus), usage.Charge(k.blocks, nil)
		for _, b := range k.blocks {
			if over := usage.Overdrawn(b.Nodes, b.Type); over > 0 {
				return broken("%s on %s is %s%s, and %s of it is not free", request.Words(b.Type, b.Size), b.Nodes.Text(), account.ReservedFor, k.pod, request.Words(b.Type, over))
			}
		}
	}
	left := o.without(o.ledger)
	if !o.unassigned.Equal(free) || !left.unassigned.Equal(s.unassigned) || !o.usage.Equal(usage) || !left.usage.Equal(s.usage) ||
		!left.devices.Equal(s.devices) || !left.caches.Equal(s.caches) {
		return broken("what pods can get is not what is free without what is reserved")
	}
	return nil
}
