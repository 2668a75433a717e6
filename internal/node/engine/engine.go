package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// ErrNotWritten is wrapped by the error of a change that is not durable: either the write failed,
// and nothing has changed, or the caller's context ended first, and the write goes on.
var ErrNotWritten = errors.New("the state could not be written")

// errStillWriting is wrapped, together with ErrNotWritten, if the caller's context ends first.
var errStillWriting = errors.New("the disk has not confirmed the write in time; the write continues")

// Store keeps one state. Write is atomic and durable. After an error the old state is kept. If the
// error wraps store.ErrUncertain, it may also be the new one until a write succeeds. Write is
// called by one goroutine at a time and may take any time.
type Store interface {
	Write(data []byte) error
}

// Observer is notified of everything that happens, in order, under the engine's lock. It must not
// call the engine and must not wait.
type Observer interface {
	Decided(Decision)
	Wrote(Write)
	Released(uid string)
}

// Decision is the answer to one admission, or to one resize.
type Decision struct {
	Plan *node.Plan
	// Base is the state on which the decision was made, including the reservations. Planning on it
	// again gives the same plan, unless a grant was handed over, or the plan does not fit into a
	// state file.
	Base *node.State
	// Handed is the outcome of the grant that was handed over. It is nil if there is no
	// Config.Plan, if the pod is known, or if the decision is an earlier one that is reported
	// again.
	Handed *handover.Outcome
	// Took is the time for deciding. Waited is the time until the grant was durable or the wait
	// ended.
	Took, Waited time.Duration
	// Err is set if the plan was good and is not durable, or if it is an OutsideError.
	Err error
}

// OutsideError is the error of a pod whose plan is good, and that a kubelet rejected for a reason
// that is not in the state: the requests of all pods are more than the Node has.
type OutsideError struct {
	// Reason is that of the pod's status, such as OutOfcpu, and Resource the one that it names.
	Reason, Resource string
	// Message is the kubelet's.
	Message string
}

// Error implements error.
func (o *OutsideError) Error() string { return o.Reason + ": " + o.Message }

// Write is one write of the state.
type Write struct {
	// State is the state that was written, or that could not be written.
	State      *node.State
	Generation uint64
	Bytes      int
	Took       time.Duration
	At         time.Time
	Err        error
}

// Config is the engine's environment.
type Config struct {
	Store Store
	// Encode returns the bytes that Store keeps. It is called by one goroutine at a time.
	Encode func(*node.State) ([]byte, error)
	// Fits returns the error that Encode would return for a state. If nil, every state can be
	// encoded. It is called under the engine's lock.
	Fits func(*node.State) error
	// Plan decides about a pod. If nil, node.State.Plan is used. Plan returns the plan, and the
	// outcome of the grant that was handed over. It is called by several goroutines, also under the
	// engine's lock, and must not wait.
	Plan func(*node.State, Candidate) (*node.Plan, *handover.Outcome)
	// Reserve returns the state with the present reservations (node.State.WithReservations), and no
	// other change. If nil, nothing is ever reserved. It is called under the engine's lock before
	// every decision and at every Tick, and must not wait.
	Reserve  func(*node.State) *node.State
	Now      func() time.Time
	Observer Observer
	Log      *slog.Logger
}

// Snapshot is what readers see.
type Snapshot struct {
	State *node.State
	// Pending are the grants that are decided and not yet durable. No container runs on them. While
	// a pod is being resized, State has its grant as it was before.
	Pending []*node.Grant
	// Unreleased are the UIDs of pods that are gone and still have their CPUs and memory, because
	// the release is not durable yet.
	Unreleased []string
	// Version increases with every decision. Two snapshots with equal versions give equal plans.
	Version uint64
}

// Engine decides about pods, and makes the decisions durable. It is safe for concurrent use.
type Engine struct {
	config    Config
	published atomic.Pointer[Snapshot]

	mu sync.Mutex // guards the fields below; not locked while the disk works
	// next is the state that was decided last. version counts its changes, except those of
	// reservations, which are not written. reservations counts those.
	next         *node.State
	version      uint64
	reservations uint64
	// durable is the state that this engine wrote last. It is nil while that is uncertain.
	durable *node.State
	// failed is true if the last write did not succeed.
	failed bool
	// deciding is true while several pods are decided. What is pending is published after the last
	// one.
	deciding bool
	// writing is true while the writer goroutine runs. since is when its present write began. If
	// zero, none has begun. wanted is the version that the writer has to reach.
	writing bool
	since   time.Time
	wanted  uint64
	waiters []waiter
	// doubtful are the UIDs of pods from which a failed write took something that may be missing on
	// the disk. What these pods have is not durable until a write succeeds. reduced are the UIDs of
	// pods from which a decision since the last write took something.
	doubtful, reduced map[string]bool
	// created are the containers that were created since the last write began. They are noted again
	// if that write fails.
	created []containerName
	// rebase applies the functions of all calls of Rebase since the last write began, one after the
	// other. If nil, there was no call.
	rebase func(*node.State) (*node.State, error)
	// late are the decisions about pods whose caller did not wait for the write. The next caller
	// gets the decision as if it were the first one.
	late map[string]Decision
}

// stalled is the time after which the disk counts as stalled during a write. A healthy disk needs
// milliseconds. An admission then does not wait for the write. A runtime has a lock while it waits
// for an answer, so each wait would delay every other pod.
const stalled = time.Second

type containerName struct{ uid, name string }

// waiter waits until a version is durable.
type waiter struct {
	version uint64
	done    chan error // buffered
}

// New returns an Engine that starts from a state. The state is durable, or it is safe to start from
// even if it never becomes durable. Flush writes it.
func New(initial *node.State, c Config) *Engine {
	e := &Engine{config: c, next: initial, doubtful: map[string]bool{}, reduced: map[string]bool{}, late: map[string]Decision{}}
	e.published.Store(&Snapshot{State: initial})
	return e
}

// Snapshot returns the present state. It never waits.
func (e *Engine) Snapshot() *Snapshot { return e.published.Load() }

// State returns Snapshot().State.
func (e *Engine) State() *node.State { return e.Snapshot().State }

// stalls reports whether the present write takes so long that no admission waits for it. Lock held.
func (e *Engine) stalls(now time.Time) bool {
	return e.writing && !e.since.IsZero() && now.Sub(e.since) > stalled
}

// soon returns ctx or, if the disk stalls, a context that has ended. The write then goes on, and no
// caller waits for it.
func soon(ctx context.Context, stalls bool) context.Context {
	if !stalls {
		return ctx
	}
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}

// change makes next the decided state. Lock held.
func (e *Engine) change(next *node.State) {
	e.next = next
	e.version++
	e.publish(e.State())
}

// publish shows a durable state to readers, together with what was decided after it. While several
// pods are being decided, it publishes only a state after which nothing was decided. Lock held.
func (e *Engine) publish(durable *node.State) {
	if e.deciding && durable != e.next {
		return
	}
	snapshot := &Snapshot{State: durable, Version: e.version + e.reservations}
	if durable != e.next {
		snapshot.Pending, snapshot.Unreleased = beyond(durable, e.next)
	}
	e.published.Store(snapshot)
}

// beyond returns the grants of next that durable does not have, or has with other sizes, and the
// UIDs of the pods whose grants only durable has.
func beyond(durable, next *node.State) (pending []*node.Grant, unreleased []string) {
	for g := range next.AllGrants() {
		if h, there := durable.Grant(g.Pod.UID); !there || h.Sequence != g.Sequence || h.Resized != g.Resized {
			pending = append(pending, g)
		}
	}
	for h := range durable.AllGrants() {
		if isReleased(h, next) {
			unreleased = append(unreleased, h.Pod.UID)
		}
	}
	return pending, unreleased
}

// isReleased reports whether a grant of a durable state is missing in next.
func isReleased(h *node.Grant, next *node.State) bool {
	g, there := next.Grant(h.Pod.UID)
	return !there || h.Sequence != g.Sequence
}

// Release takes back what a pod has, because the pod is gone. It waits for the write until ctx
// ends. The error wraps ErrNotWritten: the pod then still has it, and every later change and Tick
// try again.
func (e *Engine) Release(ctx context.Context, uid string) error {
	e.mu.Lock()
	done := e.drop(ctx, uid)
	e.mu.Unlock()
	if done == nil {
		return nil
	}
	return outcome(ctx, done)
}

// Drop is Release without waiting. ctx is used for logging.
func (e *Engine) Drop(ctx context.Context, uid string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.drop(ctx, uid)
}

// drop releases a pod. It returns nil if there is nothing to take back. Lock held.
func (e *Engine) drop(ctx context.Context, uid string) chan error {
	delete(e.late, uid)
	if _, decided := e.next.Grant(uid); decided {
		e.reduced[uid] = true
		e.change(e.next.Release(uid))
		return e.await(ctx)
	}
	if slices.Contains(e.Snapshot().Unreleased, uid) {
		return e.await(ctx)
	}
	return nil
}

// Tick retries what could not be written, so that the engine notices when the state can be written
// again even if nothing changes. It also takes over the present reservations. A timer calls it. It
// waits until ctx ends.
func (e *Engine) Tick(ctx context.Context) error {
	e.mu.Lock()
	e.reserve()
	var done chan error
	if e.writing || e.failed || len(e.Snapshot().Unreleased) > 0 {
		done = e.await(ctx)
	}
	e.mu.Unlock()
	if done == nil {
		return nil
	}
	return outcome(ctx, done)
}

// ContainerCreated notes that a container was created, so that memory of init containers before it
// is free (R-MEM-63). The note is written with the next change. ContainerCreated does not wait.
func (e *Engine) ContainerCreated(uid, name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	next := e.next.ContainerCreated(uid, name)
	if next == e.next {
		return
	}
	durable := e.State()
	if e.next == durable {
		durable = next
	}
	e.created = append(e.created, containerName{uid, name})
	e.next = next
	e.version++
	e.publish(durable)
}

// Rebase replaces the state by the result of f, for a machine that changed under the pods. f must
// be pure and idempotent: it is called for the published and for the decided state, and for a state
// that is being written. The changes of f are published at once, because they follow from the
// machine, and are written, but Rebase does not wait for that. An error is that of f. Nothing has
// changed then. ctx is used for logging.
func (e *Engine) Rebase(ctx context.Context, f func(*node.State) (*node.State, error)) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.rebaseOn(ctx, f)
}

// rebaseOn is Rebase. Lock held.
func (e *Engine) rebaseOn(ctx context.Context, f func(*node.State) (*node.State, error)) error {
	durable := e.State()
	next, err := f(e.next)
	if err != nil {
		return err
	}
	rebased := next
	if durable != e.next {
		if rebased, err = f(durable); err != nil {
			return err
		}
	}
	if before := e.rebase; before != nil {
		after := f
		f = func(s *node.State) (*node.State, error) {
			s, err := before(s)
			if err != nil {
				return nil, err
			}
			return after(s)
		}
	}
	e.next, e.rebase = next, f
	e.version++
	e.publish(rebased)
	e.await(ctx)
	return nil
}

// Describe keeps what is now known about the ResourceClaims of a pod, so that it can be reported.
// The claims are published at once, because no decision depends on them, and are written, but
// Describe does not wait for that. It returns an error if the claims do not fit into a state file.
// Nothing has changed then. ctx is used for logging.
func (e *Engine) Describe(ctx context.Context, uid string, claims []request.Claim) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	next := e.next.WithClaims(uid, claims)
	if next == e.next {
		return nil
	}
	if e.config.Fits != nil {
		if full := e.config.Fits(next); full != nil {
			return full
		}
	}
	return e.rebaseOn(ctx, func(s *node.State) (*node.State, error) { return s.WithClaims(uid, claims), nil })
}

// Flush writes the state, unless the decided state is the one that was written last. It waits until
// ctx ends. The error wraps ErrNotWritten.
func (e *Engine) Flush(ctx context.Context) error {
	e.mu.Lock()
	if !e.writing && e.next == e.durable {
		e.mu.Unlock()
		return nil
	}
	done := e.await(ctx)
	e.mu.Unlock()
	return outcome(ctx, done)
}

// outcome waits for a write until ctx ends.
func outcome(ctx context.Context, done chan error) error {
	select {
	case err := <-done:
		return err
	default:
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrNotWritten, errStillWriting)
	}
}

// log reports the decision about a pod in one line.
func (e *Engine) log(ctx context.Context, d Decision) {
	p := d.Plan
	log := e.config.Log.With("pod", p.Pod.ID(), "uid", p.Pod.UID)
	switch {
	case d.Err != nil:
		log.ErrorContext(ctx, "pod not admitted", "error", d.Err)
	case p.Rejection != nil:
		log.WarnContext(ctx, "pod rejected", "reason", p.Rejection.Reason, "rule", p.Rejection.Rule, "why", p.Rejection.Detail)
	case p.Known:
		log.DebugContext(ctx, "pod keeps its grant")
	default:
		log.InfoContext(ctx, "pod admitted", "qos", p.Pod.QoS.String(), "pool", p.Grant.Pool.String(), "shared", p.Delta.SharedAfter.String())
		// These are the containers of a Guaranteed pod that have no CPUs of their own, and the
		// reasons.
		for i, c := range p.Pod.Containers {
			if p.Pod.QoS == request.Guaranteed && p.Grant.Isolation(i) != node.ContainerIsolation && c.Sharing != request.NotShared {
				log.InfoContext(ctx, "container shares", "container", c.Name, "isolation", p.Grant.Isolation(i).String(), "rule", c.Sharing.Rule(), "why", c.Sharing.String())
			}
		}
	}
	for _, note := range p.Trace.Notes {
		log.WarnContext(ctx, "note on the decision", "note", note)
	}
}
