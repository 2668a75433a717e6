package agent

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/node/kernelfiles"
	"github.com/paddock-project/paddock/internal/node/noise"
	"github.com/paddock-project/paddock/internal/node/telemetry"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// countEvery is how often the agent reads the kernel's counts of interrupts. On a server with 256
// CPUs and 500 interrupts, a reading takes the agent 4 ms and the kernel some more, which together
// is a two-thousandth of a CPU.
const countEvery = 15 * time.Second

// interrupting counts the interruptions of containers with exclusive CPUs. Without such a
// container, it reads nothing. One goroutine reads, and others use the counts.
type interrupting struct {
	files kernelfiles.FS
	state func() *node.State // may return nil
	now   func() time.Time
	after func(time.Duration) <-chan time.Time
	log   *slog.Logger

	begun time.Time

	mu      sync.Mutex // locked only briefly
	tally   noise.Tally
	at      time.Time
	missing string
}

// newInterrupting returns an interrupting for the machine on which the process runs.
func newInterrupting(w World, state func() *node.State, log *slog.Logger) *interrupting {
	return &interrupting{files: kernelfiles.FS{Root: "/"}, state: state, now: w.Now, after: w.After, log: log}
}

// countInterruptions adds the metrics of interruptions, and returns the function for
// web.Config.Interruptions. It is nil on a simulated node, and for the machine of a file.
func (a *Agent) countInterruptions() func() *view.Interruptions {
	if a.measuring == nil || a.config.Machine != discover.LiveName {
		return nil
	}
	a.interrupting = newInterrupting(a.world, func() *node.State { return a.engine.State() }, a.log)
	a.metrics.NewInterruptions(a.interrupting.series)
	return a.interrupting.shown
}

// run counts until ctx ends.
func (i *interrupting) run(ctx context.Context) error {
	i.begun = i.now()
	for {
		i.count(ctx)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-i.after(countEvery):
		}
	}
}

// count reads the counters once. It logs once what is missing.
func (i *interrupting) count(ctx context.Context) {
	owners, cpus := exclusiveOwners(i.state())
	var r noise.Reading
	var err error
	if len(owners) > 0 {
		r, err = i.files.Classes(cpus)
	}
	now, missing := i.now(), ""
	r.At = now.Sub(i.begun)
	if err != nil {
		missing = err.Error()
	}
	i.mu.Lock()
	before := i.missing
	i.tally.Add(r, owners)
	i.at, i.missing = now, missing
	i.mu.Unlock()
	if missing != "" && missing != before {
		// This is usual in a container, and no setting of the agent changes it.
		i.log.InfoContext(ctx, "some interruptions of exclusive CPUs are not counted: paddock_cpu_interruptions_total and the map lack them", "error", missing)
	}
}

// exclusiveOwners returns the containers that have CPUs of their own, and all of these CPUs.
func exclusiveOwners(s *node.State) (owners []noise.Owner, cpus cpuset.Set) {
	if s == nil {
		return nil, cpus
	}
	var all cpuset.Builder
	for g := range s.AllGrants() {
		for k := range g.Containers {
			c := &g.Containers[k]
			if c.Removed || c.CPUs.IsEmpty() || g.Isolation(k) != node.ContainerIsolation {
				continue
			}
			owners = append(owners, noise.Owner{Pod: g.Pod.ID(), Container: g.Pod.Containers[k].Name, CPUs: c.CPUs})
			all.AddSet(c.CPUs)
		}
	}
	return owners, all.Set()
}

// series returns the counters for the metrics. It omits classes that cannot be read.
func (i *interrupting) series() []telemetry.Interruptions {
	i.mu.Lock()
	all, known := i.tally.All(), i.tally.Known()
	i.mu.Unlock()
	list := make([]telemetry.Interruptions, 0, len(all)*len(known))
	for _, s := range all {
		for k, class := range noise.Counted() {
			if known[k] {
				list = append(list, telemetry.Interruptions{Pod: s.Pod, Container: s.Container, Source: string(class), Count: s.Counts[k]})
			}
		}
	}
	return list
}

// shown returns the counts for the page.
func (i *interrupting) shown() *view.Interruptions {
	i.mu.Lock()
	defer i.mu.Unlock()
	return view.InterruptionsOf(&i.tally, max(0, i.now().Sub(i.at)), i.missing)
}
