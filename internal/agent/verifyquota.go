package agent

import (
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/cgroup"
	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/node"
)

// VerifiedThrottling has the kernel's counts since the cgroups of exclusive containers and of their
// pods were made. They include the time before a quota was removed.
type VerifiedThrottling struct {
	// Exclusive is the number of running containers with exclusive CPUs.
	Exclusive int `json:"exclusive"`
	// Periods are the periods with a quota in which a process ran, Throttled those in which the
	// quota was used up.
	Periods   uint64 `json:"periods"`
	Throttled uint64 `json:"throttled"`
	// Notes have a line for each cgroup that was throttled.
	Notes []string `json:"notes,omitempty"`
}

// quotas compares the quotas of the pods' cgroups, and counts throttled periods.
func (v *Verified) quotas(s *node.State, files cgroup.FS, running []runningCgroup) error {
	for _, r := range running {
		want := converge.DesiredPodQuota(s, r.Pod)
		if want == node.KeepQuota {
			continue
		}
		has, err := files.Quota(r.Parent)
		if gone(err) {
			continue
		}
		if err != nil {
			return err
		}
		line := quotaLine(fmt.Sprintf("%s (uid %s): its cgroup %s", r.Who, r.Pod, r.Parent), has, want)
		if has != want && !slices.Contains(v.Differences, line) {
			v.differ("%s", line)
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
		v.Notes = append(v.Notes, fmt.Sprintf("%s: throttled in %d of %d periods since its cgroup %s was created, for %s in total", who, n.Throttled, n.Periods, t.path, n.Time))
	}
}

// quota adds a difference of a container.
func (v *Verified) quota(who string, has, want node.Quota) {
	v.differ("%s", quotaLine(who+": it", has, want))
}

// quotaLine is the text of a difference between two quotas.
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
