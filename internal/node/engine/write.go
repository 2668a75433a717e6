package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/node/store"
)

// taken is what was decided since the previous write and is part of the next write.
type taken struct {
	state   *node.State
	version uint64
	reduced map[string]bool
	created []containerName
}

// await requests a write of the decided state. It returns the channel for the outcome. Lock held.
func (e *Engine) await(ctx context.Context) chan error {
	done := make(chan error, 1)
	e.waiters = append(e.waiters, waiter{e.version, done})
	e.wanted = e.version
	if !e.writing {
		e.writing = true
		go e.write(context.WithoutCancel(ctx))
	}
	return done
}

// write is the writer goroutine. It writes the newest state until the wanted version is written or
// a write fails. It outlives its callers, because a disk that stalls cannot be interrupted.
func (e *Engine) write(ctx context.Context) {
	for more := true; more; {
		e.mu.Lock()
		e.since = e.config.Now()
		t := taken{e.next, e.version, e.reduced, e.created}
		e.reduced, e.created, e.rebase = map[string]bool{}, nil, nil
		e.mu.Unlock()
		w := e.store(t.state)
		e.mu.Lock()
		if w.Err == nil {
			e.wrote(ctx, w, t)
		} else {
			e.lost(ctx, w, t)
		}
		more = w.Err == nil && e.wanted > t.version
		e.writing, e.since = more, time.Time{}
		e.mu.Unlock()
	}
}

// store writes a state. It may take any time.
func (e *Engine) store(s *node.State) Write {
	w := Write{State: s, Generation: s.Generation()}
	begin := e.config.Now()
	data, err := e.config.Encode(s)
	if err == nil {
		err = e.config.Store.Write(data)
	}
	w.At, w.Bytes = e.config.Now(), len(data)
	w.Took = w.At.Sub(begin)
	if err != nil {
		w.Err = fmt.Errorf("%w: %w", ErrNotWritten, err)
	}
	return w
}

// wrote publishes a state that has become durable. Lock held.
func (e *Engine) wrote(ctx context.Context, w Write, t taken) {
	before := e.State()
	e.failed, e.durable = false, w.State
	clear(e.doubtful)
	e.config.Observer.Wrote(w)
	published := w.State
	if e.rebase != nil {
		// The machine changed during the write. f was already applied to these grants as a part of
		// another state, so an error here is not reported.
		if rebased, err := e.rebase(published); err == nil {
			published = rebased
		}
	}
	for _, c := range e.created {
		published = published.ContainerCreated(c.uid, c.name)
	}
	if t.version+uint64(len(e.created)) == e.version {
		published = e.next // They are the same, and nothing is pending.
	}
	if t.version == e.version {
		e.durable = e.next // It is the same except for the reservations since then.
	}
	e.publish(published)
	_, released := beyond(before, w.State)
	for _, uid := range released {
		g, _ := before.Grant(uid)
		e.config.Observer.Released(uid)
		e.config.Log.InfoContext(ctx, "pod released", "pod", g.Pod.ID(), "uid", uid)
	}
	e.wake(t.version, nil)
}

// lost takes back what was decided and not published. Releases stay decided. Lock held.
func (e *Engine) lost(ctx context.Context, w Write, t taken) {
	e.failed = true
	if errors.Is(w.Err, store.ErrUncertain) {
		e.durable = nil
		maps.Copy(e.doubtful, t.reduced)
	}
	now := e.Snapshot()
	next := now.State
	for _, uid := range now.Unreleased {
		next = next.Release(uid)
		e.reduced[uid] = true
	}
	e.created = append(t.created, e.created...) // The next write may fail, too.
	for _, c := range e.created {
		next = next.ContainerCreated(c.uid, c.name)
	}
	clear(e.late)
	e.change(next)
	e.config.Observer.Wrote(w)
	e.config.Log.ErrorContext(ctx, "the state cannot be written", "revision", w.Generation, "error", w.Err)
	e.wake(e.version, w.Err)
}

// wake ends the waits for all versions up to the given one. Lock held.
func (e *Engine) wake(version uint64, err error) {
	rest := e.waiters[:0]
	for _, w := range e.waiters {
		if w.version <= version {
			w.done <- err
		} else {
			rest = append(rest, w)
		}
	}
	e.waiters = rest
}
