package kubeletcfg

import (
	"fmt"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
)

// KubeletRefuses lists what stops a kubelet and not Paddock: a machine with more than 8 NUMA nodes
// without the option that allows them (R-HINT-71).
func (c *Config) KubeletRefuses(m *machine.Machine) []Problem {
	r := c.resolve(m, cpuset.Set{})
	nodes := m.NodeMask().Len()
	if _, given := c.spec.TopologyManagerPolicyOptions[optionMaxNodes]; given || r.policy.Topology == node.TopologyNone || nodes <= leastMaxNodes {
		return nil
	}
	return []Problem{{
		Field:   "topologyManagerPolicyOptions[" + optionMaxNodes + "]",
		Why:     fmt.Sprintf("the machine has %d NUMA nodes, and the kubelet takes more than %d only if this option says so", nodes, leastMaxNodes),
		Fix:     fmt.Sprintf("set it to %q, or set topologyManagerPolicy to none; with that many, admissions of the kubelet are slow", fmt.Sprint(nodes)),
		Kubelet: fmt.Sprintf("unsupported on machines with more than %d NUMA Nodes", leastMaxNodes),
	}}
}
