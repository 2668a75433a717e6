package agent

import (
	"context"
	"time"

	"github.com/paddock-project/paddock/internal/node/cgroup"
)

// suffixAlive is the suffix of a file beside the state. Its modification time is the time of the
// last answer to the runtime. From it, the next agent knows for how long pods started without
// Paddock.
const suffixAlive = ".alive"

// alive returns the function for nri.Config.Alive. If it cannot write the time, only a metric
// becomes less exact.
func (a *Agent) alive(ctx context.Context) func(time.Time) {
	failed := false
	return func(at time.Time) {
		err := a.world.Marks.Mark(at)
		if err != nil && !failed {
			a.log.WarnContext(ctx, "the time of the last answer to the runtime cannot be written: the next agent counts the time without an agent from its own start", "error", err)
		}
		failed = err != nil
	}
}

// running returns the running containers with their cgroups.
func (a *Agent) running() []runningCgroup {
	var list []runningCgroup
	for _, c := range a.plugin.Running() {
		list = append(list, runningCgroup{Who: c.Who, Pod: c.Pod, Container: c.Container, Path: cgroup.Path(c.Path), Parent: cgroup.Path(c.Parent)})
	}
	return list
}
