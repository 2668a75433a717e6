package nri

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Serve has one connection.
func (p *Plugin) Serve(ctx context.Context) (bool, error) { return p.serve(ctx) }

// Loop is the event loop.
func (p *Plugin) Loop(ctx context.Context) error { return newLoop(p).run(ctx) }

// Reconcile makes a round, and reports whether the next one comes soon.
func (p *Plugin) Reconcile(ctx context.Context) (soon bool) {
	p.Settle(ctx)
	soon, _ = ask(ctx, p, "test", func(l *loop) bool { return l.due.Sub(l.config.Now()) <= soonest })
	return soon
}

// Phase is what is known of a container, in a word.
func (p *Plugin) Phase(ctx context.Context, id string) string {
	word, _ := ask(ctx, p, "test", func(l *loop) string {
		if c := l.table.containers[id]; c != nil {
			return c.phase.String()
		}
		return "none"
	})
	return word
}

// Gone is how many ended containers the loop remembers.
func (p *Plugin) Gone(ctx context.Context) int {
	n, _ := ask(ctx, p, "test", func(l *loop) int { return len(l.gone) })
	return n
}

// Block keeps the loop busy for a time.
func (p *Plugin) Block(ctx context.Context, d time.Duration) {
	p.tell(ctx, "test", func(l *loop) { <-l.config.After(d) })
}

// Estimate is estimate.
func Estimate(sandbox *api.PodSandbox, s *node.State) (request.Pod, error) {
	return estimate(sandbox, s)
}

// TakesUpdates is takesUpdates.
func TakesUpdates(runtime, release, nri string) bool { return takesUpdates(runtime, release, nri) }

// HangUp closes the connection, as it is when a runtime dies.
func (p *Plugin) HangUp(ctx context.Context) error {
	link, err := ask(ctx, p, "test", func(l *loop) Link { return l.session.link })
	if err != nil {
		return err
	}
	c, closes := link.(io.Closer)
	if !closes {
		return errors.New("the connection cannot be closed")
	}
	return c.Close()
}
