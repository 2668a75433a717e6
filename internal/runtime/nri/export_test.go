package nri

import (
	"context"
	"errors"
	"io"

	"github.com/containerd/nri/pkg/api"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Serve has one connection.
func (p *Plugin) Serve(ctx context.Context) (bool, error) { return p.serve(ctx) }

// Loop is the reconcile loop.
func (p *Plugin) Loop(ctx context.Context) error { return p.reconcile(ctx) }

// Refusal and StandsUpdates are what their names say.
func Refusal(pod request.Pod, r *node.Refusal) error { return refusal(pod, r) }

// Estimate is estimate.
func Estimate(sandbox *api.PodSandbox, s *node.State) (request.Pod, error) {
	return estimate(sandbox, s)
}

// StandsUpdates is standsUpdates.
func StandsUpdates(runtime, release, nri string) bool { return standsUpdates(runtime, release, nri) }

// HangUp closes the connection, as it is when a runtime dies.
func (p *Plugin) HangUp() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, closes := p.link.Link.(io.Closer)
	if !closes {
		return errors.New("the connection cannot be closed")
	}
	return c.Close()
}
