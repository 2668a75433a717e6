package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/node/telemetry"
)

const (
	// onlinePeriod is how often the agent reads the mask of online CPUs, which takes less than 0.1
	// ms (BenchmarkOnline). Sysfs does not support inotify. The kernel sends a uevent for each CPU,
	// but the socket loses messages when it is full, and needs the host's network namespace. The
	// agent would therefore have to read the mask anyway.
	onlinePeriod = time.Second
	// mostTries is how many times in a row the agent discovers the machine for a mask that the
	// machine does not match. Sysfs shows a CPU in the mask some milliseconds before its topology
	// and its caches. If they are still missing after this many periods, they will not appear.
	mostTries = 5
)

// rebaser is the part of the engine that follows changes of the machine.
type rebaser interface {
	State() *node.State
	// Rebase replaces the state, and every decision that is not published yet, by the result of
	// change. It may call change several times. It returns the error of change.
	Rebase(ctx context.Context, change func(*node.State) (*node.State, error)) error
}

// hotplug follows CPUs that go offline and come online. It is used by one goroutine. Grants do not
// change. The cpusets of containers change, and the control loop updates them.
type hotplug struct {
	engine rebaser
	// online reads the mask. discover reads the whole machine.
	online   func() (cpuset.Set, error)
	discover func() (*machine.Machine, error)
	// full is the machine at the start, with all CPUs that have ever been online. It has the
	// threads of each core, and the memory for which the policy was resolved.
	full *machine.Machine
	// changed is called after each change, so that containers are updated at once.
	changed func()
	flows   *telemetry.Operations
	log     *slog.Logger

	tried  cpuset.Set // the mask of the last discovery
	tries  int        // how many times in a row the machine did not match it
	failed string     // the error that was logged last
}

// newHotplug returns a hotplug for the machine below root, which is os.DirFS("/") except in tests.
// changed may be nil.
func newHotplug(e rebaser, root fs.FS, start *machine.Machine, changed func(), flows *telemetry.Operations, log *slog.Logger) *hotplug {
	if changed == nil {
		changed = func() {}
	}
	return &hotplug{
		engine: e, full: start, changed: changed, flows: flows, log: log,
		online: func() (cpuset.Set, error) { return discover.Online(root) },
		discover: func() (*machine.Machine, error) {
			found, err := discover.Live(root)
			if err == nil && !start.Caches().IsEmpty() {
				err = found.CachesError // Running containers would lose their classes.
			}
			if err != nil {
				return nil, err
			}
			return found.Machine, nil
		},
	}
}

// run follows the CPUs until ctx ends. It returns at once if the kernel does not report which CPUs
// are online.
func (h *hotplug) run(ctx context.Context) error {
	tick := time.NewTicker(onlinePeriod)
	defer tick.Stop()
	for {
		err := h.look(ctx)
		if errors.Is(err, fs.ErrNotExist) && h.tried.IsEmpty() {
			h.log.InfoContext(h.flows.WithOperation(ctx), "the kernel does not report which CPUs are online: the agent does not follow changes of them", "error", err)
			return nil
		}
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != "" && text != h.failed {
			h.log.ErrorContext(h.flows.WithOperation(ctx), "the agent cannot follow a change of the online CPUs yet, and tries again", "error", err)
		}
		h.failed = text
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// look compares the mask with the machine of the state, and changes the state if they differ. It
// reads the state each time, because the state may be older than the first look, or from a start
// that found fewer CPUs.
func (h *hotplug) look(ctx context.Context) error {
	online, err := h.online()
	if err != nil {
		return err
	}
	before := h.engine.State()
	if online.Equal(before.Machine().AllCPUs()) {
		h.tried, h.tries = online, 0
		return nil
	}
	if !online.Equal(h.tried) {
		h.tried, h.tries = online, 0
	}
	if h.tries == mostTries {
		return nil
	}
	m, err := h.machine()
	if err != nil {
		return fmt.Errorf("CPUs %s are online, but the machine cannot be read: %w", online, err)
	}
	if !m.AllCPUs().Equal(before.Machine().AllCPUs()) {
		if err := h.engine.Rebase(ctx, func(s *node.State) (*node.State, error) { return s.OnMachine(m) }); err != nil {
			return fmt.Errorf("CPUs %s are online, but the pods cannot keep their assignments on them: %w", m.AllCPUs(), err)
		}
		h.report(h.flows.WithOperation(ctx), before, h.engine.State())
		h.changed()
	}
	if h.tries++; h.tries == mostTries {
		h.log.WarnContext(h.flows.WithOperation(ctx), "CPUs are online but cannot be used: they have no topology in sysfs, or are on a NUMA node that did not exist when the agent started; restart the agent to use them",
			"cpus", online.Difference(m.AllCPUs()).String())
	}
	return nil
}

// machine returns the present machine, with the memory that it had at the start.
func (h *hotplug) machine() (*machine.Machine, error) {
	now, err := h.discover()
	if err != nil {
		return nil, err
	}
	m, err := h.full.WithCPUs(now)
	if err == nil && m.AllCPUs().Contains(h.full.AllCPUs()) {
		h.full = m
	}
	return m, err
}

// report logs which CPUs went offline and came online, and the effect on each pod.
func (h *hotplug) report(ctx context.Context, before, now *node.State) {
	was, is := before.Machine().AllCPUs(), now.Machine().AllCPUs()
	if gone := was.Difference(is); !gone.IsEmpty() {
		h.log.WarnContext(ctx, "CPUs went offline", "cpus", gone.String(), "online", is.String(), "shared", now.SharedCPUs().String())
		if reserved := gone.Intersection(now.Policy().ReservedCPUs); !reserved.IsEmpty() {
			h.log.WarnContext(ctx, "reserved CPUs are offline; they stay reserved", "cpus", reserved.String())
		}
	}
	if back := is.Difference(was); !back.IsEmpty() {
		h.log.InfoContext(ctx, "CPUs came online", "cpus", back.String(), "online", is.String(), "shared", now.SharedCPUs().String())
	}
	reported := map[string]string{}
	for _, d := range before.Degraded() {
		reported[d.Grant.Pod.UID] = d.Offline.String() + displaced(before, d)
	}
	for _, d := range now.Degraded() {
		pod := d.Grant.Pod
		if reported[pod.UID] != d.Offline.String()+displaced(now, d) {
			h.log.WarnContext(ctx, "pod is degraded: some of its CPUs are offline", "pod", pod.ID(), "uid", pod.UID, "offline", d.Offline.String(), "displaced", displaced(now, d))
		}
		delete(reported, pod.UID)
	}
	for _, g := range now.Grants() {
		if reported[g.Pod.UID] != "" {
			h.log.InfoContext(ctx, "pod has all its CPUs again", "pod", g.Pod.ID(), "uid", g.Pod.UID)
		}
	}
}

// displaced returns the names of a pod's containers that have no online CPU, with the CPUs on which
// they run, e.g. "log 0,8-9".
func displaced(s *node.State, d node.Degraded) string {
	texts := make([]string, len(d.Displaced))
	cgroups := s.Cgroups(d.Grant)
	for k, i := range d.Displaced {
		cpus, _ := cgroups.Of(i)
		texts[k] = d.Grant.Pod.Containers[i].Name + " " + cpus.String()
	}
	return strings.Join(texts, "; ")
}
