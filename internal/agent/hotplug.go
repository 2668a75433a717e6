package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/discover"
	"github.com/paddock-project/paddock/internal/telemetry"
)

const (
	// onlinePeriod is how often the mask of online CPUs is read, which takes less than 0.1 ms (BenchmarkOnline). Sysfs has no inotify.
	// The kernel sends a uevent for each CPU, but over a socket that loses them when it is full and that
	// needs the host's network namespace, so the mask would have to be read all the same.
	onlinePeriod = time.Second
	// mostTries is how often in a row the machine is discovered for one mask that it does not agree with.
	// Sysfs shows a CPU in the mask before it has its topology and its caches, for some milliseconds; what
	// is not there after this many periods does not come.
	mostTries = 5
)

// rebaser is what follows of the engine when the machine changes.
type rebaser interface {
	State() *node.State
	// Rebase replaces the state, and whatever is decided and not published yet, by a function's result.
	// The function may be called several times. An error is the function's.
	Rebase(ctx context.Context, change func(*node.State) (*node.State, error)) error
}

// hotplug follows CPUs that go offline and come online. It is one goroutine's. Grants do not change;
// what containers run on does, which is the runtime's to carry out.
type hotplug struct {
	engine rebaser
	// online reads the mask; discover reads the whole machine.
	online   func() (cpuset.Set, error)
	discover func() (*machine.Machine, error)
	// full is the machine at the start with all CPUs that were ever seen: it knows which threads make
	// a core, and its memory is what the policy was resolved for.
	full *machine.Machine
	// changed is called after each change, so that containers are updated at once.
	changed func()
	flows   *telemetry.Operations
	log     *slog.Logger

	tried  cpuset.Set // the mask that was discovered last
	tries  int        // how often in a row it was not what the machine has
	failed string     // the error that was logged last
}

// newHotplug follows the machine below root, which is os.DirFS("/") but in tests. changed may be nil.
func newHotplug(e rebaser, root fs.FS, start *machine.Machine, changed func(), flows *telemetry.Operations, log *slog.Logger) *hotplug {
	if changed == nil {
		changed = func() {}
	}
	return &hotplug{
		engine: e, full: start, changed: changed, flows: flows, log: log,
		online: func() (cpuset.Set, error) { return discover.Online(root) },
		discover: func() (*machine.Machine, error) {
			found, err := discover.Live(root)
			if err != nil {
				return nil, err
			}
			return found.Machine, nil
		},
	}
}

// run follows until ctx ends. A kernel that does not tell which CPUs are online ends it as well.
func (h *hotplug) run(ctx context.Context) error {
	tick := time.NewTicker(onlinePeriod)
	defer tick.Stop()
	for {
		err := h.look(ctx)
		if errors.Is(err, fs.ErrNotExist) && h.tried.IsEmpty() {
			h.log.InfoContext(h.flows.WithOperation(ctx), "the kernel does not report which CPUs are online, so they are not followed", "error", err)
			return nil
		}
		h.tell(ctx, err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// tell logs an error that is not the one of before.
func (h *hotplug) tell(ctx context.Context, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != h.failed {
		h.log.ErrorContext(h.flows.WithOperation(ctx), "a change of the online CPUs is not followed yet; it is tried again", "error", err)
	}
	h.failed = text
}

// look compares the mask with the machine of the state, and changes the state when they differ. The state is
// asked each time: it may have been made before the first look, or by a start that found less.
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
		return fmt.Errorf("CPUs %s are online, and the machine cannot be read: %w", online, err)
	}
	if !m.AllCPUs().Equal(before.Machine().AllCPUs()) {
		if err := h.engine.Rebase(ctx, func(s *node.State) (*node.State, error) { return s.OnMachine(m) }); err != nil {
			return fmt.Errorf("CPUs %s are online, and the pods cannot be kept on them: %w", m.AllCPUs(), err)
		}
		h.report(h.flows.WithOperation(ctx), before, h.engine.State())
		h.changed()
	}
	if h.tries++; h.tries == mostTries {
		h.log.WarnContext(h.flows.WithOperation(ctx), "CPUs are online and cannot be used: they have no topology in sysfs, or are on a NUMA node that was not there at the start; restart the agent to use them",
			"cpus", online.Difference(m.AllCPUs()).String())
	}
	return nil
}

// machine is the machine as it is now, with the memory that it had at the start.
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

// report logs which CPUs went and came, and what that means for each pod.
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
	told := map[string]string{}
	for _, d := range before.Degraded() {
		told[d.Grant.Pod.UID] = d.Offline.String() + displaced(before, d)
	}
	for _, d := range now.Degraded() {
		pod := d.Grant.Pod
		if told[pod.UID] != d.Offline.String()+displaced(now, d) {
			h.log.WarnContext(ctx, "pod is degraded: CPUs of it are offline", "pod", pod.ID(), "uid", pod.UID, "offline", d.Offline.String(), "displaced", displaced(now, d))
		}
		delete(told, pod.UID)
	}
	for _, g := range now.Grants() {
		if told[g.Pod.UID] != "" {
			h.log.InfoContext(ctx, "pod has all its CPUs again", "pod", g.Pod.ID(), "uid", g.Pod.UID)
		}
	}
}

// displaced names the containers of a pod without a CPU that is online, with what they run on: "log 0,8-9".
func displaced(s *node.State, d node.Degraded) string {
	texts := make([]string, len(d.Displaced))
	for k, i := range d.Displaced {
		cpus, _ := s.Cgroup(d.Grant, i)
		texts[k] = d.Grant.Pod.Containers[i].Name + " " + cpus.String()
	}
	return strings.Join(texts, "; ")
}
