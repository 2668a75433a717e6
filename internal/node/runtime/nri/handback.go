package nri

import (
	"context"
	"errors"
	"fmt"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/node/control"
)

// HandBack lets every container run on all CPUs and NUMA nodes again, and drops all grants. A
// container that is being created is waited for, because updates reach it only after its start. It
// returns when that is done, or ctx ends. From its call on, Paddock manages nothing any more. Run
// must still be running. It is for the final end: afterwards no container has CPUs of its own.
func (p *Plugin) HandBack(ctx context.Context) error {
	now := p.config.Engine.State()
	policy := node.Policy{StaticCPU: now.Policy().StaticCPU}
	empty, err := node.New(now.Machine(), policy)
	if err != nil {
		return err
	}
	parents, _ := ask[map[string][]string](ctx, p, control.HandBack{Before: now, Empty: empty})
	for _, g := range now.Grants() {
		p.setQuota(ctx, g, g.KubeletPodQuota(now.Policy()), parents[g.Pod.UID])
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
