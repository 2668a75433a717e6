package node

import (
	"math/bits"
	"strconv"

	"github.com/paddock-project/paddock/internal/core/request"
)

// Quota is a CFS quota: the CPU time, in microseconds, that a cgroup may use in each period of
// QuotaPeriod. 150000 is one and a half CPUs.
type Quota int64

const (
	// KeepQuota leaves the quota as the kubelet wrote it. For an observed cgroup, it means that the
	// quota is not known.
	KeepQuota Quota = 0
	// NoQuota means no CFS quota: "max" in cpu.max, -1 in cpu.cfs_quota_us.
	NoQuota Quota = -1
	// QuotaPeriod is the kubelet's period, in microseconds.
	QuotaPeriod = 100_000
	// LeastQuota is the smallest quota that the kernel accepts (scheduler/sched-bwc.rst).
	LeastQuota = 1000
	// mostQuota is below the largest quota that the kernel accepts, 2^44 microseconds.
	mostQuota = 1 << 43
	// microsPerMilli is the quota of a thousandth of a CPU, in microseconds per period.
	microsPerMilli = QuotaPeriod / 1000
)

// QuotaOf returns the quota that the kubelet writes for a limit in thousandths of a CPU. It returns
// KeepQuota if there is no limit.
func QuotaOf(milli int64) Quota {
	switch {
	case milli <= 0:
		return KeepQuota
	case milli >= int64(mostQuota)/microsPerMilli:
		return mostQuota
	}
	return max(Quota(milli)*microsPerMilli, LeastQuota)
}

// QuotaIn converts a quota of a period, both in microseconds as in the kernel's files, to a quota
// of QuotaPeriod. It returns NoQuota for a negative quota and KeepQuota for 0. The period must be
// positive.
func QuotaIn(quota, period int64) Quota {
	switch {
	case quota < 0:
		return NoQuota
	case quota == 0 || period == QuotaPeriod:
		return Quota(quota)
	}
	high, low := bits.Mul64(uint64(quota), QuotaPeriod)
	if high >= uint64(period) {
		return mostQuota
	}
	q, _ := bits.Div64(high, low, uint64(period))
	return Quota(min(max(q, 1), uint64(mostQuota)))
}

// Milli returns the quota in thousandths of a CPU, rounded down. It returns 0 for KeepQuota and
// NoQuota.
func (q Quota) Milli() int64 { return max(int64(q), 0) / microsPerMilli }

// String returns "keep", "none", or the microseconds per period.
func (q Quota) String() string {
	switch q {
	case KeepQuota:
		return "keep"
	case NoQuota:
		return "none"
	}
	return strconv.FormatInt(int64(q), 10)
}

// QuotaPolicy determines which CFS quotas apply to pods with exclusive CPUs or with a pool. The
// zero value means the reference's rules (R-ST-80 to R-ST-83).
type QuotaPolicy struct {
	// Isolated removes the quota from every cgroup above exclusive containers, so that no sibling
	// and no debug container can throttle them. It bounds the other containers one by one: by the
	// cpuset of the pod's pool, or by their own quota. It has no effect without Policy.LiftQuota.
	Isolated bool
	// EphemeralMilli is the limit of an ephemeral container of a pod without quota, in thousandths
	// of a CPU, if Isolated is set. Zero means no limit.
	EphemeralMilli int64
}

// DefaultEphemeralMilli is the default limit of an ephemeral container: enough for a debugger, and
// the node shared pool loses at most one CPU to it.
const DefaultEphemeralMilli = 1000

// LiftsQuota reports whether container i runs without CFS quota under the policy (R-ST-80).
func (g *Grant) LiftsQuota(p Policy, i int) bool {
	return p.LiftQuota && g.Isolation(i) == ContainerIsolation
}

// LiftsPodQuota reports whether the pod's cgroup has no CFS quota. In the reference, every
// container of a pod-level pod must be exclusive, and any other pod needs one exclusive container
// (R-ST-81). With isolated quotas, one is enough for both kinds of pod, and so is a pool: its
// cpuset is the limit. A pod whose request is estimated keeps its quota, because its containers are
// not known.
func (g *Grant) LiftsPodQuota(p Policy) bool {
	some, all := false, true
	for i := range g.Containers {
		lifted := g.LiftsQuota(p, i)
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

// PodQuota returns the CFS quota that the pod's cgroup should have. A pod-level pod that has lost
// exclusive CPUs gets back the quota that the kubelet wrote as soon as none of its containers needs
// a pod cgroup without quota.
func (g *Grant) PodQuota(p Policy) Quota {
	if g.LiftsPodQuota(p) {
		return NoQuota
	}
	for i := range g.Containers {
		if g.Pod.Kind == request.PodLevel && g.demoted(p, i) {
			return QuotaOf(g.Pod.CPULimit)
		}
	}
	return KeepQuota
}

// Quotas are the CFS quotas that the cgroups of one pod should have. KeepQuota means that the quota
// that the kubelet wrote is right.
type Quotas struct {
	// Pod is the quota of the pod's cgroup. See Grant.PodQuota.
	Pod Quota
	// Containers are the quotas of the containers, parallel to the pod's.
	Containers []Quota
	// Ephemeral is the quota of a container that the pod did not have when it was admitted. It has
	// its own limit if the pod's cgroup has no quota that bounds it.
	Ephemeral Quota
}

// Quotas returns the CFS quotas under a policy, regardless of which CPUs are online. It computes
// what containers have in common once, so all quotas cost little more than one.
//
// Containers inside their pod's pool keep their quota, as in KEP-5526: the cpuset bounds them all
// together. If a container has no limit, the kubelet writes a quota of as many CPUs as the pod's
// limit (R-ST-82), which is never less than the cpuset. A pod-level limit is divided among the
// containers on the node shared pool. In a plain pod, the limits of the containers are the pod's
// limit, so there is nothing to divide.
func (g *Grant) Quotas(p Policy) Quotas {
	q := Quotas{Pod: g.PodQuota(p), Containers: make([]Quota, len(g.Containers))}
	isolated := p.Quota.Isolated && g.LiftsPodQuota(p)
	if isolated {
		q.Ephemeral = QuotaOf(p.Quota.EphemeralMilli)
	}
	divided := isolated && g.Pod.Kind == request.PodLevel && g.Pod.CPULimit > 0
	var shares []Quota
	for i := range g.Containers {
		switch {
		case g.LiftsQuota(p, i):
			q.Containers[i] = NoQuota
			continue
		case !p.LiftQuota || !p.StaticCPU || g.Containers[i].Removed:
			continue
		}
		kubelet := g.kubeletQuota(i)
		want := kubelet
		if divided && g.Containers[i].CPUs.IsEmpty() {
			if shares == nil {
				shares = g.shares()
			}
			want = shares[i]
		}
		if want != kubelet || g.demoted(p, i) {
			q.Containers[i] = want
		}
	}
	return q
}

// Quotas returns the CFS quotas that the cgroups of a pod should have now. An exclusive container
// without an online CPU shares CPUs, and has the quota that the kubelet wrote.
func (s *State) Quotas(g *Grant) Quotas {
	q := g.Quotas(s.policy)
	for i := range q.Containers {
		if q.Containers[i] == NoQuota && !s.RunsAlone(g, i) {
			q.Containers[i] = g.kubeletQuota(i)
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
func (s *State) Limits(g *Grant) []Limit {
	quotas := s.Quotas(g).Containers
	limits := make([]Limit, len(quotas))
	for i, q := range quotas {
		c := &g.Pod.Containers[i]
		switch {
		case q == NoQuota:
			limits[i] = Limit{Source: NoCFSQuota}
		case q != KeepQuota:
			limits[i] = Limit{q.Milli(), PodShare}
		case c.CPULimit > 0:
			limits[i] = Limit{c.CPULimit, OwnLimit}
		case g.Pod.CPULimit > 0:
			limits[i] = Limit{g.Pod.CPULimit, PodLimit}
		}
	}
	return limits
}

// kubeletQuota returns the quota that the kubelet writes for container i: that of its own limit or,
// in a pod-level pod, of the pod's limit (R-ST-82).
func (g *Grant) kubeletQuota(i int) Quota {
	if own := QuotaOf(g.Pod.Containers[i].CPULimit); own != KeepQuota {
		return own
	}
	return QuotaOf(g.Pod.CPULimit)
}

// KubeletQuotas returns the quotas that the kubelet wrote for the containers, computed from their
// pod's request. An entry is KeepQuota if the policy leaves the quota as it is.
func (g *Grant) KubeletQuotas(p Policy) []Quota {
	quotas := g.Quotas(p).Containers
	for i := range quotas {
		if quotas[i] != KeepQuota {
			quotas[i] = g.kubeletQuota(i)
		}
	}
	return quotas
}

// KubeletPodQuota returns the quota that the kubelet wrote for the pod's cgroup, computed from the
// pod's request: its limit or, for a pod without one, the highest sum of the limits of containers
// that run at the same time. It returns KeepQuota if the policy leaves the quota as it is, or if
// not every container has a limit.
func (g *Grant) KubeletPodQuota(p Policy) Quota {
	if !g.LiftsPodQuota(p) {
		return KeepQuota
	}
	if g.Pod.CPULimit > 0 {
		return QuotaOf(g.Pod.CPULimit)
	}
	var most, sidecars, last int64
	for i := range g.Pod.Containers {
		c := &g.Pod.Containers[i]
		if c.CPULimit <= 0 {
			return KeepQuota
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
	return QuotaOf(max(most, last))
}

// demoted reports whether container i should have exclusive CPUs and has none, e.g. after CPUs went
// offline. A quota that was removed must then come back.
func (g *Grant) demoted(p Policy, i int) bool {
	asks, _ := p.exclusiveCPUs(&g.Pod, &g.Pod.Containers[i])
	return p.LiftQuota && asks > 0 && !g.Containers[i].Removed && g.Containers[i].CPUs.IsEmpty()
}
