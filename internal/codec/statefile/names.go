package statefile

import (
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// names maps the values of a type to their names in files. These names are part of the form: unlike
// names in messages, they must not change.
type names[T comparable] []struct {
	value T
	name  string
}

func (n names[T]) nameOf(value T) (string, bool) {
	for _, x := range n {
		if x.value == value {
			return x.name, true
		}
	}
	return "", false
}

var qosNames = names[request.QoS]{
	{request.BestEffort, "BestEffort"}, {request.Burstable, "Burstable"}, {request.Guaranteed, "Guaranteed"},
}

var kindNames = names[request.Kind]{
	{request.Plain, "plain"}, {request.PodLevel, "pod-level"}, {request.Unmanaged, "unmanaged"},
}

var containerTypeNames = names[request.ContainerType]{
	{request.Init, "init"}, {request.Sidecar, "sidecar"}, {request.App, "app"},
}

// sharingNames has an empty name for NotShared, which is omitted.
var sharingNames = names[request.Sharing]{
	{request.NotShared, ""},
	{request.QoSNotGuaranteed, "qos"},
	{request.NotEquivalent, "not-equivalent"},
	{request.FractionalCPU, "fractional-cpu"},
	{request.NoCPURequest, "no-cpu-request"},
	{request.GateOff, "gate-off"},
	{request.Estimated, "estimated"},
}

// consentNames has an empty name for NoMoves, which is omitted.
var consentNames = names[request.Consent]{
	{request.NoMoves, ""}, {request.NeverMoves, "none"}, {request.MoveCPUs, "within-numa"}, {request.MoveMemory, "anywhere"},
}

var topologyNames = names[node.TopologyPolicy]{
	{node.TopologyNone, "none"},
	{node.TopologyBestEffort, "best-effort"},
	{node.TopologyRestricted, "restricted"},
	{node.TopologySingleNUMANode, "single-numa-node"},
}

var scopeNames = names[node.Scope]{{node.ContainerScope, "container"}, {node.PodScope, "pod"}}

var (
	cpuPolicyNames    = names[bool]{{false, "none"}, {true, "static"}}
	memoryPolicyNames = names[bool]{{false, "None"}, {true, "Static"}}
)

// switches are the boolean fields of a policy. A file lists the names of those that are on.
type switches []struct {
	name string
	of   func(p *node.Policy) *bool
}

var topologyOptions = switches{
	{"prefer-closest-numa-nodes", func(p *node.Policy) *bool { return &p.PreferClosest }},
}

var cpuOptions = switches{
	{"align-by-socket", func(p *node.Policy) *bool { return &p.CPU.AlignBySocket }},
	{"distribute-cpus-across-cores", func(p *node.Policy) *bool { return &p.CPU.DistributeAcrossCores }},
	{"distribute-cpus-across-numa", func(p *node.Policy) *bool { return &p.CPU.DistributeAcrossNUMA }},
	{"full-pcpus-only", func(p *node.Policy) *bool { return &p.CPU.FullPCPUsOnly }},
	{"prefer-align-cpus-by-uncorecache", func(p *node.Policy) *bool { return &p.CPU.PreferUncore }},
	{"strict-cpu-reservation", func(p *node.Policy) *bool { return &p.CPU.StrictReservation }},
}

var featureGates = switches{
	{"DisableCPUQuotaWithExclusiveCPUs", func(p *node.Policy) *bool { return &p.LiftQuota }},
	{"PodLevelResourceManagers", func(p *node.Policy) *bool { return &p.PodLevelManagers }},
	{"PodLevelResources", func(p *node.Policy) *bool { return &p.PodLevelResources }},
}

// on returns the names of the switches that are on, in the order of the list.
func (s switches) on(p node.Policy) []string {
	var list []string
	for _, x := range s {
		if *x.of(&p) {
			list = append(list, x.name)
		}
	}
	return list
}
