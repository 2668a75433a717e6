package agent

import (
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/cgroup"
	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/node"
)

// VerifiedThrottling is what the kernel counts since the cgroups of exclusive containers and of their
// pods were made: also of the time before a quota was taken away.
type VerifiedThrottling struct {
	// Exclusive is how many containers with exclusive CPUs run.
	Exclusive int
	// Periods are those with a quota in which something ran, Throttled those in which it was used up.
	Periods, Throttled uint64
	// Notes name who was throttled, a line each.
	Notes []string
}

// quotas compares the quotas of the pods' cgroups, and counts throttled periods.
func (v *Verified) quotas(s *node.State, files cgroup.FS, running []runningCgroup) error {
	for _, r := range running {
		if err := v.podQuota(s, files, r); err != nil {
			return err
		}
	}
	for _, t := range throttleables(s, running) {
		n, err := files.Throttled(t.path)
		if gone(err) {
			continue
		}
		if err != nil {
			return err
		}
		v.Throttling.add(t, n)
	}
	return nil
}

func (v *VerifiedThrottling) add(t throttleable, n cgroup.Throttling) {
	who := fmt.Sprintf("%s (uid %s): container %s", t.running.Who, t.running.Pod, t.running.Container)
	if t.ofPod {
		who = fmt.Sprintf("%s (uid %s)", t.running.Who, t.running.Pod)
	} else {
		v.Exclusive++
	}
	v.Periods += n.Periods
	v.Throttled += n.Throttled
	if n.Throttled > 0 {
		v.Notes = append(v.Notes, fmt.Sprintf("%s: throttled in %d of %d periods since its cgroup %s was made, for %s in all", who, n.Throttled, n.Periods, t.path, n.Time))
	}
}

// podQuota compares the quota of a pod's cgroup.
func (v *Verified) podQuota(s *node.State, files cgroup.FS, r runningCgroup) error {
	want := converge.DesiredPodQuota(s, r.Pod)
	if want == node.KeepQuota {
		return nil
	}
	has, err := files.Quota(r.Parent)
	if gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	line := quotaLine(fmt.Sprintf("%s (uid %s): its cgroup %s", r.Who, r.Pod, r.Parent), has, want)
	if has != want && !slices.Contains(v.Differences, line) {
		v.differ("%s", line)
	}
	return nil
}

// quota adds a difference of a container.
func (v *Verified) quota(who string, has, want node.Quota) {
	v.differ("%s", quotaLine(who+": it", has, want))
}

// quotaLine says what quota somebody has and should have.
func quotaLine(who string, has, want node.Quota) string {
	text := func(q node.Quota) string {
		return fmt.Sprintf("a CFS quota of %d µs in %d", q, int64(node.QuotaPeriod))
	}
	switch {
	case want == node.NoQuota:
		return fmt.Sprintf("%s has %s, want none: it throttles exclusive CPUs", who, text(has))
	case has == node.NoQuota:
		return fmt.Sprintf("%s has no CFS quota, want %s", who, text(want))
	}
	return fmt.Sprintf("%s has %s, want %d", who, text(has), want)
}
