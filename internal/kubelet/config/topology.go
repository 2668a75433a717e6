package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/core/node"
)

// The options of the Topology Manager (R-HINT-70).
const (
	optionClosest  = "prefer-closest-numa-nodes"
	optionMaxNodes = "max-allowable-numa-nodes"
)

// leastMaxNodes is the smallest max-allowable-numa-nodes that the kubelet accepts.
const leastMaxNodes = 8

// topology resolves the policy, the scope and the options of the Topology Manager
// (R-HINT-70…74).
func (r *resolution) topology() {
	var names []string
	for p := node.TopologyNone; p <= node.TopologySingleNUMANode; p++ {
		names = append(names, p.String())
	}
	if given := r.spec.TopologyManagerPolicy; given != "" {
		i := slices.Index(names, given)
		if i < 0 {
			r.reject(Problem{
				Field: "topologyManagerPolicy",
				Why:   fmt.Sprintf("there is no policy %q", given),
				Fix:   "use one of " + strings.Join(names, ", "),
				Kubelet: fmt.Sprintf("invalid configuration: topologyManagerPolicy (--topology-manager-policy) %q must be one of: %q",
					given, names),
			})
		}
		r.policy.Topology = max(node.TopologyNone, node.TopologyPolicy(i))
	}
	switch given := r.spec.TopologyManagerScope; given {
	case "", node.ContainerScope.String():
		r.policy.Scope = node.ContainerScope
	case node.PodScope.String():
		r.policy.Scope = node.PodScope
	default:
		r.reject(Problem{
			Field: "topologyManagerScope",
			Why:   fmt.Sprintf("there is no scope %q", given),
			Fix:   "use container or pod",
			Kubelet: fmt.Sprintf(`invalid configuration: topologyManagerScope (--topology-manager-scope) %q must be one of: "container", or "pod"`,
				given),
		})
	}
	if r.policy.Topology == node.TopologyNone {
		if len(r.spec.TopologyManagerPolicyOptions) > 0 {
			r.warn("topologyManagerPolicyOptions", "they are not even read under topologyManagerPolicy none")
		}
		if r.policy.Scope == node.PodScope {
			r.warn("topologyManagerScope", "it has no effect under topologyManagerPolicy none")
		}
		return
	}
	r.topologyOptions()
}

func (r *resolution) topologyOptions() {
	options := r.spec.TopologyManagerPolicyOptions
	for _, name := range slices.Sorted(maps.Keys(options)) {
		field := "topologyManagerPolicyOptions[" + name + "]"
		switch name {
		case optionClosest:
			on, problem := parseBool(field, optionClosest, options[name])
			if problem != nil {
				r.reject(*problem)
				continue
			}
			r.policy.PreferClosest = on
			if on && !r.machine.HasDistances() {
				r.reject(Problem{
					Field:   field,
					Why:     "the machine reports no distances between its NUMA nodes",
					Fix:     "remove the option",
					Kubelet: "cannot discover NUMA topology: error getting NUMA distances from cadvisor",
				})
			}
			if on && r.policy.Topology == node.TopologySingleNUMANode {
				r.warn(field, "distances are never compared under topologyManagerPolicy single-numa-node")
			}
		case optionMaxNodes:
			r.maxNodes(field, options[name])
		default:
			r.reject(Problem{
				Field:   field,
				Why:     "the Topology Manager has no such option",
				Fix:     didYouMean(name, []string{optionClosest, optionMaxNodes}),
				Kubelet: fmt.Sprintf("unknown Topology Manager Policy option: %q", name),
			})
		}
	}
}

func (r *resolution) maxNodes(field, value string) {
	limit, err := strconv.Atoi(value)
	nodes := r.machine.NodeMask().Len()
	switch {
	case err != nil:
		r.reject(Problem{
			Field:   field,
			Why:     fmt.Sprintf("%q is not a whole number", value),
			Fix:     fmt.Sprintf("give a number of at least %d, or remove the option", leastMaxNodes),
			Kubelet: fmt.Sprintf("unable to convert policy option to integer %q: %v", optionMaxNodes, err),
		})
	case limit < leastMaxNodes:
		r.reject(Problem{
			Field:   field,
			Why:     fmt.Sprintf("%d is less than %d, the least that is accepted", limit, leastMaxNodes),
			Fix:     fmt.Sprintf("give a number of at least %d, or remove the option", leastMaxNodes),
			Kubelet: fmt.Sprintf("the minimum value of %q should not be less than %d", optionMaxNodes, leastMaxNodes),
		})
	case nodes > limit:
		r.reject(Problem{
			Field:   field,
			Why:     fmt.Sprintf("the machine has %d NUMA nodes, the option allows %d", nodes, limit),
			Fix:     fmt.Sprintf("give at least %d, or remove the option", nodes),
			Kubelet: fmt.Sprintf("unsupported on machines with more than %d NUMA Nodes", limit),
		})
	}
}

// parseBool parses the value of an option as the kubelet does (R-CPU-10, R-HINT-70).
func parseBool(field, option, value string) (bool, *Problem) {
	on, err := strconv.ParseBool(value)
	if err == nil {
		return on, nil
	}
	return false, &Problem{
		Field:   field,
		Why:     fmt.Sprintf("%q is neither true nor false", value),
		Fix:     `give "true" or "false"`,
		Kubelet: fmt.Sprintf("bad value for option %q: %v", option, err),
	}
}
