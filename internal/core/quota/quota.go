package quota

import (
	"math/bits"
	"strconv"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Quota is a CFS quota: the CPU time, in microseconds, that a cgroup may use in each period of
// Period. 150000 is one and a half CPUs.
type Quota int64

const (
	// Keep leaves the quota as the kubelet wrote it. For an observed cgroup, it means that the
	// quota is not known.
	Keep Quota = 0
	// None means no CFS quota: "max" in cpu.max, -1 in cpu.cfs_quota_us.
	None Quota = -1
	// Period is the kubelet's period, in microseconds.
	Period = 100_000
	// Least is the smallest quota that the kernel accepts (scheduler/sched-bwc.rst).
	Least = 1000
	// most is below the largest quota that the kernel accepts, 2^44 microseconds.
	most = 1 << 43
	// microsPerMilli is the quota of a thousandth of a CPU, in microseconds per period.
	microsPerMilli = Period / 1000
)

// Of returns the quota that the kubelet writes for a limit in thousandths of a CPU. It returns Keep
// if there is no limit.
func Of(milli int64) Quota {
	switch {
	case milli <= 0:
		return Keep
	case milli >= int64(most)/microsPerMilli:
		return most
	}
	return max(Quota(milli)*microsPerMilli, Least)
}

// In converts a quota of a period, both in microseconds as in the kernel's files, to a quota of
// Period. It returns None for a negative quota and Keep for 0. The period must be positive.
func In(quota, period int64) Quota {
	switch {
	case quota < 0:
		return None
	case quota == 0 || period == Period:
		return Quota(quota)
	}
	high, low := bits.Mul64(uint64(quota), Period)
	if high >= uint64(period) {
		return most
	}
	q, _ := bits.Div64(high, low, uint64(period))
	return Quota(min(max(q, 1), uint64(most)))
}

// Milli returns the quota in thousandths of a CPU, rounded down. It returns 0 for Keep and
// None.
func (q Quota) Milli() int64 { return max(int64(q), 0) / microsPerMilli }

// String returns "keep", "none", or the microseconds per period.
func (q Quota) String() string {
	switch q {
	case Keep:
		return "keep"
	case None:
		return "none"
	}
	return strconv.FormatInt(int64(q), 10)
}

// DefaultEphemeralMilli is the default limit of an ephemeral container: enough for a debugger, and
// the node shared pool loses at most one CPU to it.
const DefaultEphemeralMilli = 1000

// HasNone reports whether container i runs without CFS quota under the policy (R-ST-80).
func HasNone(g *node.Grant, p node.Policy, i int) bool {
	return p.LiftQuota && g.Isolation(i) == node.ContainerIsolation
}

// PodHasNone reports whether the pod's cgroup has no CFS quota. In the reference, every
// container of a pod-level pod must be exclusive, and any other pod needs one exclusive container
// (R-ST-81). With isolated quotas, one is enough for both kinds of pod, and so is a pool: its
// cpuset is the limit. A pod whose request is estimated keeps its quota, because its containers are
// not known.
func PodHasNone(g *node.Grant, p node.Policy) bool {
	some, all := false, true
	for i := range g.Containers {
		lifted := HasNone(g, p, i)
		some, all = some || lifted, all && lifted
	}
	switch {
	case !p.LiftQuota || g.Pod.Estimated:
		return false
	case p.Quota.Isolated:
		return some || !g.Pool.IsEmpty()
	case g.Pod.Kind == request.PodLevel:
		return all
	}
	return some
}

// OfPod returns the CFS quota that the pod's cgroup should have. A pod-level pod that has lost
// exclusive CPUs gets back the quota that the kubelet wrote as soon as none of its containers needs
// a pod cgroup without quota.
func OfPod(g *node.Grant, p node.Policy) Quota {
	if PodHasNone(g, p) {
		return None
	}
	for i := range g.Containers {
		if g.Pod.Kind == request.PodLevel && demoted(g, p, i) {
			return Of(g.Pod.CPULimit)
		}
	}
	return Keep
}

// Quotas are the CFS quotas that the cgroups of one pod should have. Keep means that the quota
// that the kubelet wrote is right.
type Quotas struct {
	// Pod is the quota of the pod's cgroup. See OfPod.
	Pod Quota
	// Containers are the quotas of the containers, parallel to the pod's.
	Containers []Quota
	// Ephemeral is the quota of a container that the pod did not have when it was admitted. It has
	// its own limit if the pod's cgroup has no quota that bounds it.
	Ephemeral Quota
}

// OfGrant returns the CFS quotas under a policy, regardless of which CPUs are online. It computes
// what containers have in common once, so all quotas cost little more than one.
//
// Containers inside their pod's pool keep their quota, as in KEP-5526: the cpuset bounds them all
// together. If a container has no limit, the kubelet writes a quota of as many CPUs as the pod's
// limit (R-ST-82), which is never less than the cpuset. A pod-level limit is divided among the
// containers on the node shared pool. In a plain pod, the limits of the containers are the pod's
// limit, so there is nothing to divide.
func OfGrant(g *node.Grant, p node.Policy) Quotas {
	q := Quotas{Pod: OfPod(g, p), Containers: make([]Quota, len(g.Containers))}
	isolated := p.Quota.Isolated && PodHasNone(g, p)
	if isolated {
		q.Ephemeral = Of(p.Quota.EphemeralMilli)
	}
	divided := isolated && g.Pod.Kind == request.PodLevel && g.Pod.CPULimit > 0
	var parts []Quota
	for i := range g.Containers {
		switch {
		case HasNone(g, p, i):
			q.Containers[i] = None
			continue
		case !p.LiftQuota || !p.StaticCPU || g.Containers[i].Removed:
			continue
		}
		kubelet := kubeletOf(g, i)
		want := kubelet
		if divided && g.Containers[i].CPUs.IsEmpty() {
			if parts == nil {
				parts = shares(g)
			}
			want = parts[i]
		}
		if want != kubelet || demoted(g, p, i) {
			q.Containers[i] = want
		}
	}
	return q
}

// Now returns the CFS quotas that the cgroups of a pod should have in a state. An exclusive
// container without an online CPU shares CPUs, and has the quota that the kubelet wrote.
func Now(s *node.State, g *node.Grant) Quotas {
	q := OfGrant(g, s.Policy())
	for i := range q.Containers {
		if q.Containers[i] == None && !s.RunsAlone(g, i) {
			q.Containers[i] = kubeletOf(g, i)
		}
	}
	return q
}

// Limit is the limit of the CPU time of a container, in thousandths of a CPU. Milli is 0 if there
// is none.
type Limit struct {
	Milli  int64
	Source LimitSource
}

// LimitSource is the origin of a limit.
type LimitSource int

// The sources.
const (
	NoLimit    LimitSource = iota // neither the container nor its pod has one
	OwnLimit                      // the container's
	PodLimit                      // its pod's (R-ST-82)
	PodShare                      // its share of what exclusive containers leave of the pod's
	NoCFSQuota                    // its CPUs are its own (R-ST-80)
)

// Limits returns the current limits of the CPU time of the containers of a grant, parallel to the
// pod's containers.
func Limits(s *node.State, g *node.Grant) []Limit {
	quotas := Now(s, g).Containers
	limits := make([]Limit, len(quotas))
	for i, q := range quotas {
		c := &g.Pod.Containers[i]
		switch {
		case q == None:
			limits[i] = Limit{Source: NoCFSQuota}
		case q != Keep:
			limits[i] = Limit{q.Milli(), PodShare}
		case c.CPULimit > 0:
			limits[i] = Limit{c.CPULimit, OwnLimit}
		case g.Pod.CPULimit > 0:
			limits[i] = Limit{g.Pod.CPULimit, PodLimit}
		}
	}
	return limits
}

// kubeletOf returns the quota that the kubelet writes for container i: that of its own limit or,
// in a pod-level pod, of the pod's limit (R-ST-82).
func kubeletOf(g *node.Grant, i int) Quota {
	if own := Of(g.Pod.Containers[i].CPULimit); own != Keep {
		return own
	}
	return Of(g.Pod.CPULimit)
}

// Kubelet returns the quotas that the kubelet wrote for the containers, computed from their
// pod's request. An entry is Keep if the policy leaves the quota as it is.
func Kubelet(g *node.Grant, p node.Policy) []Quota {
	quotas := OfGrant(g, p).Containers
	for i := range quotas {
		if quotas[i] != Keep {
			quotas[i] = kubeletOf(g, i)
		}
	}
	return quotas
}

// KubeletEphemeral returns the quota that the kubelet wrote for an ephemeral container. The
// container has no limit, so the pod's limit applies (R-ST-82), or there is no quota. It returns
// Keep if the policy leaves the quota as it is.
func (q Quotas) KubeletEphemeral(g *node.Grant) Quota {
	switch {
	case q.Ephemeral == Keep:
		return Keep
	case g.Pod.CPULimit > 0:
		return Of(g.Pod.CPULimit)
	}
	return None
}

// KubeletPod returns the quota that the kubelet wrote for the pod's cgroup, computed from the
// pod's request: its limit or, for a pod without one, the highest sum of the limits of containers
// that run at the same time. It returns Keep if the policy leaves the quota as it is, or if
// not every container has a limit.
func KubeletPod(g *node.Grant, p node.Policy) Quota {
	if !PodHasNone(g, p) {
		return Keep
	}
	if g.Pod.CPULimit > 0 {
		return Of(g.Pod.CPULimit)
	}
	var most, sidecars, last int64
	for i := range g.Pod.Containers {
		c := &g.Pod.Containers[i]
		if c.CPULimit <= 0 {
			return Keep
		}
		switch c.Type {
		case request.Init:
			most = max(most, sidecars+c.CPULimit)
			continue
		case request.Sidecar:
			sidecars += c.CPULimit
		case request.App:
		}
		last += c.CPULimit
	}
	return Of(max(most, last))
}

// demoted reports whether container i should have exclusive CPUs and has none, e.g. after CPUs went
// offline. A quota that was removed must then come back.
func demoted(g *node.Grant, p node.Policy, i int) bool {
	asks, _ := p.ExclusiveCPUs(&g.Pod, &g.Pod.Containers[i])
	return p.LiftQuota && asks > 0 && !g.Containers[i].Removed && g.Containers[i].CPUs.IsEmpty()
}
