package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
)

// optionIsolated is an option of the static CPU policy that only Paddock has. It determines how the
// CPUs of the boot parameter isolcpus are used (R-CPU-130). Its values are those of cpu.Isolated.
const optionIsolated = "isolated-cpus"

// unknownOption returns the kubelet's message about an option that it does not have.
func unknownOption(name string) string {
	return fmt.Sprintf("new static policy error: unknown CPU Manager Policy option: %q", name)
}

// isolatedValue parses the value of the option. The second result is false for an invalid value.
func isolatedValue(text string) (cpu.Isolated, bool) {
	for _, v := range []cpu.Isolated{cpu.IsolatedFirst, cpu.IsolatedOnly} {
		if text == v.String() {
			return v, true
		}
	}
	return cpu.IsolatedAlike, false
}

// isolatedOption resolves the option, before the reserved CPUs are chosen.
func (r *resolution) isolatedOption(text string) {
	field := cpuField(optionIsolated)
	value, ok := isolatedValue(text)
	if !ok {
		r.reject(Problem{
			Field: field, Why: fmt.Sprintf("%q is unknown", text),
			Fix:     fmt.Sprintf("use %q for exclusive CPUs that are all isolated, or %q for isolated CPUs first", cpu.IsolatedOnly, cpu.IsolatedFirst),
			Kubelet: unknownOption(optionIsolated),
		})
		return
	}
	r.policy.CPU.Isolated = value
	switch isolated := r.isolatedCPUs(); {
	case !isolated.IsEmpty():
	case value == cpu.IsolatedOnly:
		r.reject(Problem{
			Field: field, Why: "the machine has no isolated CPU, so no container could have CPUs of its own",
			Fix: "boot it with isolcpus=, or remove the option; if isolcpus is set there, the machine was recorded by a version of Paddock " +
				"that does not read it: record it again with paddock topology -o json",
			Kubelet: unknownOption(optionIsolated),
		})
	default:
		r.warn(field, "it has no effect: the machine has no isolated CPU (boot parameter isolcpus)")
	}
}

// isolatedCPUs returns the isolated CPUs that the machine has, online or not.
func (r *resolution) isolatedCPUs() cpuset.Set {
	return r.machine.Isolation().Isolated.Intersection(r.machine.AllCPUs().Union(r.offline))
}

// checkIsolated compares the isolated CPUs with the reserved ones. It warns if the option, or its
// absence, has an unexpected effect (R-CPU-131).
func (r *resolution) checkIsolated() {
	isolated := r.isolatedCPUs()
	_, given := r.spec.CPUManagerPolicyOptions[optionIsolated]
	if isolated.IsEmpty() || given && r.policy.CPU.Isolated == cpu.IsolatedAlike { // Its value is wrong, and that is reported.
		return
	}
	reserved := r.policy.ReservedCPUs
	both := isolated.Intersection(reserved)
	if r.policy.CPU.Isolated == cpu.IsolatedAlike {
		if !both.IsEmpty() {
			r.warn("reservedSystemCPUs", "CPUs %s are isolated (boot parameter isolcpus): the kernel does not balance the load of the system's processes there", both)
		}
		r.warnSharedIsolated(isolated.Difference(both))
		return
	}
	others := r.machine.AllCPUs().Difference(isolated)
	switch {
	case !both.IsEmpty():
		r.reject(Problem{
			Field:   "reservedSystemCPUs",
			Why:     fmt.Sprintf("CPUs %s are isolated, and %s gives isolated CPUs to containers", both, optionIsolated),
			Fix:     fmt.Sprintf("reserve CPUs that are not isolated, which are %s, or remove %s from isolcpus", orNone(others), both),
			Kubelet: unknownOption(optionIsolated),
		})
	case r.policy.CPU.StrictReservation && reserved.Contains(others):
		r.reject(Problem{
			Field:   cpuField(optionStrict),
			Why:     fmt.Sprintf("all CPUs that are not reserved are isolated (%s), and containers that share CPUs would have none", isolated),
			Fix:     "remove the option, so that they run on the reserved CPUs, or isolate fewer CPUs",
			Kubelet: unknownOption(optionIsolated),
		})
	}
	if split := cpu.PhysicalOf(r.machine, isolated).Difference(isolated); !split.IsEmpty() {
		r.warn(cpuField(optionIsolated), "CPUs %s are not isolated and share cores with isolated CPUs: what runs there slows those down; add them to isolcpus", split)
	}
}

// warnSharedIsolated warns that containers without CPUs of their own run on isolated CPUs.
func (r *resolution) warnSharedIsolated(isolated cpuset.Set) {
	if isolated.IsEmpty() {
		return
	}
	field, help := "cpuManagerPolicy", "keep them out with cpuManagerPolicy static and "
	if r.policy.StaticCPU {
		field, help = "cpuManagerPolicyOptions", "keep them out with "
	}
	r.warn(field, "CPUs %s are isolated (boot parameter isolcpus), and containers that share CPUs run there too: the kernel does not balance load there, so their "+
		"threads stay on the CPU on which they were started; %s%s: %s or %s, which Paddock has and no kubelet, or boot without isolcpus", isolated, help,
		optionIsolated, cpu.IsolatedOnly, cpu.IsolatedFirst)
}

// withoutIsolated returns a warning for each NUMA node on which no container gets exclusive CPUs,
// because none is isolated.
func (r *resolution) withoutIsolated() {
	isolated := r.isolatedCPUs()
	if r.policy.CPU.Isolated != cpu.IsolatedOnly || isolated.IsEmpty() {
		return
	}
	for _, n := range r.machine.CPUNodes() {
		if !n.CPUs.Intersects(isolated) {
			r.warn(cpuField(optionIsolated), "NUMA node %d has no isolated CPU (it has %s): no container gets CPUs of its own beside its memory", n.ID, n.CPUs)
		}
	}
}

func orNone(cpus cpuset.Set) string {
	if cpus.IsEmpty() {
		return "none"
	}
	return cpus.String()
}

// ownOptions returns the problems that a kubelet has with the options that only Paddock has. It
// omits options with which the resolution has a problem already.
func (c *Config) ownOptions(r *resolution) []Problem {
	var problems []Problem
	for name, on := range map[string]bool{optionIsolated: r.policy.CPU.Isolated != cpu.IsolatedAlike, optionCache: r.policy.CPU.DividesCaches} {
		known := func(p Problem) bool { return p.Kubelet == unknownOption(name) }
		if !on || slices.ContainsFunc(r.problems, known) {
			continue
		}
		problems = append(problems, Problem{
			Field:   cpuField(name),
			Why:     "the option is Paddock's own, and no kubelet starts with it",
			Fix:     "keep it in the file that Paddock reads, and set cpuManagerPolicy: none in the kubelet's own",
			Kubelet: unknownOption(name),
			File:    c.origins.of(cpuField(name)),
		})
	}
	slices.SortFunc(problems, func(a, b Problem) int { return strings.Compare(a.Field, b.Field) })
	return problems
}
