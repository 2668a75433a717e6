package explain

import (
	"cmp"
	"context"
	"slices"

	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Largest describes the largest Guaranteed pods with one container that the node would admit now
// under a topology policy, if everything else remains unchanged.
type Largest struct {
	Policy string `json:"policy"`
	// Now is true for the node's own policy.
	Now bool `json:"now,omitempty"`
	// CPUs is the largest number of CPUs (column MOST CPUS). Memory is the smallest number of
	// bytes, in whole MiB, with which they are admitted (WITH AT LEAST). LostCPUs is the difference
	// from CPUs under policy none, which aligns nothing (LOST). LostBytes is the same for Bytes.
	CPUs     int   `json:"cpus"`
	Memory   int64 `json:"withMemory"`
	LostCPUs int   `json:"lostCPUs"`
	// Bytes is the largest amount of memory of a container without exclusive CPUs (MOST MEMORY).
	Bytes     int64 `json:"memory"`
	LostBytes int64 `json:"lostMemory"`
	// Share is the largest number of CPUs of a pod whose memory per CPU is that of the whole
	// machine (IN PROPORTION).
	Share      int   `json:"proportionalCPUs"`
	ShareBytes int64 `json:"proportionalMemory"`
	LostShare  int   `json:"lostProportionalCPUs"`
	// MoreCPUs, MoreBytes and MoreShare are true if the search reached its bound. CPUs, Bytes and
	// Share then fit, and more may fit. If they are false, nothing larger fits.
	MoreCPUs  bool `json:"moreCPUsMayFit,omitempty"`
	MoreBytes bool `json:"moreMemoryMayFit,omitempty"`
	MoreShare bool `json:"moreInProportionMayFit,omitempty"`
	// Wrong explains why the policy cannot be checked.
	Wrong string `json:"wrong,omitempty"`
}

func largestPods(ctx context.Context, s *node.State) []Largest {
	policies := []node.TopologyPolicy{node.TopologyNone, node.TopologyBestEffort, node.TopologyRestricted, node.TopologySingleNUMANode}
	var out []Largest
	for _, t := range policies {
		policy := s.Policy()
		policy.Topology = t
		l := Largest{Policy: t.String(), Now: t == s.Policy().Topology}
		at, err := s, error(nil)
		if !l.Now {
			if !s.Starts() { // A kubelet reads its configuration only when it starts.
				l.Wrong = "only after a repair: the kubelet does not start on its files"
				out = append(out, l)
				continue
			}
			if len(policy.Conflicts(s.Machine())) > 0 {
				l.Wrong = "not with align-by-socket"
				out = append(out, l)
				continue
			}
			at, err = under(s, policy)
		}
		if err != nil {
			l.Wrong = err.Error()
			out = append(out, l)
			continue
		}
		l.measure(ctx, at)
		if len(out) > 0 && out[0].Wrong == "" {
			free := out[0]
			l.LostCPUs, l.LostBytes, l.LostShare = free.CPUs-l.CPUs, free.Bytes-l.Bytes, free.Share-l.Share
		}
		out = append(out, l)
	}
	return out
}

func (l *Largest) measure(ctx context.Context, s *node.State) {
	p := &prober{ctx: ctx, s: s, memory: s.Policy().StaticMemory}
	p.ask = p.alone
	p.thresholds()
	if s.Policy().StaticCPU {
		unit := int64(1)
		if s.Policy().CPU.FullPCPUsOnly {
			unit = int64(max(1, s.Machine().CPUsPerCore()))
		}
		l.cpus(p, unit)
		if p.memory {
			l.share(p, unit)
		}
	}
	if p.memory {
		l.Bytes, l.MoreBytes = p.mostBytes(0, true)
	}
}

// cpus finds the largest number of CPUs, and the smallest amount of memory with which they are
// admitted.
func (l *Largest) cpus(p *prober, unit int64) {
	most, bytes, cut := p.mostCPUs(unit, true)
	l.CPUs, l.MoreCPUs = int(most), cut
	if !p.memory || l.CPUs == 0 {
		return
	}
	l.Memory = bytes
	p.begin()
	if bytes, a := p.with(most); a == fits {
		l.Memory = bytes
	}
}

// share finds the largest number of CPUs with memory in proportion.
func (l *Largest) share(p *prober, unit int64) {
	each := p.perCPU()
	try := func(n int64) answer { return p.plan(n*unit, n*unit*each) }
	// The memory that belongs to the CPUs may prefer one more NUMA node.
	changes := append(wholes(sums(p.s, request.CPU), unit), wholes(sums(p.s, machine.Memory), unit*each)...)
	ends := ended(min(int64(p.s.AvailableCPUs().Len()), p.free*mebi/each)/unit, changes)
	most := largest(ends, try)
	most, l.MoreShare = p.above(most, ends, every(ends[0]), try)
	l.Share, l.ShareBytes = int(most*unit), most*unit*each
}

const mebi = int64(1) << 20

// answer is what the plan of a pod means for this pod and for larger ones.
type answer int

const (
	rejects answer = iota
	fits
	// never means that no larger pod that prefers as many NUMA nodes fits either.
	never
)

// prober plans pods with other amounts of one container.
type prober struct {
	ctx    context.Context
	s      *node.State
	memory bool
	// ask plans a pod whose container requests so many CPUs and bytes.
	ask func(cpus, bytes int64) answer
	// otherCPUs and otherBytes are requested in addition where the pod is aligned as one.
	otherCPUs, otherBytes int64
	// sizes are the amounts of memory, in MiB, above which one more NUMA node is preferred. free is
	// the free memory of all NUMA nodes together, in MiB.
	sizes []int64
	free  int64
	// bottoms and tops are the amounts of memory at which the answer can change. Between a bottom
	// and the next top, it is the same. If coarse is true, there may be more such amounts.
	bottoms, tops []int64
	coarse        bool
	// plans is the number of plans since begin. cut is true if something was not checked.
	plans int
	cut   bool
}

// maxLargestPlans bounds, for each measure and policy, the plans that verify that nothing larger
// fits. Equal NUMA nodes need only a few plans.
const maxLargestPlans = 1000

// begin starts a bounded search.
func (p *prober) begin() { p.plans, p.cut = 0, false }

func (p *prober) spent() bool { return p.plans >= maxLargestPlans || p.ctx.Err() != nil }

// thresholds sets the amounts with which the Memory Manager compares requests.
func (p *prober) thresholds() {
	if !p.memory {
		return
	}
	x := search{state: p.s}
	a := axis{resource: machine.Memory, complete: true}
	for _, sum := range x.memorySums(&a) {
		if sum -= p.otherBytes; sum >= 0 {
			p.tops, p.bottoms = append(p.tops, sum/mebi), append(p.bottoms, sum/mebi+1)
		}
	}
	slices.Sort(p.tops)
	slices.Sort(p.bottoms)
	p.coarse, p.free = !a.complete, max(0, x.room(machine.Memory)-p.otherBytes)/mebi
	p.sizes = wholes(minus(sums(p.s, machine.Memory), p.otherBytes), mebi)
}

// plan asks about one pod, and counts.
func (p *prober) plan(cpus, bytes int64) answer {
	if p.ctx.Err() != nil {
		return rejects
	}
	p.plans++
	a := p.ask(cpus, bytes)
	p.cut = p.cut || a == rejects && p.coarse
	return a
}

// alone plans a pod of one container.
func (p *prober) alone(cpus, bytes int64) answer {
	c := request.Container{Name: "c", Type: request.App, CPUs: int(cpus), CPURequest: cpus * 1000, CPULimit: cpus * 1000, Equivalent: true}
	if cpus == 0 {
		c.Sharing, c.CPURequest, c.CPULimit = request.FractionalCPU, 500, 500
	}
	if p.memory {
		c.Memory = request.Amounts{{Resource: machine.Memory, Value: bytes}}
	}
	return answerOf(p.s, p.s.Plan(request.Pod{Identity: request.Identity{UID: "\x00report", Namespace: "default", Name: "report"}, Ask: request.Ask{QoS: request.Guaranteed, Containers: []request.Container{c}}}))
}

// answerOf returns what the plan of a pod means for larger ones of its kind.
func answerOf(s *node.State, plan *node.Plan) answer {
	switch {
	case plan.Rejection == nil:
		return fits
	case plan.Trace.Cause == rejection.NotAligned || s.Policy().Topology == node.TopologyNone || nowhere(plan):
		return never // It cannot be aligned or placed, and neither can larger pods (R-HINT-32, R-HINT-62).
	}
	return rejects
}

// nowhere reports whether the memory of a pod fits on no set of NUMA nodes.
func nowhere(plan *node.Plan) bool {
	return slices.ContainsFunc(plan.Trace.Alignments, func(a node.Alignment) bool {
		return slices.ContainsFunc(a.HintSets, func(s hint.Set) bool { return s.Resource == request.Memory && s.Kind == hint.Any })
	})
}

// with returns the smallest amount of memory with which that many CPUs are admitted. While the
// preferred number of NUMA nodes is the same, a pod that cannot be aligned cannot be aligned with
// more memory either. But a pod that is aligned and then rejected by a manager can be admitted with
// more memory.
func (p *prober) with(cpus int64) (int64, answer) {
	if !p.memory {
		return mebi, p.plan(cpus, mebi)
	}
	policy, all := p.s.Policy(), never
	prefers, _ := slices.BinarySearch(sums(p.s, request.CPU), cpus+p.otherCPUs)
	ends := ended(p.free, p.sizes)
	slices.Reverse(ends)
	for i, end := range ends[1:] {
		// Strict policies admit only amounts that prefer as many NUMA nodes as the CPUs do, except
		// for CPUs that prefer whole sockets.
		if k, _ := slices.BinarySearch(p.sizes, end); policy.Strict() && !policy.CPU.AlignBySocket && k != prefers {
			continue
		}
	within:
		for _, n := range between(ends[i]+1, end, p.bottoms) {
			switch p.plan(cpus, n*mebi) {
			case fits:
				return n * mebi, fits
			case never:
				break within
			case rejects:
				all = rejects
			}
			if p.spent() {
				p.cut = true
				return 0, rejects
			}
		}
	}
	return 0, all
}

// mostCPUs returns the largest number of CPUs that is admitted with any amount of memory, and such
// an amount. cut reports whether more may fit: all numbers that can matter are tried only if exact
// is set.
func (p *prober) mostCPUs(unit int64, exact bool) (cpus, bytes int64, cut bool) {
	ends := ended(max(0, int64(p.s.AvailableCPUs().Len())-p.otherCPUs)/unit, wholes(minus(sums(p.s, request.CPU), p.otherCPUs), unit))
	most := largest(ends, func(n int64) answer {
		if p.least(n*unit) > 0 {
			return fits
		}
		return rejects
	})
	bytes = p.least(most * unit)
	if !exact {
		return most * unit, bytes, true
	}
	most, cut = p.above(most, ends, every(ends[0]), func(n int64) answer {
		with, a := p.with(n * unit)
		if a == fits {
			bytes = with
		}
		return a
	})
	return most * unit, bytes, cut
}

// mostBytes returns the largest amount of memory that is admitted with so many CPUs. cut and exact
// are as for mostCPUs.
func (p *prober) mostBytes(cpus int64, exact bool) (bytes int64, cut bool) {
	try := func(n int64) answer { return p.plan(cpus, n*mebi) }
	ends := ended(p.free, p.sizes)
	most := largest(ends, try)
	if !exact {
		return most * mebi, true
	}
	most, cut = p.above(most, ends, p.tops, try)
	return most * mebi, cut
}

// above returns the largest amount above low that fits, or low. cut reports whether more may fit
// because the search reached its bound. ends are as for largest. stops are all amounts after which
// the answer can change.
func (p *prober) above(low int64, ends, stops []int64, try func(int64) answer) (most int64, cut bool) {
	p.begin()
	for i, end := range ends[:len(ends)-1] {
		if end <= low {
			break
		}
		most = low
	within:
		for _, n := range between(max(ends[i+1], low)+1, end, stops) {
			switch try(n) {
			case fits:
				most = n
			case never:
				break within
			case rejects:
			}
			if p.spent() {
				return most, true
			}
		}
		if most > low {
			return most, p.cut
		}
	}
	return low, p.cut
}

// between returns first, last and the stops between them.
func between(first, last int64, stops []int64) []int64 {
	from, _ := slices.BinarySearch(stops, first)
	to, _ := slices.BinarySearch(stops, last)
	return slices.Compact(slices.Concat([]int64{first}, stops[from:to], []int64{last}))
}

// every returns the numbers from 1 to n.
func every(n int64) []int64 {
	all := make([]int64, 0, n)
	for i := range n {
		all = append(all, i+1)
	}
	return all
}

// minus returns the amounts, each reduced by other.
func minus(amounts []int64, other int64) []int64 {
	out := make([]int64, len(amounts))
	for i, n := range amounts {
		out[i] = n - other
	}
	return out
}

// wholes converts amounts to units, rounded down.
func wholes(amounts []int64, unit int64) []int64 {
	out := make([]int64, len(amounts))
	for i, n := range amounts {
		out[i] = n / unit
	}
	return out
}

// least returns the smallest amount of memory with which that many CPUs are admitted, or 0 if there
// is none. It tries only 1 MiB and the amounts at which the preferred number of NUMA nodes changes.
// Restricted admits only amounts that prefer as many NUMA nodes as the CPUs do. Best-effort may
// also have room for more memory but not for less, if NUMA nodes serve memory together.
func (p *prober) least(cpus int64) int64 {
	if p.plan(cpus, mebi) == fits {
		return mebi
	}
	if !p.memory || p.s.Policy().Topology == node.TopologySingleNUMANode {
		return 0
	}
	sizes := minus(sums(p.s, request.CPU), p.otherCPUs)
	for i, size := range p.sizes {
		same := i+1 < len(sizes) && sizes[i] < cpus && cpus <= sizes[i+1]
		if bytes := max(1, size+1) * mebi; (same || len(p.sizes) <= maxAllAmounts) && p.plan(cpus, bytes) == fits {
			return bytes
		}
	}
	return 0
}

// maxAllAmounts is the largest number of NUMA nodes of machines on which least tries all amounts.
// On larger machines, it tries only the one that prefers as many NUMA nodes as the CPUs.
const maxAllAmounts = 8

// perCPU returns the memory for pods per CPU for pods on the machine, in bytes, rounded down to
// whole MiB.
func (p *prober) perCPU() int64 {
	total := sums(p.s, machine.Memory)
	return max(1, total[len(total)-1]/int64(max(1, p.s.AllocatableCPUs().Len()))/mebi) * mebi
}

// ended returns the ends of the ranges up to most in which the preferred number of NUMA nodes is
// the same, the highest first. The last element is 0.
func ended(most int64, changes []int64) []int64 {
	ends := []int64{most, 0}
	for _, n := range changes {
		if 0 < n && n < most {
			ends = append(ends, n)
		}
	}
	slices.SortFunc(ends, func(a, b int64) int { return cmp.Compare(b, a) })
	return slices.Compact(ends)
}

// largest returns a large amount that fits. It is the largest one if fitting is monotone between
// two ends, which is mostly the case.
func largest(ends []int64, try func(int64) answer) int64 {
	for i, high := range ends[:len(ends)-1] {
		low := ends[i+1] + 1
		switch {
		case try(high) == fits:
			return high
		case high == low || try(low) != fits:
			continue
		}
		for high-low > 1 {
			if middle := low + (high-low)/2; try(middle) == fits {
				low = middle
			} else {
				high = middle
			}
		}
		return low
	}
	return 0
}
