package nri_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/quota"
)

// link is a connection. Updates are applied at once unless the test delays them.
type link struct {
	*bench
	ctx    context.Context
	cancel context.CancelFunc
	up     chan struct{}
	ended  chan struct{}
	hold   chan struct{} // nil: updates are applied at once
	sent   int
	// timeout is the timeout of the runtime. Zero means 2 s.
	timeout time.Duration
}

func (l *link) Run(ctx context.Context) error {
	close(l.up)
	select {
	case <-ctx.Done():
	case <-l.ctx.Done():
	}
	return errors.New("connection closed")
}

func (l *link) UpdateContainers(updates []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
	l.mu.Lock()
	l.sent++
	hold := l.hold
	l.mu.Unlock()
	if hold != nil {
		<-hold
	}
	l.mu.Lock()
	fails := l.busy
	l.mu.Unlock()
	if !l.counts(l.alive.Load()) {
		return nil, errors.New("the agent has died")
	}
	if fails != nil {
		return nil, fails
	}
	l.close()
	l.apply(updates)
	return nil, nil
}

// setUpdates makes unsolicited updates fail with an error. If nil, they succeed.
func (b *bench) setUpdates(busy error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy = busy
}

// holds makes updates wait for a channel. If nil, they do not wait.
func (l *link) holds(hold chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hold = hold
}

func (l *link) RuntimeNRIVersion() string     { return cmp.Or(l.nri, "v0.12.3") }
func (l *link) RequestTimeout() time.Duration { return cmp.Or(l.timeout, 2*time.Second) }

// connect makes the plugin serve a connection, and the runtime synchronise it.
func (b *bench) connect() {
	b.link = &link{bench: b, timeout: b.hurry, up: make(chan struct{}), ended: make(chan struct{})}
	b.linked.Store(true)
	b.link.ctx, b.link.cancel = context.WithCancel(b.ctx)
	go func(l *link) {
		defer close(l.ended)
		_, _ = b.plugin.Serve(l.ctx)
	}(b.link)
	<-b.link.up
	release := cmp.Or(b.release, "2.4.2+unknown")
	if b.old {
		release = "2.1.4"
	}
	var err error
	b.events, err = b.plugin.Configure(b.ctx, "", cmp.Or(b.runtime, "containerd"), release)
	b.broke(err)
	var boxes []*api.PodSandbox
	var containers []*api.Container
	for _, id := range slices.Sorted(maps.Keys(b.boxes)) {
		boxes = append(boxes, b.boxes[id])
	}
	b.mu.Lock() // An update of the previous connection may be applied now.
	for _, id := range slices.Sorted(maps.Keys(b.runs)) {
		r := b.runs[id]
		r.c.Linux.Resources = resources(r.setting)
		containers = append(containers, r.c)
	}
	b.mu.Unlock()
	updates, err := b.plugin.Synchronize(b.ctx, boxes, containers)
	b.broke(err)
	if b.lost {
		return
	}
	b.apply(updates)
	if b.plugin.Ready() == nil {
		b.apart()
	}
}

// disconnect ends the connection.
func (b *bench) disconnect() {
	if b.link != nil {
		b.linked.Store(false)
		b.link.cancel()
		<-b.link.ended
		b.link = nil
	}
}

func (b *bench) broke(err error) {
	if b.wrong == nil {
		b.wrong = err
	}
}

// resources returns a setting as a runtime shows it.
func resources(s converge.Setting) *api.LinuxResources {
	cpu := &api.LinuxCPU{Cpus: s.CPUs.String(), Mems: cpuset.Of(s.Mems.Nodes()...).String(), Quota: api.Int64(int64(200000))}
	if s.Quota == quota.None {
		cpu.Quota = api.Int64(int64(-1))
	}
	return &api.LinuxResources{Cpu: cpu}
}

// set changes a setting as the runtime does: an empty value means no change.
func (b *bench) set(s converge.Setting, r *api.LinuxResources) converge.Setting {
	cpus, err := cpuset.Parse(r.GetCpu().GetCpus())
	mems, err2 := cpuset.Parse(r.GetCpu().GetMems())
	if err = errors.Join(err, err2); err != nil {
		b.broke(err)
	}
	if cpus.IsEmpty() && mems.IsEmpty() || cpus.IsEmpty() && b.policy.StaticCPU {
		b.broke(fmt.Errorf("an empty cpuset was sent: %v", r))
	}
	if !cpus.IsEmpty() {
		s.CPUs = cpus
	}
	if !mems.IsEmpty() {
		s.Mems = mask.Of(mems.IDs()...)
	}
	if q := r.GetCpu().GetQuota(); q != nil {
		s.Quota = quota.Quota(q.GetValue())
	}
	return s
}

// carryOut applies the updates in a reply, after the between function of the bench. The runtime has
// its lock meanwhile, so an unsolicited update comes after them.
func (b *bench) carryOut(updates []*api.ContainerUpdate) {
	b.mu.Lock()
	b.open = updates
	b.mu.Unlock()
	if b.between != nil {
		b.between()
	}
	b.close()
}

func (b *bench) close() {
	b.mu.Lock()
	updates := b.open
	b.open = nil
	b.mu.Unlock()
	b.reply(updates)
}

// reply applies the updates in the reply to a hook other than Synchronize. A runtime merges them
// into one update per container, and fails the request if a plugin sets the CPUs of a container
// twice.
func (b *bench) reply(updates []*api.ContainerUpdate) {
	set := map[string]bool{}
	for _, u := range updates {
		if set[u.GetContainerId()] {
			b.broke(fmt.Errorf("a reply sets the CPUs of container %s twice: %v", u.GetContainerId(), updates))
		}
		set[u.GetContainerId()] = true
	}
	b.apply(updates)
}

// apply applies updates in their order, and checks after each that no new overlap exists.
func (b *bench) apply(updates []*api.ContainerUpdate) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, u := range updates {
		if u.GetIgnoreFailure() && b.lose != nil && b.lose(u) {
			continue
		}
		if r := b.runs[u.GetContainerId()]; r != nil {
			before := b.overlaps()
			r.setting = b.set(r.setting, u.GetLinux().GetResources())
			b.noMoreThan(before)
		}
	}
}

// overlaps returns the pairs of containers in which the second runs on CPUs that belong to the
// first alone, or to the pool of the first one's pod if the second is of another pod.
func (b *bench) overlaps() map[[2]string]bool {
	found := map[[2]string]bool{}
	if !b.linked.Load() {
		return found
	}
	s := b.engine.State()
	for id, r := range b.runs {
		g, known := s.Grant(b.boxes[r.c.GetPodSandboxId()].GetUid())
		if !known {
			continue
		}
		_, i := g.Pod.Container(r.c.GetName())
		if i < 0 || g.Isolation(i) == node.HostIsolation || !r.setting.CPUs.Equal(g.Containers[i].CPUs) && (g.Moving == nil || !r.setting.CPUs.Equal(g.Moving.Containers[i].CPUs)) {
			continue // It did not get the CPUs that it is to own.
		}
		for other, o := range b.runs {
			pooled := g.Isolation(i) == node.PodIsolation && b.boxes[o.c.GetPodSandboxId()].GetUid() == g.Pod.UID
			if other != id && !pooled && o.everywhere().Intersects(r.everywhere()) {
				found[[2]string{id, other}] = true
			}
		}
	}
	return found
}

// everywhere returns the CPUs on which a container runs: all CPUs if it has no cpuset.
func (r *running) everywhere() cpuset.Set {
	if r.setting.CPUs.IsEmpty() {
		return cpuset.Of(0, 1, 2, 3, 4, 5, 6, 7)
	}
	return r.setting.CPUs
}

// noMoreThan checks that there are no overlaps except those in before.
func (b *bench) noMoreThan(before map[[2]string]bool) {
	for pair := range b.overlaps() {
		if !before[pair] {
			b.broke(fmt.Errorf("%s has CPUs for its own, and %s runs on some of them: %v", pair[0], pair[1], b.show()))
		}
	}
}

// apart checks that there are no overlaps.
func (b *bench) apart() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.noMoreThan(nil)
}

// shown returns the settings of the running containers, by pod/container.
func (b *bench) shown() map[string]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.show()
}

func (b *bench) show() map[string]string {
	out := map[string]string{}
	for _, r := range b.runs {
		limit := ""
		if r.setting.Quota == quota.None {
			limit = " no quota"
		}
		out[b.boxes[r.c.GetPodSandboxId()].GetUid()+"/"+r.c.GetName()] = fmt.Sprintf("%s on %s%s", r.setting.CPUs, r.setting.Mems, limit)
	}
	return out
}

// check ends a test, and reports the first violated invariant.
func (b *bench) check(t *testing.T) {
	t.Helper()
	b.disconnect()
	b.halt()
	if b.wrong != nil {
		t.Error(b.wrong)
	}
}
