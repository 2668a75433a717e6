// Package reconcile keeps objects of the API server as one node wants them.
//
// A Loop calls Keep of an Object, which compares it with what it must be, and writes it if it
// differs. The Loop decides when: soon after Changed, at most once in Spacing, and every Poll
// without a change. While the API server does not answer, it tries again after a time that doubles
// up to a minute; a change does not make that shorter. It observes and logs the outcome.
//
// The Object keeps what was read and written, so a call without a change sends no request. The Loop
// makes it forget that after an error, and when another writer was faster. It must forget it by
// itself after Recheck.
//
// Nothing waits for this package: Run is one goroutine, and each request has a limit of time.
package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// The times of a Loop.
const (
	// Spacing is the least time between two tries.
	Spacing = time.Second
	// Poll is the time between two tries without a change. Not everything that can change calls
	// Changed.
	Poll = 2 * time.Second
	// Recheck is how long an object may be trusted to be what it was: it may be gone, changed by
	// others, or that of a Node that was created again.
	Recheck = 10 * time.Minute
	// longest is the longest time between two tries while the API server does not answer, without
	// the jitter.
	longest = time.Minute
	// jitter is how much longer a wait may be, as a part of it: thousands of agents do not come
	// back at one moment.
	jitter = 0.5
)

// Object is what a Loop keeps. Its methods are called by Run's goroutine.
type Object interface {
	// Keep writes the object if it differs from what it must be, and reports whether it did. The
	// error of a write is marked with Lost.
	Keep(ctx context.Context) (wrote bool, err error)
	// Forget makes the next Keep read the object.
	Forget()
	// Line is what the log has about an error, and about its end (nil). The same line is logged
	// once.
	Line(err error) string
}

// Config is the environment of a Loop.
type Config struct {
	// Observe gets every write, and every try that failed. It must not wait.
	Observe func(took time.Duration, err error)
	// Pause is the time until the next try after an error; 0: the one that doubles. A nil Pause is
	// always 0.
	Pause func(error) time.Duration
	// Now and After are those of package time.
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
	Log   *slog.Logger
}

// Loop is a reconciler. Changed may be called by several goroutines.
type Loop struct {
	object Object
	config Config
	wake   chan struct{}

	// The fields below are those of Run's goroutine. line is the one that was logged last.
	failures int
	line     string
}

// New makes a Loop. It calls nothing but Line.
func New(o Object, c Config) *Loop {
	if c.Pause == nil {
		c.Pause = func(error) time.Duration { return 0 }
	}
	return &Loop{object: o, config: c, wake: make(chan struct{}, 1), line: o.Line(nil)}
}

// Changed makes Run try soon. It does not wait.
func (l *Loop) Changed() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Run tries until ctx ends. It returns the cause of that.
func (l *Loop) Run(ctx context.Context) error {
	for {
		next, wake := l.Round(ctx), l.wake
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.config.After(Spacing): // A burst of changes is one write.
		}
		if l.failures > 0 {
			wake = nil // A change does not make the API server answer.
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-wake:
		case <-l.config.After(max(0, next-Spacing)):
		}
	}
}

// Round is one try of Run. It returns when to try again if there is no change.
func (l *Loop) Round(ctx context.Context) time.Duration {
	begin := l.config.Now()
	wrote, err := l.object.Keep(ctx)
	if ctx.Err() != nil {
		return 0
	}
	if errors.Is(err, errLost) { // The next round looks at the object as it is now.
		l.object.Forget()
		l.Changed()
		err = nil
	}
	if wrote || err != nil {
		l.config.Observe(l.config.Now().Sub(begin), err)
	}
	if line := l.object.Line(err); line != l.line {
		l.line = line
		if err != nil {
			l.config.Log.WarnContext(ctx, line, "error", err)
		} else {
			l.config.Log.InfoContext(ctx, line)
		}
	}
	if err == nil {
		l.failures = 0
		return Poll
	}
	l.failures++
	l.object.Forget()
	pause := l.config.Pause(err)
	if pause == 0 {
		pause = min(longest, Spacing<<min(l.failures, 6))
	}
	return wait.Jitter(pause, jitter)
}
