package agent

import (
	"context"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/paddock-project/paddock/internal/cgroup"
	"github.com/paddock-project/paddock/internal/discover"
	"github.com/paddock-project/paddock/internal/store"
)

// follow follows what changes under the agent: the CPUs of a live machine.
func (a *Agent) follow(ctx context.Context, group *errgroup.Group) {
	if a.config.Machine != discover.LiveName {
		return
	}
	h := newHotplug(a.engine, os.DirFS("/"), a.place.machine, func() { a.plugin.Wake(ctx) }, a.flows, a.log)
	group.Go(func() error { return h.run(ctx) })
}

// suffixAlive is of the file beside the state whose time of change is when the runtime was answered last, so
// that the next agent knows for how long pods started without one.
const suffixAlive = ".alive"

// alive is nri.Config's. A time that cannot be noted costs nothing but an accurate metric.
func (a *Agent) alive(ctx context.Context) func(time.Time) {
	failed := false
	return func(at time.Time) {
		err := store.Mark(a.config.State+suffixAlive, at)
		if err != nil && !failed {
			a.log.WarnContext(ctx, "the time of the last answer to the runtime cannot be noted: the time away will be counted from the next start", "error", err)
		}
		failed = err != nil
	}
}

// running are the containers that run, with their cgroups.
func (a *Agent) running() []runningCgroup {
	var list []runningCgroup
	for _, c := range a.plugin.Running() {
		list = append(list, runningCgroup{Who: c.Who, Pod: c.Pod, Container: c.Container, Path: cgroup.Path(c.Path), Parent: cgroup.Path(c.Parent)})
	}
	return list
}
