package explain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/node"
)

// knob is a setting that a search may change.
type knob struct {
	field string
	// values are the values to try, in this order.
	values []string
	// gate is the feature gate that the setting also requires.
	gate string
	get  func(node.Policy) string
	set  func(*node.Policy, string)
}

// knobs returns the settings of a node in the order in which they are tried. Those that give up
// least come first.
func knobs(of node.Policy) []knob {
	flag := func(field string, to bool, at func(*node.Policy) *bool) knob {
		return knob{
			field: field, values: []string{strconv.FormatBool(to)},
			get: func(p node.Policy) string { return strconv.FormatBool(*at(&p)) },
			set: func(p *node.Policy, v string) { *at(p) = v == "true" },
		}
	}
	sockets := flag("cpuManagerPolicyOptions[align-by-socket]", true, func(p *node.Policy) *bool { return &p.CPU.AlignBySocket })
	sockets.gate = "CPUManagerPolicyAlphaOptions"
	topologies := []node.TopologyPolicy{node.TopologySingleNUMANode, node.TopologyRestricted, node.TopologyBestEffort, node.TopologyNone}
	topology := knob{
		field: "topologyManagerPolicy",
		get:   func(p node.Policy) string { return p.Topology.String() },
		set: func(p *node.Policy, v string) {
			i := slices.IndexFunc(topologies, func(t node.TopologyPolicy) bool { return t.String() == v })
			p.Topology = topologies[i]
		},
	}
	for _, t := range topologies {
		topology.values = append(topology.values, t.String())
	}
	isolated := knob{
		field: "cpuManagerPolicyOptions[isolated-cpus]",
		get:   func(p node.Policy) string { return p.CPU.Isolated.String() },
		set:   func(p *node.Policy, _ string) { p.CPU.Isolated = cpu.IsolatedFirst },
	}
	if of.CPU.Isolated == cpu.IsolatedOnly {
		isolated.values = []string{cpu.IsolatedFirst.String()}
	}
	return []knob{
		isolated,
		flag("featureGates[PodLevelResources]", true, func(p *node.Policy) *bool { return &p.PodLevelResources }),
		sockets,
		flag("cpuManagerPolicyOptions[full-pcpus-only]", false, func(p *node.Policy) *bool { return &p.CPU.FullPCPUsOnly }),
		flag("cpuManagerPolicyOptions[distribute-cpus-across-numa]", false, func(p *node.Policy) *bool { return &p.CPU.DistributeAcrossNUMA }),
		{
			field: "topologyManagerScope", values: []string{node.PodScope.String(), node.ContainerScope.String()},
			get: func(p node.Policy) string { return p.Scope.String() },
			set: func(p *node.Policy, v string) {
				p.Scope = node.ContainerScope
				if v == node.PodScope.String() {
					p.Scope = node.PodScope
				}
			},
		},
		topology,
		{
			field: "memoryManagerPolicy", values: []string{"None"},
			get: func(p node.Policy) string {
				if p.StaticMemory {
					return "Static"
				}
				return "None"
			},
			set: func(p *node.Policy, _ string) { p.StaticMemory, p.ReservedMemory = false, nil },
		},
		flag("cpuManagerPolicyOptions[cache-allocation]", false, func(p *node.Policy) *bool { return &p.CPU.DividesCaches }),
	}
}

// settings changes one setting at a time, and two if no single one helps. Of the values of a
// setting, it proposes the first that admits the pod.
func (x *search) settings() ([]Proposal, string) {
	x.what, x.limit = "other policies, scopes and options", x.allowed(maxSettingPlans)
	if !x.state.Starts() { // A kubelet reads its configuration only when it starts.
		return nil, "not tried, because the kubelet does not start on its files until they are repaired"
	}
	all := knobs(x.state.Policy())
	var found []Proposal
	for _, k := range all {
		if p, ok := x.turn(k); ok {
			found = append(found, p)
		}
	}
	if len(found) > 0 {
		return found, fmt.Sprintf("%d would admit it", len(found))
	}
	for i := range all {
		for k := range i {
			if p, ok := x.turn(all[k], all[i]); ok {
				return []Proposal{p}, "only two together would admit it"
			}
		}
	}
	if x.cut {
		return nil, "none found; " + notFurther
	}
	return nil, "none admits it, nor do two together"
}

const maxSettingPlans = 60

// turn tries all combinations of values of the given settings.
func (x *search) turn(turned ...knob) (Proposal, bool) {
	var try func(policy node.Policy, done []Setting, rest []knob) (Proposal, bool)
	try = func(policy node.Policy, done []Setting, rest []knob) (Proposal, bool) {
		if len(rest) == 0 {
			return x.restarted(policy, done)
		}
		k := rest[0]
		for _, value := range k.values {
			from := k.get(policy)
			if value == from {
				continue
			}
			next := policy
			k.set(&next, value)
			if p, ok := try(next, append(slices.Clone(done), Setting{k.field, from, value, k.gate}), rest[1:]); ok {
				return p, true
			}
		}
		return Proposal{}, false
	}
	return try(x.state.Policy(), nil, turned)
}

func (x *search) restarted(policy node.Policy, done []Setting) (Proposal, bool) {
	if len(policy.Conflicts(x.state.Machine())) > 0 || policy.Topology == node.TopologyNone && x.state.Policy().Scope != policy.Scope {
		return Proposal{}, false
	}
	s, err := under(x.state, policy)
	if err != nil {
		return Proposal{}, false
	}
	p := x.plan(s, x.pod)
	if p == nil {
		return Proposal{}, false
	}
	texts := make([]string, len(done))
	for i, d := range done {
		texts[i] = fmt.Sprintf("%s to %s (now %s)", d.Field, d.To, d.From)
		if d.Gate != "" {
			texts[i] += " with feature gate " + d.Gate
		}
	}
	return Proposal{Kind: Settings, Settings: done, Text: "set " + strings.Join(texts, " and "), Outcome: outcome(s, p)}, true
}
