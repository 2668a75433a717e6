package node

import (
	"math/bits"
	"slices"
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

// Quota is the CFS quota that container i should have. KeepQuota: what the kubelet wrote is right.
// Containers inside their pod's pool keep theirs, as in KEP-5526: the cpuset bounds them all
// together, and a quota of as many CPUs as the pod's limit, which the kubelet writes where a
// container has no limit (R-ST-82), is never less than their cpuset.
func (g *Grant) Quota(p Policy, i int) Quota {
	if g.LiftsQuota(p, i) {
		return NoQuota
	}
	if !p.LiftQuota || !p.StaticCPU || g.Containers[i].Removed {
		return KeepQuota
	}
	kubelet := g.kubeletQuota(i)
	want := kubelet
	// A pod-level limit is divided among the containers on the node shared pool. The limits of a
	// plain pod's containers are the pod's: there is nothing to divide.
	bounded := g.Pod.Kind == request.PodLevel && g.Pod.CPULimit > 0 && g.Containers[i].CPUs.IsEmpty()
	if p.Quota.Isolated && g.LiftsPodQuota(p) && bounded {
		want = g.share(i)
	}
	if want == kubelet && !g.demoted(p, i) {
		return KeepQuota
	}
	return want
}

// Quota is the CFS quota that container i of a grant should have now: an exclusive container of
// which no CPU is online shares CPUs, with the quota that the kubelet wrote.
func (s *State) Quota(g *Grant, i int) Quota {
	if g.LiftsQuota(s.policy, i) && !s.RunsAlone(g, i) {
		return g.kubeletQuota(i)
	}
	return g.Quota(s.policy, i)
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

// Limit is what bounds the CPU time of container i of a grant now.
func (s *State) Limit(g *Grant, i int) Limit {
	c := &g.Pod.Containers[i]
	switch q := s.Quota(g, i); {
	case q == NoQuota:
		return Limit{Source: NoCFSQuota}
	case q != KeepQuota:
		return Limit{q.Milli(), PodShare}
	case c.CPULimit > 0:
		return Limit{c.CPULimit, OwnLimit}
	case g.Pod.CPULimit > 0:
		return Limit{g.Pod.CPULimit, PodLimit}
	}
	return Limit{}
}

// EphemeralQuota is the CFS quota of a container that the pod did not have when it was admitted:
// an ephemeral one. It has a limit of its own where the pod's cgroup has no quota that bounds it.
func (g *Grant) EphemeralQuota(p Policy) Quota {
	if p.Quota.Isolated && g.LiftsPodQuota(p) {
		return QuotaOf(p.Quota.EphemeralMilli)
	}
	return KeepQuota
}

// kubeletQuota is what the kubelet writes for container i: its own limit or, in a pod-level pod,
// the pod's (R-ST-82).
func (g *Grant) kubeletQuota(i int) Quota {
	if own := QuotaOf(g.Pod.Containers[i].CPULimit); own != KeepQuota {
		return own
	}
	return QuotaOf(g.Pod.CPULimit)
}

// KubeletQuota is what the kubelet wrote for container i, as far as its pod's request shows:
// KeepQuota where the policy leaves it as it is.
func (g *Grant) KubeletQuota(p Policy, i int) Quota {
	if g.Quota(p, i) == KeepQuota {
		return KeepQuota
	}
	return g.kubeletQuota(i)
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
	var most int64
	for _, phase := range g.phases() {
		var sum int64
		for _, i := range phase {
			limit := g.Pod.Containers[i].CPULimit
			if limit <= 0 {
				return KeepQuota
			}
			sum += limit
		}
		most = max(most, sum)
	}
	return QuotaOf(most)
}

// demoted reports whether container i was to have exclusive CPUs and has none, as after CPUs went
// offline: a quota that was taken away must come back.
func (g *Grant) demoted(p Policy, i int) bool {
	asks, _ := p.exclusiveCPUs(&g.Pod, &g.Pod.Containers[i])
	return p.LiftQuota && asks > 0 && !g.Containers[i].Removed && g.Containers[i].CPUs.IsEmpty()
}

// share is what container i may use of what the pod's limit leaves to those on the node shared
// pool. Containers that run at the same time form a phase: a standard init container with the
// sidecars before it, and in the end all sidecars and apps. Each phase is divided by itself, and
// a container gets the least of its phases, so that the limit is kept in all of them.
func (g *Grant) share(i int) Quota {
	least := Quota(mostQuota)
	for _, phase := range g.phases() {
		at := slices.Index(phase, i)
		if at < 0 {
			continue
		}
		var parts []part
		var rest Quota
		if rest, parts, at = g.rest(phase, i); at >= 0 {
			divide(rest, parts)
			least = min(least, parts[at].quota)
		}
	}
	return least
}

// phases are the containers that run at the same time.
func (g *Grant) phases() [][]int {
	var phases [][]int
	var sidecars, last []int
	for i, c := range g.Pod.Containers {
		switch c.Type {
		case request.Init:
			phases = append(phases, append(slices.Clone(sidecars), i))
			continue
		case request.Sidecar:
			sidecars = append(sidecars, i)
		case request.App:
		}
		last = append(last, i)
	}
	return append(phases, last)
}

// rest is what the pod's limit leaves to the containers of a phase that run on the node shared
// pool, these containers, and where i is among them.
func (g *Grant) rest(phase []int, i int) (rest Quota, parts []part, at int) {
	rest, at = QuotaOf(g.Pod.CPULimit)-Quota(g.Pool.Len())*QuotaPeriod, -1
	for _, k := range phase {
		c := g.Pod.Containers[k]
		has := g.Containers[k]
		switch {
		case !has.CPUs.IsEmpty() || has.Removed && c.Exclusive():
			if g.Pool.IsEmpty() {
				rest -= Quota(c.CPUs) * QuotaPeriod
			}
			continue
		case k == i:
			at = len(parts)
		}
		parts = append(parts, part{limit: QuotaOf(c.CPULimit), request: QuotaOf(c.CPURequest)})
	}
	return max(rest, 0), parts, at
}

// part is a container that shares in a division. A limit or request of KeepQuota is not set.
type part struct {
	limit, request Quota
	// quota is the result.
	quota Quota
	// base and weight make what is fair: base, and weight parts of what all bases leave. least and
	// most bound it.
	base, weight, least, most Quota
	done                      bool
}

// divide splits rest in proportion to the limits where all have one, else to the requests where all
// have one. Else each gets its request, and an equal part of what the requests leave. Every
// container gets its request, which the API server has checked to fit, and at most its limit; what
// that moves goes to or comes from the others. The sum is at most rest, but for what LeastQuota
// adds.
func divide(rest Quota, parts []part) {
	weigh(rest, parts)
	for {
		var weights, surplus Quota
		left := rest
		for _, p := range parts {
			if p.done {
				left -= p.quota
			} else {
				left -= p.base
				weights += p.weight
			}
		}
		if weights == 0 {
			return
		}
		for i := range parts {
			if p := &parts[i]; !p.done {
				fair := p.base + proportion(left, p.weight, weights)
				p.quota = min(max(fair, p.least), p.most)
				surplus += p.quota - fair
			}
		}
		settle(parts, left, weights, surplus)
	}
}

// settle ends the turn of the parts whose bounds count: the lower ones where the bounds give out
// more than there is, the upper ones where they leave some, and all where they do neither.
func settle(parts []part, left, weights, surplus Quota) {
	for i := range parts {
		p := &parts[i]
		if p.done {
			continue
		}
		switch fair := p.base + proportion(left, p.weight, weights); {
		case surplus == 0:
			// A whole millisecond, which systemd does not round up. A bound is exact: the kubelet
			// would write the same.
			if p.quota == fair {
				p.quota = max(fair/LeastQuota*LeastQuota, p.least)
			}
			p.done = true
		case surplus > 0:
			p.done = p.quota > fair
		default:
			p.done = p.quota < fair
		}
	}
}

// weigh sets what is fair, and the bounds.
func weigh(rest Quota, parts []part) {
	limits, requests := true, true
	var sum Quota
	for _, p := range parts {
		limits, requests = limits && p.limit > 0, requests && p.request > 0
		if p.request > LeastQuota {
			sum += p.request
		}
	}
	for i := range parts {
		p := &parts[i]
		p.weight, p.least, p.most = 1, LeastQuota, max(rest, LeastQuota)
		if sum <= rest {
			p.least = max(p.request, LeastQuota)
		}
		switch {
		case limits:
			p.weight = p.limit
		case requests:
			p.weight = p.request
		case sum <= rest:
			p.base = p.request
		}
		if p.limit > 0 {
			p.most = max(min(p.most, p.limit), p.least)
		}
	}
}

// proportion is left·weight/weights, rounded down; left may be negative, which is nothing.
func proportion(left, weight, weights Quota) Quota {
	high, low := bits.Mul64(uint64(max(left, 0)), uint64(weight))
	quotient, _ := bits.Div64(high, low, uint64(weights))
	return Quota(quotient)
}
