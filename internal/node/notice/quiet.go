package notice

import (
	"fmt"
	"maps"
	"sync"
	"time"
)

// Quiet decides until when a pod is left alone. The limit applies to a continuous time. This time
// begins when a move of the pod waits for the first time. A later time that the pod asks for
// meanwhile, or soon after, does not start it again. It starts again after a time that the pod
// asked for has passed, and after a day. Quiet is safe for use by several goroutines.
type Quiet struct {
	limit time.Duration
	count func(capped bool)
	mu    sync.Mutex
	asks  map[string]asking // by UID
}

// again is the time after the limit after which a pod can be left alone again. It is a day, so that
// few pods are recorded.
const again = 24 * time.Hour

// renewed is the time after the end of a requested time within which a new request continues the
// earlier one. A request becomes known only when a move is searched for, and a kubelet that waits
// for a move tries again within 5 minutes.
const renewed = 6 * time.Minute

// asking is a pod whose moves wait since a time, and the time until which it asked for that. capped
// is true once the limit has passed.
type asking struct {
	since, until time.Time
	capped       bool
}

// NewQuiet returns a Quiet with a limit. count is called when the moves of a pod begin to wait and,
// with capped, when they no longer wait because of the limit. It must not wait. If nil, nothing is
// counted.
func NewQuiet(limit time.Duration, count func(capped bool)) *Quiet {
	if count == nil {
		count = func(bool) {}
	}
	return &Quiet{limit: limit, count: count, asks: map[string]asking{}}
}

// Waiting returns the number of pods whose moves wait.
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

// MayMove returns the reason, for users, why a pod must not be moved now, or nil if it may be
// moved. until is the time that the pod asks for, or zero if it asks for none.
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
