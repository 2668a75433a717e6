package config

import (
	"cmp"
	"fmt"

	"k8s.io/kubelet/config/v1beta1"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
)

// Warning is a setting that is legal and does not do what its presence suggests.
type Warning struct {
	// Field is the path of the field, as in Problem.
	Field string
	Why   string
}

// String is one line for people.
func (w Warning) String() string { return w.Field + ": " + w.Why }

// Resolve judges the configuration for a machine and returns the policy that it means
// there. An error is a *RejectedError with everything that is wrong, in the order gates,
// topology, CPU, memory; the policy is then not usable. The same configuration and
// machine always give the same answer.
//
// One rejection of the kubelet is not repeated: a machine with more than 8 NUMA nodes
// needs no option. A max-allowable-numa-nodes that is given is honoured (R-HINT-71).
func (c *Config) Resolve(m *machine.Machine) (node.Policy, error) {
	return c.ResolveOffline(m, cpuset.Set{})
}

// ResolveOffline is Resolve for a machine of which some CPUs are offline, so that m does not have
// them: reservedSystemCPUs may name them, and they stay reserved for when they come back. A kubelet
// does not start then (R-CPU-22); an agent that did not would leave its pods alone.
func (c *Config) ResolveOffline(m *machine.Machine, offline cpuset.Set) (node.Policy, error) {
	r := c.resolve(m, offline)
	if len(r.problems) > 0 {
		return node.Policy{}, &RejectedError{Name: cmp.Or(c.name, scenarioName), Problems: r.problems}
	}
	return r.policy, nil
}

// Warnings lists the settings that have no effect on a machine, or one that surprises.
// It is for configurations that Resolve accepts; of others it lists what is known.
func (c *Config) Warnings(m *machine.Machine) []Warning {
	return c.resolve(m, cpuset.Set{}).warnings
}

// NamesReserved reports whether the configuration names the reserved CPUs, and not only how many
// they are. Named CPUs are the same on every machine.
func (c *Config) NamesReserved() bool { return c.spec.ReservedSystemCPUs != "" }

// resolution is one run of Resolve: what is asked, and what has come out so far.
type resolution struct {
	spec    *v1beta1.KubeletConfiguration
	machine *machine.Machine
	offline cpuset.Set // CPUs that the machine has and that are offline
	gates   Gates

	policy   node.Policy
	problems []Problem
	warnings []Warning
}

func (c *Config) resolve(m *machine.Machine, offline cpuset.Set) *resolution {
	r := &resolution{spec: &c.spec, machine: m, offline: offline}
	r.resolveGates()
	r.policy.PodLevelResources = r.gates.PodLevelResources
	r.policy.PodLevelManagers = r.gates.PodLevelManagers
	r.policy.LiftQuota = r.gates.LiftQuota

	r.topology()
	reserved := r.reservation()
	r.cpu(reserved)
	r.memory(reserved)
	if !r.gates.PodLevelManagers {
		return r
	}
	// The gate for pools is on: can any pod get one (R-DEM-100)?
	field := gateField(gatePodLevelManagers)
	switch {
	case !r.policy.StaticCPU && !r.policy.StaticMemory:
		r.warn(field, "the gate has no effect while cpuManagerPolicy and memoryManagerPolicy are none")
	case r.policy.Topology == node.TopologyNone:
		r.warn(field, "pods get no pool of their own under topologyManagerPolicy none")
	case r.policy.Scope != node.PodScope:
		r.warn(field, "pods get no pool of their own under topologyManagerScope container: each container is aligned by itself")
	}
	return r
}

func (r *resolution) reject(p Problem) { r.problems = append(r.problems, p) }

func (r *resolution) warn(field, format string, args ...any) {
	r.warnings = append(r.warnings, Warning{field, fmt.Sprintf(format, args...)})
}
