package intake

import (
	"errors"
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
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/engine"
)

// DefaultPromise is how long a promise lasts at most: twice the kubelet's longest back-off, 5
// minutes, in which a pod that waits for its images or volumes tries again at least once.
const DefaultPromise = 10 * time.Minute

// maxOffers limits the texts that are kept for pods that no plan was asked for: more than a node
// has pods that start at one time.
const maxOffers = 1024

// Config is the environment of an intake.
type Config struct {
	// Node is the name of the Kubernetes node.
	Node string
	// Listing is what the kubelet listed last; nil: nothing yet. It must not wait.
	Listing func() *handover.Listing
	// Now must have a monotonic clock, as time.Now has: a clock that is set must not end a promise.
	Now func() time.Time
	// Promise is how long a promise lasts at most. Default: DefaultPromise.
	Promise time.Duration
	// Count gets the outcome of every decision about a pod that is not known; nil: none does.
	Count func(handover.Reason)
	Log   *slog.Logger
}

// Intake is safe for use by several goroutines.
type Intake struct {
	config Config
	used   atomic.Bool

	mu      sync.Mutex
	offers  map[string]string // the texts of pods, by UID
	outcome map[string]outcome
	// promises are those of the pods in seen, by UID, hardware is the machine of compared.
	promises map[string]promise
	// began is when the promise of a listed pod began, by UID: when a listing first had a usable
	// text of it. What becomes of its text later does not renew the promise.
	began    map[string]time.Time
	seen     *handover.Listing
	hardware *machine.Machine
	compared handover.Here
	// promised is the last state with promises that was made.
	promised struct {
		of, with *node.State
		listing  *handover.Listing
		until    time.Time
	}
}

// promise is a listed pod with a usable text.
type promise struct {
	bound handover.Bound
	text  *handover.Text
	grant *node.Grant
}

// outcome is how the last plan for a pod came about.
type outcome struct {
	reason handover.Reason
	err    error
}

// New makes an intake.
func New(c Config) *Intake {
	if c.Promise == 0 {
		c.Promise = DefaultPromise
	}
	return &Intake{config: c, offers: map[string]string{}, outcome: map[string]outcome{}, promises: map[string]promise{}}
}

// Offer notes the text with which a pod's sandbox comes; empty: none.
func (i *Intake) Offer(uid, text string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.offers) >= maxOffers || len(i.outcome) >= maxOffers { // They are of pods that never came to a decision.
		clear(i.offers)
		clear(i.outcome)
	}
	if text != "" {
		i.used.Store(true)
		i.offers[uid] = text
	} else {
		delete(i.offers, uid)
	}
}

// Plan is engine.Config.Plan.
func (i *Intake) Plan(s *node.State, pod request.Pod) (plan *node.Plan, asked *node.State) {
	if _, known := s.Grant(pod.UID); known {
		return s.Plan(pod), s
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	here, err := i.here(s)
	if err == nil {
		plan, err = handover.Check(s, here, pod, i.offers[pod.UID])
	}
	i.outcome[pod.UID] = outcome{reasonOf(err), err}
	if err == nil {
		return plan, s
	}
	if with := i.with(s, here, pod.UID); with != s {
		if plan := s.PlanBesides(with.Plan(pod)); plan != nil {
			return plan, with
		}
	}
	return s.Plan(pod), s
}

// here is what texts are compared with. The policy is resolved once, before the first state. The
// caller has the lock.
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

// Resize is engine.Config.Resize: a pod that grows takes nothing that is promised.
func (i *Intake) Resize(s *node.State, pod request.Pod) *node.Plan {
	i.mu.Lock()
	defer i.mu.Unlock()
	if here, err := i.here(s); err == nil {
		return s.ResizeBesides(i.with(s, here, pod.UID).Resize(pod.UID, pod))
	}
	return s.Resize(pod.UID, pod)
}

func reasonOf(err error) handover.Reason {
	var wrong *handover.Error
	switch {
	case err == nil:
		return handover.Applied
	case errors.As(err, &wrong):
		return wrong.Reason
	}
	return handover.Shape
}

// with is the state with the promised pods but for one. It is s if nothing is promised. Lock held.
func (i *Intake) with(s *node.State, here handover.Here, but string) *node.State {
	listing := i.listing()
	if listing == nil || len(i.promises) == 0 {
		return s
	}
	_, own := i.promises[but]
	now, last := i.config.Now(), &i.promised
	if !own && last.of == s && last.listing == listing && now.Before(last.until) {
		return last.with
	}
	with, until := s, now.Add(i.config.Promise)
	for _, uid := range slices.Sorted(maps.Keys(i.promises)) {
		made := i.promises[uid]
		ends := i.began[uid].Add(i.config.Promise)
		if _, started := s.Grant(uid); started || uid == but || !now.Before(ends) || (handover.Here{Node: made.text.Node, Machine: made.text.Machine, Policy: made.text.Policy}) != here {
			continue
		}
		plan, err := with.PlanGrant(made.bound.Pod, made.grant)
		if err != nil {
			continue // It will be planned by itself, too.
		}
		if next, err := with.Apply(plan); err == nil {
			with = next
			until = earlier(until, ends)
		}
	}
	if !own {
		last.of, last.with, last.listing, last.until = s, with, listing, until
	}
	return with
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// listing is what the kubelet lists now, with promises up to date. Lock held.
func (i *Intake) listing() *handover.Listing {
	listing := i.config.Listing()
	if listing == nil || listing == i.seen {
		return listing
	}
	i.seen = listing
	now, next, began := i.config.Now(), map[string]promise{}, map[string]time.Time{}
	for uid, b := range listing.Pods {
		since, known := i.began[uid]
		made, usable := i.promise(uid, b)
		if usable {
			next[uid] = made
		}
		if !known {
			since = now
		}
		if known || usable {
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

// promise is what a listed pod's text promises, if it is usable. Lock held.
func (i *Intake) promise(uid string, b handover.Bound) (promise, bool) {
	if before, there := i.promises[uid]; there && before.bound.Annotation == b.Annotation && before.bound.Pod.Equal(b.Pod) {
		return before, true
	}
	t, err := handover.Decode(b.Annotation)
	if err != nil {
		return promise{}, false
	}
	g, err := t.For(b.Pod)
	return promise{b, t, g}, err == nil
}

// Used reports whether any pod came with a grant, or is listed with one: whether a scheduler hands
// grants over.
func (i *Intake) Used() bool { return i.used.Load() }

// Promises is how many pods have a promise in a state.
func (i *Intake) Promises(s *node.State) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	here, err := i.here(s)
	if err != nil {
		return 0
	}
	return len(i.with(s, here, "").Grants()) - len(s.Grants())
}

// Outcome is how the last plan for a pod that is not known came about. Contested: the pod's grant
// needs something that another pod has, or that is not free.
func (i *Intake) Outcome(uid string) (reason handover.Reason, contested bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	o, there := i.outcome[uid]
	if !there {
		return handover.Absent, false
	}
	return o.reason, slices.Contains([]handover.Reason{handover.CPUs, handover.Memory, handover.Devices, handover.Alignment}, o.reason)
}

// Decided is engine.Observer's.
func (i *Intake) Decided(d engine.Decision) {
	if d.Plan.Known {
		return
	}
	uid := d.Plan.Pod.UID
	i.mu.Lock()
	o, there := i.outcome[uid]
	delete(i.outcome, uid)
	if d.Plan.Grant != nil && d.Err == nil {
		delete(i.offers, uid)
	}
	i.mu.Unlock()
	if !there {
		return
	}
	if i.config.Count != nil {
		i.config.Count(o.reason)
	}
	if o.reason != handover.Applied && o.reason != handover.Absent {
		i.config.Log.Warn("the grant in the pod's annotation is not applied: the node plans by itself", "pod", d.Plan.Pod.ID(), "uid", uid, "reason", o.reason.String(), "error", o.err)
	}
}

// Wrote is engine.Observer's.
func (i *Intake) Wrote(engine.Write) {}

// Released is engine.Observer's.
func (i *Intake) Released(string) {}
