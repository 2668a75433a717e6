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

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/store"
)

// ErrNotWritten is wrapped by the error of a change that could not be made durable. Nothing has
// changed.
var ErrNotWritten = errors.New("the state could not be written")

// Store keeps one state. Write is atomic and durable: after an error the old state is there, or, if
// the error wraps store.ErrUncertain, perhaps the new one until a write succeeds.
type Store interface {
	Write(data []byte) error
}

// Observer is told of everything that happens, in order, under the engine's lock: it must not
// call the engine and must not wait.
type Observer interface {
	Decided(Decision)
	Wrote(Write)
	Released(uid string)
}

// Decision is the answer to one admission.
type Decision struct {
	Plan *node.Plan
	// Base is the state that was asked: asked again it gives the same plan.
	Base *node.State
	// Took is the time for deciding, without the write.
	Took time.Duration
	// Err is set where the plan was good and could not be written.
	Err error
}

// Write is one write of the state.
type Write struct {
	// State is what was written, or could not be.
	State      *node.State
	Generation uint64
	Bytes      int
	Took       time.Duration
	At         time.Time
	Err        error
}

// Config is the engine's world.
type Config struct {
	Store Store
	// Encode makes the bytes that Store keeps.
	Encode   func(*node.State) ([]byte, error)
	Now      func() time.Time
	Observer Observer
	Log      *slog.Logger
}

// Snapshot is what readers see.
type Snapshot struct {
	State *node.State
	// Unreleased are the UIDs of pods that are gone and still hold what they held, because the
	// release could not be written yet.
	Unreleased []string
}

// Engine is safe for use by several goroutines. Its methods take a context for what they log;
// they do not end with it, as half a change is no change.
type Engine struct {
	config    Config
	published atomic.Pointer[Snapshot]

	mu sync.Mutex // serialises changes; readers do not take it
	// durable is the state that was written last by this engine; nil while that is uncertain.
	durable *node.State
	// failed tells that the last write did not succeed.
	failed bool
	// doubtful are the UIDs of pods from which a write took something that may or may not be gone
	// from the disk: what they hold is not durable until a write succeeds.
	doubtful map[string]bool
}

// New starts on a state that is durable, or safe to start from if it never becomes so: Flush
// writes it.
func New(initial *node.State, c Config) *Engine {
	e := &Engine{config: c}
	e.published.Store(&Snapshot{State: initial})
	return e
}

// Snapshot is the state as it is now. It never waits.
func (e *Engine) Snapshot() *Snapshot { return e.published.Load() }

// State is Snapshot().State.
func (e *Engine) State() *node.State { return e.Snapshot().State }

// Admit decides about a pod. It is admitted when the plan has a grant and the error is nil: the
// grant is durable then. A refusal is no error; nothing has changed. The error wraps ErrNotWritten.
func (e *Engine) Admit(ctx context.Context, pod request.Pod) (*node.Plan, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.Snapshot()
	gone := slices.DeleteFunc(slices.Clone(now.Unreleased), func(uid string) bool { return uid == pod.UID })
	if len(gone) < len(now.Unreleased) { // It came back before its release was written.
		e.published.Store(&Snapshot{State: now.State, Unreleased: gone})
	}
	base := without(now.State, gone)
	begin := e.config.Now()
	plan := base.Plan(pod)
	next, err := base.Apply(plan)
	decision := Decision{Plan: plan, Base: base, Took: e.config.Now().Sub(begin), Err: err}
	if err == nil && (next != base || e.doubtful[pod.UID]) {
		decision.Err = e.persist(ctx, next, gone)
	}
	e.config.Observer.Decided(decision)
	e.log(ctx, decision)
	return plan, decision.Err
}

func without(s *node.State, gone []string) *node.State {
	for _, uid := range gone {
		s = s.Release(uid)
	}
	return s
}

// persist writes and publishes a state from which the gone pods are released, and from which
// something was taken of the reduced ones.
func (e *Engine) persist(ctx context.Context, next *node.State, gone []string, reduced ...string) error {
	if err := e.write(ctx, next); err != nil {
		if errors.Is(err, store.ErrUncertain) {
			e.durable = nil
			e.doubt(gone)
			e.doubt(reduced)
		}
		return err
	}
	e.published.Store(&Snapshot{State: next})
	for _, uid := range gone {
		e.config.Observer.Released(uid)
	}
	return nil
}

func (e *Engine) doubt(uids []string) {
	if e.doubtful == nil {
		e.doubtful = map[string]bool{}
	}
	for _, uid := range uids {
		e.doubtful[uid] = true
	}
}

// Release takes back what a pod holds, because it is gone. On an error, which wraps
// ErrNotWritten, the pod holds it still; Tick and every later change try again.
func (e *Engine) Release(ctx context.Context, uid string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.Snapshot()
	if _, holds := now.State.Grant(uid); !holds {
		return nil
	}
	gone := now.Unreleased
	if !slices.Contains(gone, uid) {
		gone = append(slices.Clone(gone), uid)
	}
	return e.release(ctx, now.State, gone)
}

// Tick retries what could not be written, so that it is known when the state can be written again
// even if nothing changes any more. It is for a timer.
func (e *Engine) Tick(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now := e.Snapshot(); len(now.Unreleased) > 0 || e.failed {
		return e.release(ctx, now.State, now.Unreleased)
	}
	return nil
}

func (e *Engine) release(ctx context.Context, s *node.State, gone []string) error {
	err := e.persist(ctx, without(s, gone), gone)
	if err != nil {
		e.published.Store(&Snapshot{State: s, Unreleased: gone})
	}
	return err
}

// RemoveContainer takes back what one container of a pod holds, for good. The error wraps
// ErrNotWritten; nothing has changed then.
func (e *Engine) RemoveContainer(ctx context.Context, uid, name string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.Snapshot()
	base := without(now.State, now.Unreleased)
	next := base.RemoveContainer(uid, name)
	if next == base {
		return nil
	}
	return e.persist(ctx, next, now.Unreleased, uid)
}

// ContainerCreated tells that a container was made: memory of init containers before it is free
// (R-MEM-63). It is written with the next change.
func (e *Engine) ContainerCreated(uid, name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.Snapshot()
	if next := now.State.ContainerCreated(uid, name); next != now.State {
		e.published.Store(&Snapshot{State: next, Unreleased: now.Unreleased})
	}
}

// Flush writes the state unless the one that readers see is what was written last. The error wraps
// ErrNotWritten.
func (e *Engine) Flush(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.Snapshot()
	if now.State == e.durable && len(now.Unreleased) == 0 {
		return nil
	}
	return e.release(ctx, now.State, now.Unreleased)
}

// Converge says which of the running containers need which updates now.
func (e *Engine) Converge(observed []converge.Observed) converge.Report {
	return converge.Compare(e.State(), observed)
}

// write makes a state durable.
func (e *Engine) write(ctx context.Context, s *node.State) error {
	begin := e.config.Now()
	data, err := e.config.Encode(s)
	if err == nil {
		err = e.config.Store.Write(data)
	}
	end := e.config.Now()
	e.failed = err != nil
	if err == nil {
		e.durable, e.doubtful = s, nil
	} else {
		err = fmt.Errorf("%w: %w", ErrNotWritten, err)
	}
	e.config.Observer.Wrote(Write{State: s, Generation: s.Generation(), Bytes: len(data), Took: end.Sub(begin), At: end, Err: err})
	if err != nil {
		e.config.Log.ErrorContext(ctx, "state not written", "generation", s.Generation(), "error", err)
	}
	return err
}

// log says in one line what became of a pod.
func (e *Engine) log(ctx context.Context, d Decision) {
	p := d.Plan
	log := e.config.Log.With("pod", p.Pod.ID(), "uid", p.Pod.UID)
	switch {
	case d.Err != nil:
		log.ErrorContext(ctx, "pod not admitted", "error", d.Err)
	case p.Refusal != nil:
		log.WarnContext(ctx, "pod refused", "reason", p.Refusal.Reason, "rule", p.Refusal.Rule, "why", p.Refusal.Detail)
	case p.Known:
		log.DebugContext(ctx, "pod keeps its grant")
	default:
		log.InfoContext(ctx, "pod admitted", "qos", p.Pod.QoS.String(), "pool", p.Grant.Pool.String(), "shared", p.Delta.SharedAfter.String())
		e.logShared(ctx, log, p)
	}
	for _, note := range p.Trace.Notes {
		log.WarnContext(ctx, "note on the decision", "note", note)
	}
}

// logShared says of a Guaranteed pod which containers got nothing of their own, and why.
func (e *Engine) logShared(ctx context.Context, log *slog.Logger, p *node.Plan) {
	if p.Pod.QoS != request.Guaranteed {
		return
	}
	for i, c := range p.Pod.Containers {
		if p.Grant.Isolation(i) != node.ContainerIsolation && c.Sharing != request.NotShared {
			log.InfoContext(ctx, "container shares", "container", c.Name, "isolation", p.Grant.Isolation(i).String(), "why", c.Sharing.String())
		}
	}
}
