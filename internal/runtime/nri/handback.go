package nri

import (
	"context"
	"errors"
	"fmt"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/node"
)

// handingBack is the way back: every container runs on all CPUs and all NUMA nodes again, as if there
// were no Paddock.
type handingBack struct {
	// state has no grants: its shared pool are all CPUs. before is the one that is handed back.
	state, before *node.State
	// done is closed when nothing is left to do.
	done chan struct{}
}

// HandBack takes every container off the CPUs and NUMA nodes that Paddock gave it, lets it run everywhere,
// and drops all grants. It returns when that is done, or ctx ends. From its call on nothing is managed any more. Run must
// still be running. It is for an end for good: CPUs are nobody's own afterwards.
func (p *Plugin) HandBack(ctx context.Context) error {
	now := p.config.Engine.State()
	policy := node.Policy{StaticCPU: now.Policy().StaticCPU}
	empty, err := node.New(now.Machine(), policy)
	if err != nil {
		return err
	}
	back := &handingBack{state: empty, before: now, done: make(chan struct{})}
	parents, _ := ask(ctx, p, func(l *loop) map[string][]string {
		l.back = back
		l.tick()
		parents := map[string][]string{}
		for _, g := range now.Grants() {
			parents[g.Pod.UID] = l.table.parents(g.Pod.UID)
		}
		return parents
	})
	for _, g := range now.Grants() {
		p.setQuota(ctx, g, g.KubeletPodQuota(now.Policy()), parents[g.Pod.UID])
	}
	left := func() error {
		n, _ := ask(context.WithoutCancel(ctx), p, func(l *loop) int {
			updates, _ := l.compare(empty, "")
			return len(updates)
		})
		return fmt.Errorf("%d containers still run on the CPUs that Paddock gave them: %w", n, context.Cause(ctx))
	}
	select {
	case <-back.done:
	case <-p.ended:
		return errors.Join(errGone, left())
	case <-ctx.Done():
		return left()
	}
	for _, g := range now.Grants() {
		p.config.Engine.Drop(ctx, g.Pod.UID)
	}
	return p.config.Engine.Tick(ctx)
}

// state is what everything is compared with.
func (l *loop) state() *node.State {
	if l.back != nil {
		return l.back.state
	}
	return l.config.Engine.State()
}

// compare is the table's. What is handed back gets the quota again that the kubelet wrote.
func (l *loop) compare(s *node.State, but string) ([]converge.Update, []converge.Observed) {
	if l.back != nil {
		return l.table.compare(s, but, l.back.quota)
	}
	return l.table.compare(s, but, nil)
}

// quota is what the kubelet wrote for a container.
func (b *handingBack) quota(pod, name string) node.Quota {
	if g, known := b.before.Grant(pod); known {
		if _, i := g.Pod.Container(name); i >= 0 {
			return g.KubeletQuota(b.before.Policy(), i)
		}
	}
	return node.KeepQuota
}

// managed reports whether containers get CPUs of Paddock's.
func (l *loop) managed() bool { return len(l.foreign) == 0 && !l.resuming && l.back == nil }

// handedBack ends a HandBack once nothing is left to do.
func (l *loop) handedBack(left int) {
	if l.back == nil || left > 0 || !l.synchronised {
		return
	}
	select {
	case <-l.back.done:
	default:
		close(l.back.done)
	}
}
