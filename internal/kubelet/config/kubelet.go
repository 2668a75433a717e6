package config

import (
	"fmt"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
)

// KubeletRejects lists the problems that prevent a kubelet from starting, but not Paddock: the CPU
// policy dynamic, the option isolated-cpus, and a machine with more than 8 NUMA nodes without the
// option that allows them (R-HINT-71).
func (c *Config) KubeletRejects(m *machine.Machine) []Problem {
	r := c.resolve(m, cpuset.Set{})
	var problems []Problem
	if c.spec.CPUManagerPolicy == policyDynamic {
		problems = append(problems, Problem{
			Field:   "cpuManagerPolicy",
			Why:     "the policy dynamic is Paddock's own, and no kubelet starts with it",
			Fix:     "keep it in the file that Paddock reads, and set cpuManagerPolicy: none in the kubelet's own",
			Kubelet: fmt.Sprintf("unknown policy: %q", policyDynamic),
			File:    c.origins.of("cpuManagerPolicy"),
		})
	}
	problems = append(problems, c.ownOptions(r)...)
	nodes := m.NodeMask().Len()
	if _, given := c.spec.TopologyManagerPolicyOptions[optionMaxNodes]; given || r.policy.Topology == node.TopologyNone || nodes <= leastMaxNodes {
		return problems
	}
	return append(problems, Problem{
		Field:   "topologyManagerPolicyOptions[" + optionMaxNodes + "]",
		Why:     fmt.Sprintf("the machine has %d NUMA nodes, and the kubelet takes more than %d only with this option", nodes, leastMaxNodes),
		Fix:     fmt.Sprintf("set it to %q, or set topologyManagerPolicy to none; with that many, admissions of the kubelet are slow", fmt.Sprint(nodes)),
		Kubelet: fmt.Sprintf("unsupported on machines with more than %d NUMA Nodes", leastMaxNodes),
	})
}
