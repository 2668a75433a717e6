package nri

import (
	"context"
	"errors"
	"fmt"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/quota"
	"github.com/paddock-project/paddock/internal/node/control"
)

// HandBack lets every container run on all CPUs and NUMA nodes again, and drops all grants. From
// its call on, Paddock manages nothing any more. HandBack waits for containers that are being
// created, because updates reach a container only after its start. It returns when all containers
// are handed back, or ctx ends. Run must still be running. HandBack is for the final end:
// afterwards no container has CPUs of its own.
func (p *Plugin) HandBack(ctx context.Context) error {
	now := p.config.Engine.State()
	policy := node.Policy{StaticCPU: now.Policy().StaticCPU}
	empty, err := node.New(now.Machine(), policy)
	if err != nil {
		return err
	}
	parents, _ := ask[map[string][]string](ctx, p, control.HandBack{Before: now, Empty: empty})
	for _, g := range now.Grants() {
		p.setQuota(ctx, g, quota.KubeletPod(g, now.Policy()), parents[g.Pod.UID])
	}
	left := func() error {
		n, _ := ask[int](context.WithoutCancel(ctx), p, control.Left{})
		return fmt.Errorf("%d containers still run on the CPUs that Paddock gave them: %w", n, context.Cause(ctx))
	}
	select {
	case <-p.handedBack.done:
	case <-p.ended:
		return errors.Join(control.ErrGone, left())
	case <-ctx.Done():
		return left()
	}
	for _, g := range now.Grants() {
		p.config.Engine.Drop(ctx, g.Pod.UID)
	}
	return p.config.Engine.Tick(ctx)
}
