// Package reconcile keeps objects in the API server as one node wants them.
//
// A Loop calls Keep of an Object. Keep compares the object with what it must be, and writes it if
// it differs. The Loop decides when: soon after Changed, at most once per Spacing, and every Poll
// without a change. While the API server does not answer, the time until the next try doubles, up
// to a minute. A change does not shorten it. The Loop reports writes and errors to Config.Observe,
// and logs them.
//
// An API server that has just started forbids requests until it has read its roles. So the first
// tries that are forbidden are logged as that, and the first one after authorizer.Grace as a
// missing permission. Two tries are at most 90 s apart.
//
// The Object remembers what was read and written, so a call without a change sends no request. The
// Loop makes the Object forget that after an error, and when another writer was faster. The Object
// itself must forget it after Recheck.
//
// Nothing waits for this package: Run is one goroutine, and each request has a time limit.
package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/paddock-project/paddock/internal/base/authorizer"
)

// The times of a Loop.
const (
	// Spacing is the minimum time between two writes, and between two tries of which the first
	// failed.
	Spacing = time.Second
	// Quiet is the time after a try that found nothing to write. A change is then written at once,
	// but a burst of changes that need no write costs ten tries a second at most.
	Quiet = 100 * time.Millisecond
	// Poll is the time between two tries without a change. It is needed because not everything that
	// can change calls Changed.
	Poll = 2 * time.Second
	// Recheck is how long an Object may trust what it remembers. After that the object may be gone,
	// changed by others, or belong to a Node that was created again.
	Recheck = 10 * time.Minute
	// longest is the longest time between two tries while the API server does not answer, without
	// the jitter.
	longest = time.Minute
	// jitter is the largest random extension of a wait, as a fraction of the wait. It prevents
	// thousands of agents from coming back at the same moment.
	jitter = 0.5
)

// Object is an object that a Loop keeps up to date. Its methods are called by Run's goroutine.
type Object interface {
	// Keep writes the object if it differs from what it must be, and reports whether it did. It
	// marks the error of a write with Lost.
	Keep(ctx context.Context) (wrote bool, err error)
	// Forget makes the next Keep read the object.
	Forget()
	// Line returns the log line for an error, or for its end (nil). The Loop does not repeat the
	// same line.
	Line(err error) string
}

// Config is the environment of a Loop.
type Config struct {
	// Observe is called for every write and for every failed try. It must not wait.
	Observe func(took time.Duration, err error)
	// Pause returns the time until the next try after an error. If it returns zero, or if Pause is
	// nil, the time doubles.
	Pause func(error) time.Duration
	// Now and After are time.Now and time.After, or those of a test.
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
	Log   *slog.Logger
}

// Loop is a reconciler. Changed is safe for concurrent use.
type Loop struct {
	object Object
	config Config
	wake   chan struct{}

	// The fields below belong to Run's goroutine. line is the line that was logged last, and space
	// the time until the next try may begin.
	failures int
	line     string
	space    time.Duration
	allowed  authorizer.Watch
}

// starting is the line while the API server forbids requests and may be starting.
const starting = "the API server is starting: what this node publishes is written when it has read its roles"

// New returns a Loop. It calls no method of the Object except Line.
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

// Run tries until ctx ends. It returns the cause.
func (l *Loop) Run(ctx context.Context) error {
	for {
		next, wake := l.Round(ctx), l.wake
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.config.After(l.space): // A burst of changes is one write.
		}
		if l.failures > 0 {
			wake = nil // A change does not make the API server answer.
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-wake:
		case <-l.config.After(max(0, next-l.space)):
		}
	}
}

// Round makes one try of Run. It returns the time until the next try if there is no change.
func (l *Loop) Round(ctx context.Context) time.Duration {
	begin := l.config.Now()
	wrote, err := l.object.Keep(ctx)
	if ctx.Err() != nil {
		return 0
	}
	if l.space = Quiet; wrote || err != nil {
		l.space = Spacing
	}
	if errors.Is(err, errLost) { // The next round looks at the object as it is now.
		l.object.Forget()
		l.Changed()
		err = nil
	}
	now := l.config.Now()
	err = l.allowed.Judge(err, now)
	if wrote || err != nil {
		l.config.Observe(now.Sub(begin), err)
	}
	l.report(ctx, err, now)
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

// report logs the result of a try, if it is another one than that which was logged last.
func (l *Loop) report(ctx context.Context, err error, now time.Time) {
	line, level := l.object.Line(err), slog.LevelWarn
	switch {
	case authorizer.IsStarting(err):
		if l.line == starting || !l.allowed.Announce(now) {
			return
		}
		line, level = starting, slog.LevelInfo
	case err == nil:
		level = slog.LevelInfo
	}
	if line == l.line {
		return
	}
	l.line = line
	if err != nil {
		l.config.Log.Log(ctx, level, line, "error", err)
	} else {
		l.config.Log.Log(ctx, level, line)
	}
}
