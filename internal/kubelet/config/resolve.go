package config

import (
	"cmp"
	"fmt"

	"k8s.io/kubelet/config/v1beta1"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
)

// Warning is about a setting that is legal but does not do what one would expect.
type Warning struct {
	// Field is the path of the field, as in Problem.
	Field string
	Why   string
	// File is as in Problem.
	File string
}

// String returns the warning in one line.
func (w Warning) String() string { return w.Field + ": " + w.Why }

// Resolve validates the configuration for a machine and returns the resulting policy. An error is a
// *RejectedError with all problems, in the order gates, topology, CPU, memory; the policy is then
// not usable. The result depends only on the configuration and the machine.
//
// Resolve does not repeat one rejection of the kubelet: a machine with more than 8 NUMA nodes needs
// no option. It honours max-allowable-numa-nodes if that is set (R-HINT-71).
func (c *Config) Resolve(m *machine.Machine) (node.Policy, error) {
	return c.ResolveOffline(m, cpuset.Set{})
}

// ResolveOffline is like Resolve for a machine with offline CPUs, which m does not have.
// reservedSystemCPUs may name these CPUs, and they stay reserved for when they come back. A kubelet
// does not start in this case (R-CPU-22), but an agent that did not start would leave its pods
// alone.
func (c *Config) ResolveOffline(m *machine.Machine, offline cpuset.Set) (node.Policy, error) {
	r := c.resolve(m, offline)
	if len(r.problems) > 0 {
		return node.Policy{}, &RejectedError{Name: cmp.Or(c.name, scenarioName), Problems: r.problems}
	}
	return r.policy, nil
}

// Warnings returns warnings about settings that have no effect on a machine, or a surprising one.
// The configuration should be one that Resolve accepts; for others the list may be incomplete.
func (c *Config) Warnings(m *machine.Machine) []Warning {
	return c.resolve(m, cpuset.Set{}).warnings
}

// NamesReserved reports whether the configuration names the reserved CPUs instead of only giving
// their number. Named CPUs are the same on every machine.
func (c *Config) NamesReserved() bool { return c.spec.ReservedSystemCPUs != "" }

// resolution is one run of Resolve: its inputs and its results so far.
type resolution struct {
	spec    *v1beta1.KubeletConfiguration
	machine *machine.Machine
	offline cpuset.Set // CPUs that the machine has but that are offline
	minor   int        // of the Kubernetes whose gates and options these are
	// ofKubelet is set for the configuration of a kubelet, which has no options of Paddock.
	ofKubelet bool
	gates     Gates
	// running, effective and origins are those of Config.
	running   map[string]bool
	effective bool
	origins   origins

	policy   node.Policy
	problems []Problem
	warnings []Warning
}

func (c *Config) resolve(m *machine.Machine, offline cpuset.Set) *resolution {
	r := &resolution{
		spec: &c.spec, machine: m, offline: offline, minor: cmp.Or(c.minor, ownMinor), ofKubelet: c.minor != 0,
		running: c.running, effective: c.effective, origins: c.origins,
	}
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
	// The gate for pools is on. Check whether any pod can get a pool (R-DEM-100).
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

func (r *resolution) reject(p Problem) {
	p.File = r.origins.of(p.Field)
	r.problems = append(r.problems, p)
}

func (r *resolution) warn(field, format string, args ...any) {
	r.warnings = append(r.warnings, Warning{field, fmt.Sprintf(format, args...), r.origins.of(field)})
}
