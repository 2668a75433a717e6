package nri

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/control"
)

// Serve serves one connection.
func (p *Plugin) Serve(ctx context.Context) (bool, error) { return p.serve(ctx) }

// Loop runs the event loop.
func (p *Plugin) Loop(ctx context.Context) error { return p.newEdge().run(ctx) }

// Reconcile makes a round, and reports whether the next one comes soon.
func (p *Plugin) Reconcile(ctx context.Context) (soon bool) {
	p.Settle(ctx)
	return p.latest.Load().wake.Sub(p.config.Now()) <= 2*time.Second
}

// Phase returns the phase of a container, or "none" if it is not known.
func (p *Plugin) Phase(id string) string {
	for _, r := range p.Running() {
		if r.ID == id {
			return r.Phase.String()
		}
	}
	return "none"
}

// Block keeps the loop busy for the duration d.
func (p *Plugin) Block(ctx context.Context, d time.Duration) {
	p.send(ctx, message{of: control.Left{}, ctx: busy{ctx, p, d}})
}

// busy is a context whose Err blocks for the duration d.
type busy struct {
	context.Context
	p *Plugin
	d time.Duration
}

func (b busy) Err() error {
	<-b.p.config.After(b.d)
	return nil
}

// Estimate exports estimate.
func Estimate(sandbox *api.PodSandbox, s *node.State) (request.Pod, error) {
	return estimate(sandbox, s)
}

// TakesUpdates reports whether a runtime takes unsolicited updates.
func TakesUpdates(runtime, release, nri string) bool { return unsolicited.in(runtime, release, nri) }

// HangUp closes the connection, as if the runtime had died.
func (p *Plugin) HangUp() error {
	c, closes := p.present.Load().link.(io.Closer)
	if !closes {
		return errors.New("the connection cannot be closed")
	}
	return c.Close()
}
