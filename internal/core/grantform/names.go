package grantform

import (
	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/form"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// The names of values in files.
var qosNames = form.Names[request.QoS]{
	{request.BestEffort, "BestEffort"}, {request.Burstable, "Burstable"}, {request.Guaranteed, "Guaranteed"},
}

var kindNames = form.Names[request.Kind]{
	{request.Plain, "plain"}, {request.PodLevel, "pod-level"}, {request.Unmanaged, "unmanaged"},
}

var containerTypeNames = form.Names[request.ContainerType]{
	{request.Init, "init"}, {request.Sidecar, "sidecar"}, {request.App, "app"},
}

// sharingNames has an empty name for NotShared, which is omitted.
var sharingNames = form.Names[request.Sharing]{
	{request.NotShared, ""},
	{request.QoSNotGuaranteed, "qos"},
	{request.NotEquivalent, "not-equivalent"},
	{request.FractionalCPU, "fractional-cpu"},
	{request.NoCPURequest, "no-cpu-request"},
	{request.GateOff, "gate-off"},
	{request.Estimated, "estimated"},
}

// consentNames has an empty name for NoMoves, which is omitted.
var consentNames = form.Names[request.Consent]{
	{request.NoMoves, ""}, {request.NeverMoves, "none"}, {request.MoveCPUs, "within-numa"}, {request.MoveMemory, "anywhere"},
}

var topologyNames = form.Names[node.TopologyPolicy]{
	{node.TopologyNone, "none"},
	{node.TopologyBestEffort, "best-effort"},
	{node.TopologyRestricted, "restricted"},
	{node.TopologySingleNUMANode, "single-numa-node"},
}

var scopeNames = form.Names[node.Scope]{{node.ContainerScope, "container"}, {node.PodScope, "pod"}}

var (
	cpuPolicyNames    = form.Names[bool]{{false, "none"}, {true, "static"}}
	memoryPolicyNames = form.Names[bool]{{false, "None"}, {true, "Static"}}
)

// The boolean fields of a policy. A file lists the names of those that are on.
var topologyOptions = form.Switches[node.Policy]{
	{"prefer-closest-numa-nodes", func(p *node.Policy) *bool { return &p.PreferClosest }},
}

var cpuOptions = form.Switches[node.Policy]{
	{"align-by-socket", func(p *node.Policy) *bool { return &p.CPU.AlignBySocket }},
	{"cache-allocation", func(p *node.Policy) *bool { return &p.CPU.DividesCaches }},
	{"distribute-cpus-across-cores", func(p *node.Policy) *bool { return &p.CPU.DistributeAcrossCores }},
	{"distribute-cpus-across-numa", func(p *node.Policy) *bool { return &p.CPU.DistributeAcrossNUMA }},
	{"full-pcpus-only", func(p *node.Policy) *bool { return &p.CPU.FullPCPUsOnly }},
	{"prefer-align-cpus-by-uncorecache", func(p *node.Policy) *bool { return &p.CPU.PreferUncore }},
	{"strict-cpu-reservation", func(p *node.Policy) *bool { return &p.CPU.StrictReservation }},
}

// isolatedNames has an empty name for a policy without the option isolated-cpus, which is omitted.
var isolatedNames = form.Names[cpu.Isolated]{
	{cpu.IsolatedAlike, ""}, {cpu.IsolatedFirst, "prefer"}, {cpu.IsolatedOnly, "only"},
}

var featureGates = form.Switches[node.Policy]{
	{"DisableCPUQuotaWithExclusiveCPUs", func(p *node.Policy) *bool { return &p.LiftQuota }},
	{"PodLevelResourceManagers", func(p *node.Policy) *bool { return &p.PodLevelManagers }},
	{"PodLevelResources", func(p *node.Policy) *bool { return &p.PodLevelResources }},
}
