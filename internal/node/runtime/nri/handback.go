package nri

import (
	"context"
	"errors"
	"fmt"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/node"
)

// handingBack makes every container run on all CPUs and all NUMA nodes again, as without Paddock.
type handingBack struct {
	// state has no grants: its node shared pool is all CPUs.
	state *node.State
	// before is of the state until then. It belongs to the event loop.
	before *converge.Wanted
	// done is closed when no update is left.
	done chan struct{}
}

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
	back := &handingBack{state: empty, before: converge.Want(now), done: make(chan struct{})}
	parents, _ := ask(ctx, p, "hand back", func(l *loop) map[string][]string {
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
		n, _ := ask(context.WithoutCancel(ctx), p, "left", func(l *loop) int {
			updates, _ := l.compare("")
			return len(updates) + l.table.beingCreated()
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

// state is the state that containers are compared with.
func (l *loop) state() *node.State {
	if l.back != nil {
		return l.back.state
	}
	return l.during(l.config.Engine.State())
}

// want is what the containers should have in that state.
func (l *loop) want() *converge.Wanted {
	if s := l.state(); l.wanted == nil || l.wanted.State() != s {
		l.wanted = converge.Want(s)
	}
	return l.wanted
}

// compare is the table's. A container that is handed back gets the quota again that the kubelet
// wrote.
func (l *loop) compare(but string) ([]converge.Update, []converge.Observed) {
	if l.back != nil {
		return l.table.compare(l.want(), but, l.back.before.KubeletQuota)
	}
	return l.table.compare(l.want(), but, nil)
}

// managed reports whether Paddock manages this node.
func (l *loop) managed() bool { return len(l.foreign) == 0 && !l.resuming && l.back == nil }
