package notice

import (
	"fmt"
	"maps"
	"sync"
	"time"
)

// Quiet decides until when a pod is left alone. The limit is for how long in a row: it begins when
// a move of the pod waits for the first time, and a later time that the pod asks for meanwhile, or
// soon after, does not begin it again. It begins again after a time that the pod asked for has
// passed, and after a day. Quiet is safe for use by several goroutines.
type Quiet struct {
	limit time.Duration
	count func(capped bool)
	mu    sync.Mutex
	asks  map[string]asking // by UID
}

// again is how long after the limit a pod can be left alone again: a day, so that the pods that are
// kept in mind are few.
const again = 24 * time.Hour

// renewed is how soon the next time that a pod asks for counts as asked for before. What it asks
// for is known only when a move is looked for, and a kubelet that waits for a move tries again
// within 5 minutes.
const renewed = 6 * time.Minute

// asking is a pod whose moves wait since a time, and until when it asked for that. capped: the
// limit has passed before.
type asking struct {
	since, until time.Time
	capped       bool
}

// NewQuiet returns a Quiet with that limit. count is called when the moves of a pod begin to wait
// and, with capped, when they wait no longer because of the limit. It must not wait; nil: nothing
// is counted.
func NewQuiet(limit time.Duration, count func(capped bool)) *Quiet {
	if count == nil {
		count = func(bool) {}
	}
	return &Quiet{limit: limit, count: count, asks: map[string]asking{}}
}

// Waiting is for how many pods moves wait.
func (q *Quiet) Waiting(now time.Time) (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, h := range q.asks {
		if h.until.After(now) && h.since.Add(q.limit).After(now) {
			n++
		}
	}
	return n
}

// MayMove returns why a pod is not moved now, for people; nil: it may be. until is what the pod
// asks for, zero for nothing.
func (q *Quiet) MayMove(uid string, until, now time.Time) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	maps.DeleteFunc(q.asks, func(_ string, h asking) bool { return now.Sub(h.until) >= renewed || now.Sub(h.since) >= q.limit+again })
	if !until.After(now) {
		delete(q.asks, uid)
		return nil
	}
	h, there := q.asks[uid]
	if !there {
		h.since = now
		q.count(false)
	}
	h.until = until
	if end := h.since.Add(q.limit); until.After(end) {
		until = end
	}
	passed := !until.After(now)
	if passed && !h.capped {
		h.capped = true
		q.count(true)
	}
	q.asks[uid] = h
	if passed {
		return nil
	}
	return fmt.Errorf("it asks not to be moved until %s", until.UTC().Format(time.RFC3339))
}
