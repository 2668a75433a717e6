package telemetry

import (
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/engine"
)

// Decided is engine.Observer's: the answer to one admission.
func (t *Telemetry) Decided(d engine.Decision) {
	c := &t.counters
	took := d.Took + d.Waited
	c.admissions.Inc()
	c.milliseconds.Observe(float64(took.Milliseconds()))
	c.seconds.Observe(took.Seconds())
	for _, a := range d.Plan.Trace.Alignments {
		if a.Choice.Unproven || a.Choice.Unsolved {
			c.limited.Inc()
		}
	}
	v := newVerdict(t.config.Policy, d)
	t.countRefusal(v)
	cpu, memory := v.questions()
	c.cpu.requests.Add(float64(cpu))
	c.memory.requests.Add(float64(memory))
	if v.end != endAdmitted {
		return
	}
	t.countAlignment(v)
	if !v.plan.Known {
		if v.pod.Estimated {
			c.estimated.Inc()
		}
		t.countAssignments(v)
		t.countShared(v)
	}
}

// end is where the way of an admission ended.
type end int

const (
	endAdmitted    end = iota
	endUnwritten       // granted, but the state could not be written
	endUnsupported     // before anybody was asked (R-DEM-2)
	endTopology        // the Topology Manager found no alignment
	endCPU             // the CPU manager refused
	endMemory          // the memory manager refused
	endElsewhere       // somebody else refused after these
)

func endOf(r *node.Refusal, err error) end {
	switch {
	case err != nil:
		return endUnwritten
	case r == nil:
		return endAdmitted
	case r.Reason == node.PodLevelResourcesNotSupported:
		return endUnsupported
	case strings.HasPrefix(r.Rule, "R-HINT-") || r.Rule == "R-DEM-64":
		return endTopology
	case r.Resource == request.CPU:
		return endCPU
	case isMemory(r.Resource) || strings.HasPrefix(r.Rule, "R-MEM-"):
		return endMemory
	}
	return endElsewhere
}

func isMemory(r request.Resource) bool { return request.IsMemory(r) }

// verdict is a decision, seen with the policy that it was made under.
type verdict struct {
	policy node.Policy
	base   *node.State // with the machine that the plan was made for
	plan   *node.Plan
	pod    request.Pod
	end    end
	// reason is why the pod was not admitted, as a label's value.
	reason string
	// pooled pods are pod-level ones that are served as a whole.
	pooled bool
	// managesCPU and managesMemory say whether the managers serve this pod at all.
	managesCPU, managesMemory bool
}

func newVerdict(policy node.Policy, d engine.Decision) verdict {
	v := verdict{policy: policy, base: d.Base, plan: d.Plan, pod: d.Plan.Pod, end: endOf(d.Plan.Refusal, d.Err)}
	if d.Plan.Grant != nil {
		v.pod = d.Plan.Grant.Pod
	}
	switch {
	case v.end == endUnwritten:
		v.reason = string(node.UnexpectedAdmissionError)
	case d.Plan.Refusal != nil:
		v.reason = known(string(d.Plan.Refusal.Reason), reasons)
	}
	v.pooled = policy.Topology != node.TopologyNone && policy.Scope == node.PodScope && v.pod.Kind == request.PodLevel
	managed := v.pod.Kind != request.Unmanaged
	v.managesCPU = managed && policy.StaticCPU && (!v.pooled || v.pod.BudgetCPUs > 0)
	v.managesMemory = managed && policy.StaticMemory && v.pod.QoS == request.Guaranteed && (!v.pooled || len(v.pod.BudgetMemory) > 0)
	return v
}

func (v verdict) wantsCPU(i int) bool { return v.managesCPU && v.pod.Containers[i].Exclusive() }

func (v verdict) wantsMemory(i int) bool {
	return v.managesMemory && len(v.pod.Containers[i].Memory) > 0
}

// questions counts what the managers were asked for: a pool, and containers in the order in
// which they start until one was refused.
func (v verdict) questions() (cpu, memory int) {
	if v.end == endUnsupported {
		return 0, 0
	}
	if v.pooled {
		return v.poolQuestions()
	}
	askedCPU, askedMemory := v.reached()
	for i := range v.pod.Containers {
		if i < askedCPU && v.wantsCPU(i) {
			cpu++
		}
		if i < askedMemory && v.wantsMemory(i) {
			memory++
		}
	}
	return cpu, memory
}

// reached is how many containers got as far as the CPU manager and the memory manager.
func (v verdict) reached() (cpu, memory int) {
	all := len(v.pod.Containers)
	if v.plan.Refusal == nil {
		return all, all
	}
	_, at := v.pod.Container(v.plan.Refusal.Container)
	switch {
	case v.end == endTopology:
		return max(at, 0), max(at, 0) // A pod that is aligned as a whole names no container.
	case at < 0:
		return all, all
	case v.end == endCPU:
		return at + 1, at
	}
	return at + 1, at + 1
}

// poolQuestions: CPUs come first; memory is refused before it is divided.
func (v verdict) poolQuestions() (cpu, memory int) {
	if v.end == endTopology {
		return 0, 0
	}
	divided := len(v.pod.Containers)
	if v.end == endCPU {
		_, at := v.pod.Container(v.plan.Refusal.Container)
		divided = at + 1
	}
	if v.managesCPU {
		cpu = 1
	}
	if v.managesMemory && v.end != endCPU {
		memory = 1
	}
	for i := range divided {
		if v.wantsCPU(i) {
			cpu++
		}
		if v.wantsMemory(i) && v.end != endCPU && v.end != endMemory {
			memory++
		}
	}
	return cpu, memory
}

func (v verdict) source() string {
	if v.pooled {
		return sourcePod
	}
	return sourceNode
}

// scope is what the Topology Manager aligns, as a label's value.
func (v verdict) scope() string {
	if v.policy.Scope == node.PodScope {
		return scopePod
	}
	return scopeContainer
}

// countRefusal is the part of R-MET-10, R-MET-11, R-MET-20, R-MET-21 and R-MET-30 about errors.
func (t *Telemetry) countRefusal(v verdict) {
	c := &t.counters
	if v.reason != "" {
		c.rejections.WithLabelValues(v.reason).Inc()
	}
	if v.end != endAdmitted && v.end != endUnsupported && v.policy.Topology != node.TopologyNone {
		c.admissionErrors.Inc()
	}
	switch v.end {
	case endTopology:
		if v.policy.Topology == node.TopologySingleNUMANode {
			c.unaligned.WithLabelValues(v.scope(), boundaryNUMA).Inc()
		}
	case endCPU:
		c.cpu.errors.Inc()
		c.allocErrors.WithLabelValues(resourceCPU, v.source()).Inc()
		if v.policy.CPU.FullPCPUsOnly && !v.pooled {
			c.unaligned.WithLabelValues(scopeContainer, boundaryPhysical).Inc()
		}
	case endMemory:
		c.memory.errors.Inc()
		c.allocErrors.WithLabelValues(resourceMemory, v.source()).Inc()
	case endAdmitted, endUnwritten, endUnsupported, endElsewhere:
	}
}

// countAlignment is what R-MET-10, R-MET-11 and R-MET-30 say of alignments that hold.
func (t *Telemetry) countAlignment(v verdict) {
	aligned := func(scope, boundary string, n int) {
		if n > 0 {
			t.counters.aligned.WithLabelValues(scope, boundary).Add(float64(n))
		}
	}
	if v.policy.Topology == node.TopologySingleNUMANode {
		units := 1
		if v.policy.Scope == node.ContainerScope {
			units = len(v.pod.Containers)
		}
		aligned(v.scope(), boundaryNUMA, units)
	}
	if v.pooled {
		aligned(scopeContainer, boundaryUncore, countOneUncore(v, v.plan.Grant.Pool))
		return
	}
	for i, c := range v.plan.Grant.Containers {
		if !v.wantsCPU(i) || c.CPUs.IsEmpty() {
			continue
		}
		if v.policy.CPU.FullPCPUsOnly {
			aligned(scopeContainer, boundaryPhysical, 1)
		}
		aligned(scopeContainer, boundaryUncore, countOneUncore(v, c.CPUs))
	}
}

// countOneUncore is 1 for CPUs that were taken now and share one uncore cache (R-CPU-65).
func countOneUncore(v verdict, cpus cpuset.Set) int {
	if v.plan.Known || cpus.IsEmpty() {
		return 0
	}
	m := v.base.Machine()
	first, _ := m.CPU(cpus.Lowest())
	for id := range cpus.All() {
		if at, _ := m.CPU(id); at.Uncore != first.Uncore {
			return 0
		}
	}
	return 1
}

// countAssignments is what R-MET-10, R-MET-11, R-MET-12, R-MET-20 and R-MET-21 say of containers.
func (t *Telemetry) countAssignments(v verdict) {
	exclusive := nodeExclusive
	if v.pooled {
		exclusive = podExclusive
	}
	count := func(resource string, own bool) {
		c := &t.counters
		if own {
			c.allocations.WithLabelValues(resource, v.source()).Inc()
			c.assignments.WithLabelValues(resource, exclusive).Inc()
		} else if v.pooled {
			c.assignments.WithLabelValues(resource, podShared).Inc()
		}
	}
	for i := range v.pod.Containers {
		if v.managesCPU {
			count(resourceCPU, v.wantsCPU(i))
		}
		if v.managesMemory {
			count(resourceMemory, v.wantsMemory(i))
		}
	}
}

// whys are the causes why a container of a Guaranteed pod has no CPUs of its own, each with
// request.Sharing's meaning; "estimated" is one that stands for all of its pod, "fractional_pod_cpu" is a pod-level request that is no whole number.
var whys = []string{"not_equivalent", "fractional_cpu", "no_cpu_request", "gate_off", "fractional_pod_cpu", "estimated", other}

func (t *Telemetry) countShared(v verdict) {
	if !v.policy.StaticCPU || v.pod.QoS != request.Guaranteed {
		return
	}
	for i := range v.pod.Containers {
		if v.plan.Grant.Isolation(i) != node.ContainerIsolation {
			t.counters.shared.WithLabelValues(v.why(i)).Inc()
		}
	}
}

func (v verdict) why(i int) string {
	if v.pod.Estimated {
		return "estimated"
	}
	if v.pooled && v.pod.BudgetCPUs == 0 && v.pod.BudgetCPUMilli%1000 != 0 {
		return "fractional_pod_cpu"
	}
	if v.pod.Kind == request.Unmanaged {
		return "gate_off"
	}
	switch v.pod.Containers[i].Sharing {
	case request.NotEquivalent:
		return "not_equivalent"
	case request.FractionalCPU:
		return "fractional_cpu"
	case request.NoCPURequest:
		return "no_cpu_request"
	case request.GateOff:
		return "gate_off"
	case request.NotShared, request.QoSNotGuaranteed, request.Estimated:
	}
	return other
}
