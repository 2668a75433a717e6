package telemetry

import (
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/engine"
)

// Decided implements engine.Observer. It counts the answer to one admission.
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
	t.countRejection(d)
	trace := &d.Plan.Trace
	c.cpu.requests.Add(float64(trace.Requests.CPU))
	c.memory.requests.Add(float64(trace.Requests.Memory))
	if d.Err != nil || d.Plan.Rejection != nil {
		return
	}
	t.countAlignment(d)
	if !d.Plan.Known {
		if d.Plan.Pod.Estimated {
			c.estimated.Inc()
		}
		t.countAssignments(&trace.Demand)
	}
	if d.Plan.Known || !t.config.Policy.StaticCPU || d.Plan.Pod.QoS != request.Guaranteed {
		return
	}
	for i := range d.Plan.Grant.Containers {
		if d.Plan.Grant.Isolation(i) != node.ContainerIsolation {
			c.shared.WithLabelValues(whyShared(d.Plan, i)).Inc()
		}
	}
}

// Resized implements engine.ResizeObserver. It counts the answer to one resize.
func (t *Telemetry) Resized(d engine.Decision) {
	outcome := resized
	switch {
	case d.Err != nil:
		outcome = notWritten
	case d.Plan.Rejection != nil:
		outcome = known(string(d.Plan.Rejection.Reason), resizes)
	}
	t.counters.resizes.WithLabelValues(outcome).Inc()
}

// scope returns the scope of the Topology Manager as a label value.
func (t *Telemetry) scope() string {
	if t.config.Policy.Scope == node.PodScope {
		return scopePod
	}
	return scopeContainer
}

// sourceOf returns the source of the containers' exclusive resources as a label value.
func sourceOf(d *node.Demand) string {
	if d.Path == node.AsPool {
		return sourcePod
	}
	return sourceNode
}

// countRejection counts errors (R-MET-10, R-MET-11, R-MET-20, R-MET-21, R-MET-30).
func (t *Telemetry) countRejection(d engine.Decision) {
	c, r := &t.counters, d.Plan.Rejection
	aligns := t.config.Policy.Topology != node.TopologyNone
	switch {
	case d.Err != nil: // It was granted, but could not be written.
		c.rejections.WithLabelValues(string(rejection.UnexpectedAdmissionError)).Inc()
	case r == nil:
		return
	default:
		c.rejections.WithLabelValues(known(string(r.Reason), reasons)).Inc()
		t.countManagerError(&d.Plan.Trace)
		cause := d.Plan.Trace.Cause
		aligns = aligns && cause != rejection.ResourcesOff && cause != rejection.ContainersAboveBound
	}
	if aligns {
		c.admissionErrors.Inc()
	}
}

// countManagerError counts an error of the manager that rejected a pod.
func (t *Telemetry) countManagerError(trace *node.Trace) {
	c, policy, source := &t.counters, &t.config.Policy, sourceOf(&trace.Demand)
	switch trace.Stage {
	case node.StageTopology:
		if policy.Topology == node.TopologySingleNUMANode {
			c.unaligned.WithLabelValues(t.scope(), boundaryNUMA).Inc()
		}
	case node.StageCPU:
		c.cpu.errors.Inc()
		c.allocErrors.WithLabelValues(resourceCPU, source).Inc()
		if policy.CPU.FullPCPUsOnly && source == sourceNode {
			c.unaligned.WithLabelValues(scopeContainer, boundaryPhysical).Inc()
		}
	case node.StageMemory:
		c.memory.errors.Inc()
		c.allocErrors.WithLabelValues(resourceMemory, source).Inc()
	case node.StageBegin, node.StageDevices, node.StageEnd:
	}
}

// countAlignment counts alignments (R-MET-10, R-MET-11, R-MET-30).
func (t *Telemetry) countAlignment(d engine.Decision) {
	policy, demand, grant := &t.config.Policy, &d.Plan.Trace.Demand, d.Plan.Grant
	aligned := func(scope, boundary string, n int) {
		if n > 0 {
			t.counters.aligned.WithLabelValues(scope, boundary).Add(float64(n))
		}
	}
	if policy.Topology == node.TopologySingleNUMANode {
		units := 1
		if policy.Scope == node.ContainerScope {
			units = len(demand.Containers)
		}
		aligned(t.scope(), boundaryNUMA, units)
	}
	if demand.Path == node.AsPool {
		aligned(scopeContainer, boundaryUncore, countOneUncore(d, grant.Pool))
		return
	}
	for i, c := range grant.Containers {
		if demand.Containers[i].CPUs == 0 || c.CPUs.IsEmpty() {
			continue
		}
		if policy.CPU.FullPCPUsOnly {
			aligned(scopeContainer, boundaryPhysical, 1)
		}
		aligned(scopeContainer, boundaryUncore, countOneUncore(d, c.CPUs))
	}
}

// countOneUncore returns 1 if cpus were assigned now and share one uncore cache, and 0 otherwise
// (R-CPU-65).
func countOneUncore(d engine.Decision, cpus cpuset.Set) int {
	if d.Plan.Known || cpus.IsEmpty() {
		return 0
	}
	m := d.Base.Machine()
	first, _ := m.CPU(cpus.Lowest())
	for id := range cpus.All() {
		if at, _ := m.CPU(id); at.Uncore != first.Uncore {
			return 0
		}
	}
	return 1
}

// countAssignments counts the assignments of containers (R-MET-10, R-MET-11, R-MET-12, R-MET-20,
// R-MET-21).
func (t *Telemetry) countAssignments(demand *node.Demand) {
	source, exclusive := sourceOf(demand), nodeExclusive
	if source == sourcePod {
		exclusive = podExclusive
	}
	c := &t.counters
	count := func(resource string, own, pool bool) {
		if own {
			c.allocations.WithLabelValues(resource, source).Inc()
			c.assignments.WithLabelValues(resource, exclusive).Inc()
		} else if pool {
			c.assignments.WithLabelValues(resource, podShared).Inc()
		}
	}
	pools := demand.Path == node.AsPool
	for i := range demand.Containers {
		asks := &demand.Containers[i]
		count(resourceCPU, asks.CPUs > 0, pools && demand.Together.CPUs > 0)
		count(resourceMemory, len(asks.Memory) > 0, pools && len(demand.Together.Memory) > 0)
	}
}

// whys are the causes for which a container of a Guaranteed pod has no CPUs of its own. They mean
// the same as the values of request.Sharing. "estimated" is for a container that represents its
// whole pod, and "fractional_pod_cpu" for a pod-level request that is not a whole number.
var whys = []string{"not_equivalent", "fractional_cpu", "no_cpu_request", "gate_off", "fractional_pod_cpu", "estimated", other}

func whyShared(p *node.Plan, i int) string {
	sharing := p.Trace.Demand.Containers[i].Sharing
	switch {
	case p.Trace.Demand.FractionalCPUs && sharing != request.Estimated:
		return "fractional_pod_cpu"
	case p.Pod.Kind == request.Unmanaged:
		return "gate_off"
	}
	why := [...]string{
		request.NotEquivalent: "not_equivalent", request.FractionalCPU: "fractional_cpu", request.NoCPURequest: "no_cpu_request",
		request.GateOff: "gate_off", request.Estimated: "estimated",
	}[sharing]
	if why == "" {
		return other
	}
	return why
}
