package nri

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/quota"
	"github.com/paddock-project/paddock/internal/node/control"
)

// unanswered is how long HandBack waits for the runtime. While CRI-O stops a container, it neither
// updates it nor synchronises a plugin, and the container can be the agent's own. A runtime can
// also be down while its containers run.
const unanswered = 12 * time.Second

// HandBack lets every container run on all CPUs and NUMA nodes again, and drops all grants. From
// its call on, Paddock manages nothing any more. HandBack waits for containers that are being
// created, because updates reach a container only after its start. If the runtime does not take the
// updates for the time unanswered, HandBack writes the cgroups itself. It returns when all
// containers are handed back, or ctx ends. Run must still be running. HandBack is for the final
// end: afterwards no container has CPUs of its own.
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
	if err := p.awaitHandBack(ctx); err != nil {
		return err
	}
	for _, g := range now.Grants() {
		p.config.Engine.Drop(ctx, g.Pod.UID)
	}
	return p.config.Engine.Tick(ctx)
}

// awaitHandBack waits until no container has CPUs from Paddock.
func (p *Plugin) awaitHandBack(ctx context.Context) error {
	left := func(why error) error {
		l, _ := ask[control.Remaining](context.WithoutCancel(ctx), p, control.Left{})
		return fmt.Errorf("%d containers still run on the CPUs that Paddock gave them: %w", l.Containers, errors.Join(context.Cause(ctx), why))
	}
	for {
		select {
		case <-p.handedBack.done:
			return nil
		case <-p.ended:
			return errors.Join(control.ErrGone, left(nil))
		case <-ctx.Done():
			return left(nil)
		case <-p.config.After(unanswered):
			l, gone := ask[control.Remaining](ctx, p, control.Left{})
			if err := errors.Join(gone, p.write(ctx, l.Updates)); err != nil {
				return left(err)
			}
			if l.Unreachable == 0 {
				return nil
			}
		}
	}
}

// write makes updates without the runtime. Containers that have ended are left out.
func (p *Plugin) write(ctx context.Context, updates []control.CgroupUpdate) error {
	var errs []error
	for _, u := range updates {
		if err := p.setCgroup(u.Path, u.After); err != nil {
			errs = append(errs, fmt.Errorf("container %s of pod %s: %w", u.Container, u.Pod, err))
		}
	}
	if len(updates) > 0 {
		p.config.Log.WarnContext(ctx, "the runtime does not take the updates: the cgroups are written without it, and a resize in place would restore what these containers had, "+
			"until they are created again", "containers", len(updates))
	}
	return errors.Join(errs...)
}

// setCgroup writes the cgroup of a container, unless the container has ended.
func (p *Plugin) setCgroup(path string, s converge.Setting) error {
	if err := p.config.Cgroups.Set(path, s); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
