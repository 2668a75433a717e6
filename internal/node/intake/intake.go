package intake

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/codec/objects"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/node/engine"
)

// DefaultPromise is the default of Config.Promise. It is twice the kubelet's longest back-off, 5
// minutes. In that time a pod that waits for its images or volumes tries again at least once.
const DefaultPromise = 10 * time.Minute

// Config is the environment of an intake.
type Config struct {
	// Node is the name of the Kubernetes node.
	Node string
	// Listing returns what the kubelet listed last, or nil before the first list. It must not wait.
	Listing func() *handover.Listing
	// Now must have a monotonic clock, as time.Now has, because setting the clock must not end a
	// promise.
	Now func() time.Time
	// Promise is the maximum duration of a promise. If zero, DefaultPromise is used.
	Promise time.Duration
	// Count is called with the outcome of every decision about a pod that is not known. If nil,
	// outcomes are not counted.
	Count func(handover.Reason)
	Log   *slog.Logger
}

// Intake plans pods with or without a grant of a scheduler. It is safe for concurrent use.
type Intake struct {
	config Config
	used   atomic.Bool

	mu sync.Mutex
	// promises are the promises of the pods in seen, by UID. hardware is the machine for which
	// compared was computed.
	promises map[string]*promise
	// began is when the promise of a listed pod began, by UID: when a listing first had a usable
	// text for it. Later changes of the text do not renew the promise.
	began    map[string]time.Time
	seen     *handover.Listing
	hardware *machine.Machine
	compared handover.Here
	last     last
}

// promise is a listed pod with a usable text.
type promise struct {
	bound handover.Bound
	text  *handover.Text
	grant *node.Grant
	// allowed is true once the rules of the node have allowed the grant.
	allowed bool
}

// last has the reservations that were made last.
type last struct {
	list []node.Reservation
	// The list is valid for the same listing and machine until the time until. If open is true, the
	// rules do not allow a grant in the state, and the list is valid only for the same state.
	listing  *handover.Listing
	hardware *machine.Machine
	until    time.Time
	open     bool
	state    *node.State
}

// New returns an intake.
func New(c Config) *Intake {
	if c.Promise == 0 {
		c.Promise = DefaultPromise
	}
	return &Intake{config: c, promises: map[string]*promise{}}
}

// Plan implements engine.Config.Plan.
func (i *Intake) Plan(s *node.State, c engine.Candidate) (*node.Plan, *handover.Outcome) {
	if _, known := s.Grant(c.Pod.UID); known {
		return s.Plan(c.Pod), nil
	}
	if c.Handed != "" {
		i.used.Store(true)
	}
	i.mu.Lock()
	here, err := i.here(s)
	i.mu.Unlock()
	if err == nil {
		var plan *node.Plan
		if plan, err = handover.Check(s, here, c.Pod, c.Handed); err == nil {
			return plan, handover.OutcomeOf(nil)
		}
	}
	return s.Plan(c.Pod), handover.OutcomeOf(err)
}

// here returns what texts are compared with. The policy is resolved once, before the first state.
// The caller has the lock.
func (i *Intake) here(s *node.State) (handover.Here, error) {
	if s.Machine() == i.hardware {
		return i.compared, nil
	}
	o, err := objects.Machine(s.Machine())
	if err != nil {
		return handover.Here{}, &handover.Error{Reason: handover.OtherMachine, Detail: err.Error()}
	}
	policy, err := handover.PolicyDigest(s.Policy())
	if err != nil {
		return handover.Here{}, &handover.Error{Reason: handover.OtherPolicy, Detail: err.Error()}
	}
	i.hardware, i.compared = s.Machine(), handover.Here{Node: i.config.Node, Machine: o.Name, Policy: policy}
	return i.compared, nil
}

// Reservations returns the present promises that the rules allow in a state, in ascending order of
// UID. The caller must not change the slice. Each grant is planned once, and again only while the
// rules do not allow it.
func (i *Intake) Reservations(s *node.State) []node.Reservation {
	i.mu.Lock()
	defer i.mu.Unlock()
	listing := i.listing()
	if listing == nil || len(i.promises) == 0 {
		return nil
	}
	here, err := i.here(s)
	if err != nil {
		return nil
	}
	now := i.config.Now()
	if l := &i.last; l.listing == listing && l.hardware == s.Machine() && now.Before(l.until) && (!l.open || l.state == s) {
		return l.list
	}
	next := last{listing: listing, hardware: s.Machine(), until: now.Add(i.config.Promise), state: s}
	for _, uid := range slices.Sorted(maps.Keys(i.promises)) {
		made, ends := i.promises[uid], i.began[uid].Add(i.config.Promise)
		if !now.Before(ends) || (handover.Here{Node: made.text.Node, Machine: made.text.Machine, Policy: made.text.Policy}) != here {
			continue
		}
		next.until = earlier(next.until, ends)
		if !made.allows(s) {
			next.open = true
			continue
		}
		next.list = append(next.list, node.Reservation{Grant: made.grant, Why: node.OnItsWay})
	}
	i.last = next
	return next.list
}

// allows reports whether the rules allow the grant, in the given state or an earlier one. The rules
// are not checked for a pod that already has a grant.
func (p *promise) allows(s *node.State) bool {
	if _, started := s.Grant(p.bound.Pod.UID); !p.allowed && !started {
		_, err := s.PlanGrant(p.bound.Pod, p.grant)
		p.allowed = err == nil
	}
	return p.allowed
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// listing returns what the kubelet lists now, after it has updated the promises. Lock held.
func (i *Intake) listing() *handover.Listing {
	listing := i.config.Listing()
	if listing == nil || listing == i.seen {
		return listing
	}
	i.seen = listing
	now, next, began := i.config.Now(), map[string]*promise{}, map[string]time.Time{}
	for uid, b := range listing.Pods {
		since, known := i.began[uid]
		made := i.promise(uid, b)
		if made != nil {
			next[uid] = made
		}
		if !known {
			since = now
		}
		if known || made != nil {
			began[uid] = since
		}
	}
	for _, uid := range listing.Unusable {
		if since, known := i.began[uid]; known {
			began[uid] = since
		}
	}
	i.promises, i.began = next, began
	if len(next) > 0 {
		i.used.Store(true)
	}
	return listing
}

// promise returns the promise in the text of a listed pod. If the text is not usable, promise
// returns nil. Lock held.
func (i *Intake) promise(uid string, b handover.Bound) *promise {
	if before, there := i.promises[uid]; there && before.bound.Annotation == b.Annotation && before.bound.Pod.Equal(b.Pod) {
		return before
	}
	t, err := handover.Decode(b.Annotation)
	if err != nil {
		return nil
	}
	g, err := t.For(b.Pod)
	if err != nil {
		return nil
	}
	return &promise{bound: b, text: t, grant: g}
}

// Used reports whether a scheduler hands over grants: whether any pod came with a grant, or is
// listed with one.
func (i *Intake) Used() bool { return i.used.Load() }

// Promises returns the number of pods that have a promise in a state.
func (i *Intake) Promises(s *node.State) int {
	return s.WithReservations(i.Reservations(s)).Reserved(node.OnItsWay)
}

// Decided implements engine.Observer.
func (i *Intake) Decided(d engine.Decision) {
	o := d.Handed
	if o == nil {
		return
	}
	if i.config.Count != nil {
		i.config.Count(o.Reason)
	}
	if o.Reason != handover.Applied && o.Reason != handover.Absent {
		i.config.Log.Warn("the grant in the pod's annotation is not applied: the node plans by itself", "pod", d.Plan.Pod.ID(), "uid", d.Plan.Pod.UID, "reason", o.Reason.String(), "error", o.Err)
	}
}

// Wrote implements engine.Observer.
func (i *Intake) Wrote(engine.Write) {}

// Released implements engine.Observer.
func (i *Intake) Released(string) {}
