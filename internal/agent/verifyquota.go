package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/quota"
	"github.com/paddock-project/paddock/internal/node/cgroup"
)

// watchTime is how long Verify watches whether containers are throttled: 20 periods of the kernel.
const watchTime = 2 * time.Second

// VerifiedThrottling describes how often the quotas of exclusive containers and of their pods were
// used up while Verify watched. The counts of the kernel begin with the creation of a cgroup, so
// they include the time before the agent knew the container and before it removed the quota.
type VerifiedThrottling struct {
	// Exclusive is the number of running containers with exclusive CPUs.
	Exclusive int `json:"exclusive"`
	// Seconds is how long Verify watched.
	Seconds float64 `json:"seconds"`
	// Periods is the number of periods with a quota in which a process ran. Throttled is the number
	// of those in which the quota was used up.
	Periods   uint64 `json:"periods"`
	Throttled uint64 `json:"throttled"`
	// Notes has a line for each cgroup that was throttled.
	Notes []string `json:"notes,omitempty"`
}

// quotas compares the quotas of the pods' cgroups with the state.
func (v *Verified) quotas(s *node.State, files cgroup.FS, running []runningCgroup) error {
	wanted := converge.Want(s)
	for _, r := range running {
		want := wanted.PodQuota(r.Pod)
		if want == quota.Keep {
			continue
		}
		has, err := files.Quota(r.Parent)
		if gone(err) {
			continue
		}
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%s (uid %s): its cgroup %s has %s", r.Who, r.Pod, r.Parent, converge.QuotaLine(has, want))
		if has != want && !slices.Contains(v.Differences, line) {
			v.differ("%s", line)
		}
	}
	return nil
}

// throttling counts throttled periods while Verify watches.
func (v *Verified) throttling(ctx context.Context, s *node.State, files cgroup.FS, running []runningCgroup, after func(time.Duration) <-chan time.Time) error {
	watch, before := throttleables(s, running), map[string]cgroup.Throttling{}
	v.Throttling.Seconds = watchTime.Seconds()
	for _, t := range watch {
		n, err := files.Throttled(t.path)
		if err != nil && !gone(err) {
			return err
		}
		if before[t.path] = n; !t.ofPod {
			v.Throttling.Exclusive++
		}
	}
	if len(watch) == 0 {
		return nil
	}
	select {
	case <-after(watchTime):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for _, t := range watch {
		n, err := files.Throttled(t.path)
		if gone(err) {
			continue
		}
		if err != nil {
			return err
		}
		v.Throttling.add(t, before[t.path], n)
	}
	return nil
}

func (v *VerifiedThrottling) add(t throttleable, before, now cgroup.Throttling) {
	who := fmt.Sprintf("%s (uid %s): container %s", t.running.Who, t.running.Pod, t.running.Container)
	if t.ofPod {
		who = fmt.Sprintf("%s (uid %s)", t.running.Who, t.running.Pod)
	}
	if now.Periods < before.Periods || now.Throttled < before.Throttled {
		before = cgroup.Throttling{} // The cgroup was created again.
	}
	periods, throttled := now.Periods-before.Periods, now.Throttled-before.Throttled
	v.Periods += periods
	v.Throttled += throttled
	if throttled > 0 {
		v.Notes = append(v.Notes, fmt.Sprintf("%s: its cgroup %s was throttled in %d of %d periods in %v, for %v in total", who, t.path, throttled, periods, watchTime, now.Time-before.Time))
	}
}
