package node

import (
	"math/bits"
	"strconv"

	"github.com/paddock-project/paddock/internal/core/request"
)

// Quota is a CFS quota: the microseconds of CPU time that a cgroup may use in each period of
// QuotaPeriod. 150000 is one and a half CPUs.
type Quota int64

const (
	// KeepQuota leaves the quota as the kubelet wrote it. Of an observed cgroup: not known.
	KeepQuota Quota = 0
	// NoQuota is no quota: "max" in cpu.max, -1 in cpu.cfs_quota_us.
	NoQuota Quota = -1
	// QuotaPeriod is the kubelet's period, in microseconds.
	QuotaPeriod = 100_000
	// LeastQuota is the smallest quota that the kernel accepts (scheduler/sched-bwc.rst).
	LeastQuota = 1000
	// mostQuota is below the largest quota that the kernel accepts, 2^44 microseconds.
	mostQuota = 1 << 43
	// microsPerMilli is a thousandth of a CPU in microseconds a period.
	microsPerMilli = QuotaPeriod / 1000
)

// QuotaOf is the quota that the kubelet writes for a limit in thousandths of a CPU; KeepQuota
// where there is no limit.
func QuotaOf(milli int64) Quota {
	switch {
	case milli <= 0:
		return KeepQuota
	case milli >= int64(mostQuota)/microsPerMilli:
		return mostQuota
	}
	return max(Quota(milli)*microsPerMilli, LeastQuota)
}

// QuotaIn is a quota of a period, both in microseconds as the kernel has them, as one of
// QuotaPeriod: NoQuota for a negative one, KeepQuota for 0. The period is positive.
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

// Milli is the quota in thousandths of a CPU, rounded down; 0 for KeepQuota and NoQuota.
func (q Quota) Milli() int64 { return max(int64(q), 0) / microsPerMilli }

// String is "keep", "none", or the microseconds a period.
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
// zero value is the reference's rule (R-ST-80 to R-ST-83).
type QuotaPolicy struct {
	// Isolated takes the quota from every cgroup above exclusive containers, so that no sibling
	// and no debug container can throttle them, and bounds the others one by one: by the cpuset
	// of the pod's pool, or by a quota of their own. It has no effect without Policy.LiftQuota.
	Isolated bool
	// EphemeralMilli is the limit of an ephemeral container of a pod without quota, in thousandths
	// of a CPU, where Isolated is set; 0: none.
	EphemeralMilli int64
}

// DefaultEphemeralMilli is the limit of an ephemeral container where nothing else is set: enough
// for a debugger, and one CPU at most that the node shared pool loses to it.
const DefaultEphemeralMilli = 1000

// LiftsQuota reports whether container i runs without CFS quota under the policy (R-ST-80).
func (g *Grant) LiftsQuota(p Policy, i int) bool {
	return p.LiftQuota && g.Isolation(i) == ContainerIsolation
}

// LiftsPodQuota reports whether the pod's cgroup has no CFS quota. As the reference has it, a
// pod-level pod needs every container to be exclusive, any other a single one (R-ST-81).
// With isolated quotas a single one is enough for both, and so is a pool: its cpuset is the
// limit. A pod whose request is estimated keeps its quota: its containers are not known.
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

// PodQuota is the CFS quota that the pod's cgroup should have. A pod-level pod that has lost
// exclusive CPUs gets back what the kubelet wrote, as soon as none of its containers needs the
// cgroup without.
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

// Quotas are the CFS quotas that the cgroups of one pod should have. KeepQuota: what the kubelet
// wrote is right.
type Quotas struct {
	// Pod is that of the pod's cgroup; see Grant.PodQuota.
	Pod Quota
	// Containers are parallel to the pod's.
	Containers []Quota
	// Ephemeral is that of a container that the pod did not have when it was admitted. It has a
	// limit of its own where the pod's cgroup has no quota that bounds it.
	Ephemeral Quota
}

// Quotas are the CFS quotas under a policy, whatever CPUs are online. What containers have in
// common is computed once, so the cost of all is little more than that of one.
//
// Containers inside their pod's pool keep theirs, as in KEP-5526: the cpuset bounds them all
// together, and a quota of as many CPUs as the pod's limit, which the kubelet writes where a
// container has no limit (R-ST-82), is never less than their cpuset. A pod-level limit is divided
// among the containers on the node shared pool. The limits of a plain pod's containers are the
// pod's: there is nothing to divide.
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

// Quotas are the CFS quotas that the cgroups of a pod should have now: an exclusive container of
// which no CPU is online shares CPUs, with the quota that the kubelet wrote.
func (s *State) Quotas(g *Grant) Quotas {
	q := g.Quotas(s.policy)
	for i := range q.Containers {
		if q.Containers[i] == NoQuota && !s.RunsAlone(g, i) {
			q.Containers[i] = g.kubeletQuota(i)
		}
	}
	return q
}

// Limit is what bounds the CPU time of a container, in thousandths of a CPU, 0 where nothing does.
type Limit struct {
	Milli  int64
	Source LimitSource
}

// LimitSource is where a limit comes from.
type LimitSource int

// The sources.
const (
	NoLimit    LimitSource = iota // neither the container nor its pod has one
	OwnLimit                      // the container's
	PodLimit                      // its pod's (R-ST-82)
	PodShare                      // its share of what exclusive containers leave of the pod's
	NoCFSQuota                    // its CPUs are its own (R-ST-80)
)

// Limits are what bounds the CPU time of the containers of a grant now, parallel to the pod's.
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

// kubeletQuota is what the kubelet writes for container i: its own limit or, in a pod-level pod,
// the pod's (R-ST-82).
func (g *Grant) kubeletQuota(i int) Quota {
	if own := QuotaOf(g.Pod.Containers[i].CPULimit); own != KeepQuota {
		return own
	}
	return QuotaOf(g.Pod.CPULimit)
}

// KubeletQuotas are what the kubelet wrote for the containers, as far as their pod's request shows:
// KeepQuota where the policy leaves it as it is.
func (g *Grant) KubeletQuotas(p Policy) []Quota {
	quotas := g.Quotas(p).Containers
	for i := range quotas {
		if quotas[i] != KeepQuota {
			quotas[i] = g.kubeletQuota(i)
		}
	}
	return quotas
}

// KubeletPodQuota is what the kubelet wrote for the pod's cgroup, as far as its request shows: its
// limit or, of a pod without one, the sum of the limits of the containers that run at the same
// time, the most at any time. KeepQuota where the policy leaves it as it is, or not every container
// has a limit.
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

// demoted reports whether container i was to have exclusive CPUs and has none, as after CPUs went
// offline: a quota that was taken away must come back.
func (g *Grant) demoted(p Policy, i int) bool {
	asks, _ := p.exclusiveCPUs(&g.Pod, &g.Pod.Containers[i])
	return p.LiftQuota && asks > 0 && !g.Containers[i].Removed && g.Containers[i].CPUs.IsEmpty()
}
