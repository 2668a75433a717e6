package config

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
)

// The options of the static CPU policy (R-CPU-10).
const (
	optionFullPCPUs    = "full-pcpus-only"
	optionStrict       = "strict-cpu-reservation"
	optionUncore       = "prefer-align-cpus-by-uncorecache"
	optionAcrossNUMA   = "distribute-cpus-across-numa"
	optionAcrossCores  = "distribute-cpus-across-cores"
	optionAlignSockets = "align-by-socket"
)

// cpuOption describes one option: the gate that its group needs, which is empty for the stable
// group, and the field that receives its value.
type cpuOption struct {
	stage string
	gate  string
	value func(*cpu.Options) *bool
}

func (r *resolution) knownCPUOptions() map[string]cpuOption {
	options := map[string]cpuOption{
		optionFullPCPUs:    {value: func(o *cpu.Options) *bool { return &o.FullPCPUsOnly }},
		optionStrict:       {value: func(o *cpu.Options) *bool { return &o.StrictReservation }},
		optionUncore:       {value: func(o *cpu.Options) *bool { return &o.PreferUncore }},
		optionAcrossNUMA:   {"Beta", gateCPUBeta, func(o *cpu.Options) *bool { return &o.DistributeAcrossNUMA }},
		optionAcrossCores:  {"Alpha", gateCPUAlpha, func(o *cpu.Options) *bool { return &o.DistributeAcrossCores }},
		optionAlignSockets: {"Alpha", gateCPUAlpha, func(o *cpu.Options) *bool { return &o.AlignBySocket }},
	}
	stage := func(name, stage, gate string) {
		option := options[name]
		option.stage, option.gate = stage, gate
		options[name] = option
	}
	if r.minor < 35 {
		stage(optionStrict, "Beta", gateCPUBeta)
	}
	switch {
	case r.minor < 34:
		stage(optionUncore, "Alpha", gateCPUAlpha)
	case r.minor < 36:
		stage(optionUncore, "Beta", gateCPUBeta)
	}
	return options
}

// cpu resolves the CPU Manager's policy, its options and the reserved CPUs (R-CPU-10…24).
func (r *resolution) cpu(reserved *reservation) {
	set := r.reservedSet()
	switch given := r.spec.CPUManagerPolicy; given {
	case "", "none":
		if options := r.spec.CPUManagerPolicyOptions; len(options) > 0 {
			r.reject(Problem{
				Field:   "cpuManagerPolicyOptions",
				Why:     "cpuManagerPolicy none takes no options",
				Fix:     "set cpuManagerPolicy to static, or remove the options",
				Kubelet: fmt.Sprintf("new none policy error: None policy: received unsupported options=%v", options),
			})
		}
		r.checkIsolated()
		return
	case "static":
		r.policy.StaticCPU = true
	case policyDynamic:
		r.policy.StaticCPU = true
		r.moves()
	default:
		r.reject(Problem{
			Field:   "cpuManagerPolicy",
			Why:     fmt.Sprintf("there is no policy %q", given),
			Fix:     "use none or static",
			Kubelet: fmt.Sprintf("unknown policy: %q", given),
		})
		return
	}
	before := len(r.problems)
	r.cpuOptions()
	if r.policy.CPU.AlignBySocket && r.policy.Topology == node.TopologyNone {
		r.warn(cpuField(optionAlignSockets), "it has no effect under topologyManagerPolicy none")
	}
	for _, c := range r.policy.Conflicts(r.machine) {
		r.reject(r.problemOf(c))
	}
	optionsValid := len(r.problems) == before
	if r.spec.ReservedSystemCPUs != "" {
		r.policy.ReservedCPUs = set
	} else if reserved.known {
		r.reserveCPUs(reserved.total("cpu"), optionsValid)
	}
	r.warnReserved()
	r.checkIsolated()
	r.withoutIsolated()
}

func (r *resolution) cpuOptions() {
	known := r.knownCPUOptions()
	on := map[string]bool{"": true, gateCPUAlpha: r.gates.CPUAlphaOptions, gateCPUBeta: r.gates.CPUBetaOptions}
	for _, name := range slices.Sorted(maps.Keys(r.spec.CPUManagerPolicyOptions)) {
		field := cpuField(name)
		option, ok := known[name]
		_, moves := moveOptions()[name]
		switch {
		case moves && r.policy.Moves.Pods > 0:
			continue
		case name == optionIsolated && !r.ofKubelet:
			r.isolatedOption(r.spec.CPUManagerPolicyOptions[name])
			continue
		case name == optionCache && !r.ofKubelet:
			r.cacheOption(r.spec.CPUManagerPolicyOptions[name])
			continue
		case !ok:
			names := slices.Collect(maps.Keys(known))
			if !r.ofKubelet {
				names = append(names, optionIsolated, optionCache)
			}
			why, fix := "the static CPU policy has no such option", didYouMean(name, names)
			if name == optionIsolated || name == optionCache {
				why, fix = "no kubelet has this option of Paddock", "remove it"
			}
			if moves {
				why, fix = why+": it is one of the policy dynamic", "set cpuManagerPolicy to dynamic, or remove the option"
			}
			r.reject(Problem{
				Field:   field,
				Why:     why,
				Fix:     fix,
				Kubelet: unknownOption(name),
			})
			continue
		}
		if !on[option.gate] {
			r.reject(Problem{
				Field: field,
				Why:   fmt.Sprintf("the option needs the feature gate %s, even to be set to false", option.gate),
				Fix:   fmt.Sprintf("set %s to true, or remove the option", gateField(option.gate)),
				Kubelet: fmt.Sprintf("new static policy error: CPU Manager Policy %s-level Options not enabled, but option %q provided",
					option.stage, name),
			})
			continue
		}
		value, problem := parseBool(field, name, r.spec.CPUManagerPolicyOptions[name])
		if problem != nil {
			problem.Kubelet = "new static policy error: " + problem.Kubelet
			r.reject(*problem)
			continue
		}
		*option.value(&r.policy.CPU) = value
	}
}

// problemOf returns the problem for a conflict of R-CPU-11 or R-CPU-12.
func (r *resolution) problemOf(c node.Conflict) Problem {
	one, other := optionUncore, optionAcrossCores
	switch c {
	case node.FullCoresAcrossCores:
		one = optionFullPCPUs
	case node.AcrossNUMAAcrossCores:
		one = optionAcrossNUMA
	case node.UncoreAcrossNUMA:
		other = optionAcrossNUMA
	case node.SocketsSingleNUMANode:
		return Problem{
			Field: cpuField(optionAlignSockets),
			Why:   "it widens an answer to a socket, which topologyManagerPolicy single-numa-node never allows",
			Fix:   "remove the option, or use topologyManagerPolicy restricted or best-effort",
			Kubelet: "new static policy error: Topolgy manager single-numa-node policy is incompatible with " +
				"CPUManager align-by-socket policy option",
		}
	case node.SocketsAboveNodes:
		return Problem{
			Field: cpuField(optionAlignSockets),
			Why:   fmt.Sprintf("the machine has %d sockets and only %d NUMA nodes with CPUs", r.machine.NumSockets(), len(r.machine.CPUNodes())),
			Fix:   "remove the option",
			Kubelet: "new static policy error: Align by socket is not compatible with hardware where " +
				"number of sockets are more than number of NUMA",
		}
	case node.UncoreAcrossCores, node.OptionsWithoutStatic: // The second is rejected earlier.
	}
	return Problem{
		Field:   cpuField(other),
		Why:     "it excludes " + one + ", which is set too",
		Fix:     "remove one of the two",
		Kubelet: fmt.Sprintf("new static policy error: static policy options %s and %s can not be used at the same time", one, other),
	}
}

// reservedSet parses reservedSystemCPUs. It validates the field whatever the policy is (R-CPU-22).
func (r *resolution) reservedSet() cpuset.Set {
	const field = "reservedSystemCPUs"
	given := r.spec.ReservedSystemCPUs
	if given == "" {
		return cpuset.Set{}
	}
	if r.spec.SystemReservedCgroup != "" || r.spec.KubeReservedCgroup != "" {
		r.reject(Problem{
			Field: field,
			Why:   "it cannot be combined with systemReservedCgroup or kubeReservedCgroup",
			Fix:   "remove it or the cgroups",
			Kubelet: "invalid configuration: can't use reservedSystemCPUs (--reserved-cpus) with " +
				"systemReservedCgroup (--system-reserved-cgroup) or kubeReservedCgroup (--kube-reserved-cgroup)",
		})
	}
	set, err := cpuset.Parse(given)
	if err != nil {
		r.reject(Problem{
			Field:   field,
			Why:     err.Error(),
			Fix:     `give CPUs as the kernel lists them, such as "0-3,8"`,
			Kubelet: fmt.Sprintf("invalid configuration: unable to parse reservedSystemCPUs (--reserved-cpus) %s", given),
		})
		return cpuset.Set{}
	}
	all := r.machine.AllCPUs()
	if missing := set.Difference(all).Difference(r.offline); !missing.IsEmpty() {
		r.reject(Problem{
			Field:   field,
			Why:     fmt.Sprintf("the machine has no CPU %s; it has %s", missing, all),
			Fix:     "reserve CPUs that are there",
			Kubelet: fmt.Sprintf("reserved-cpus: %s is not a subset of online-cpus: %s", given, all),
		})
	}
	if r.effective {
		return set // The kubelet itself enters the number of CPUs as systemReserved[cpu].
	}
	if r.spec.KubeReserved["cpu"] != "" {
		r.warn("kubeReserved[cpu]", "reservedSystemCPUs takes its place")
	}
	if r.spec.SystemReserved["cpu"] != "" {
		r.warn("systemReserved[cpu]", "reservedSystemCPUs takes its place")
	}
	return set
}

// reserveCPUs chooses the reserved CPUs if only their number is given (R-CPU-20…23).
func (r *resolution) reserveCPUs(total resource.Quantity, optionsValid bool) {
	if total.Sign() <= 0 {
		r.reject(Problem{
			Field: "reservedSystemCPUs",
			Why: "cpuManagerPolicy static needs CPUs for the system, and neither reservedSystemCPUs nor " +
				"kubeReserved.cpu nor systemReserved.cpu gives any",
			Fix:     `set reservedSystemCPUs (such as "0"), or kubeReserved.cpu above 0`,
			Kubelet: "[cpumanager] unable to determine reserved CPU resources for static policy",
		})
		return
	}
	const sentence = "new static policy error: [cpumanager] unable to reserve the required amount of CPUs (size of %s did not equal %s)"
	asked, have := total.DeepCopy(), r.machine.AllCPUs().Len()
	asked.RoundUp(0) // R-CPU-21
	if asked.CmpInt64(int64(have)) > 0 {
		r.reject(Problem{
			Field:   "kubeReserved[cpu]",
			Why:     fmt.Sprintf("kubeReserved and systemReserved ask for %s CPUs, the machine has %d", total.String(), have),
			Fix:     "reserve less",
			Kubelet: fmt.Sprintf(sentence, "", asked.String()),
		})
		return
	}
	if !optionsValid {
		return
	}
	if others := r.machine.AllCPUs().Difference(r.policy.CPU.IsolatedCPUs(r.machine)); asked.CmpInt64(int64(others.Len())) > 0 {
		r.reject(Problem{
			Field:   "kubeReserved[cpu]",
			Why:     fmt.Sprintf("kubeReserved and systemReserved ask for %s CPUs, and with %s they are CPUs that are not isolated, which are %s", total.String(), optionIsolated, orNone(others)),
			Fix:     "reserve less, or isolate fewer CPUs with isolcpus",
			Kubelet: unknownOption(optionIsolated),
		})
		return
	}
	n := asked.Value()
	set, err := cpu.Reserve(r.machine, r.policy.CPU, int(n))
	if err != nil {
		r.reject(Problem{
			Field:   "kubeReserved[cpu]",
			Why:     fmt.Sprintf("no %d CPUs could be chosen for the system: %v", n, err),
			Fix:     "name them with reservedSystemCPUs",
			Kubelet: fmt.Sprintf(sentence, set, asked.String()),
		})
		return
	}
	r.policy.ReservedCPUs = set
}

// warnReserved warns of reservations that leave less than expected.
func (r *resolution) warnReserved() {
	reserved := r.policy.ReservedCPUs
	if reserved.IsEmpty() {
		return
	}
	field := "reservedSystemCPUs"
	if r.spec.ReservedSystemCPUs == "" {
		field = "kubeReserved[cpu]"
	}
	if reserved.Equal(r.machine.AllCPUs()) {
		r.warn(field, "every CPU is reserved: no container can get CPUs of its own")
		return
	}
	if !r.policy.CPU.FullPCPUsOnly {
		return
	}
	var split cpuset.Builder
	for _, core := range r.machine.Cores() {
		if core.CPUs.Intersects(reserved) {
			split.AddSet(core.CPUs.Difference(reserved))
		}
	}
	if rest := split.Set(); !rest.IsEmpty() {
		r.warn(field, "with %s, CPUs %s can hardly be used: they share cores with the reserved CPUs %s",
			optionFullPCPUs, rest, reserved)
	}
}

func cpuField(option string) string { return "cpuManagerPolicyOptions[" + option + "]" }
