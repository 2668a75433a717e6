package config

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// policyDynamic is a CPU policy that admits pods as static does, and also moves running pods for a
// pod that would be rejected or not aligned (docs/rules/moves.md, section 2). The kubelet does not
// have it.
const policyDynamic = "dynamic"

// The options of the policy dynamic, in addition to those of static.
const (
	optionMoves     = "moves"
	optionMaxPods   = "max-moved-pods"
	optionMaxMemory = "max-moved-memory"
	optionAnyKernel = "move-memory-on-any-kernel"
)

// defaultMoves moves at most 4 GiB for one pod. With pages of 4 KiB this takes about 4 s at 1 GB/s,
// the rate of an old server. Meanwhile the runtime starts no container.
var defaultMoves = node.MovePolicy{Pods: node.MaxMoves, Bytes: 4 << 30}

// moveOptions returns a function for each option. The function sets a value of the policy, or
// returns what is wrong and how to fix it.
func moveOptions() map[string]func(m *node.MovePolicy, value string) (why, fix string) {
	return map[string]func(*node.MovePolicy, string) (string, string){
		optionMoves: func(m *node.MovePolicy, value string) (string, string) {
			m.All = value == "all"
			if !m.All && value != "consenting" {
				return fmt.Sprintf("%q is unknown", value), "use consenting, for pods with the annotation only, or all"
			}
			return "", ""
		},
		optionMaxPods: func(m *node.MovePolicy, value string) (string, string) {
			if m.Pods = slices.Index([]string{"0", "1", "2"}, value); m.Pods < 1 {
				m.Pods = node.MaxMoves
				return fmt.Sprintf("it is %q", value), `use "1" or "2"; for no moves, set cpuManagerPolicy to static`
			}
			return "", ""
		},
		optionMaxMemory: func(m *node.MovePolicy, value string) (string, string) {
			q, err := resource.ParseQuantity(value)
			if err != nil || q.Sign() < 0 || q.CmpInt64(1<<55) > 0 {
				return fmt.Sprintf("%q is not an amount of memory", value), `use bytes, such as "4Gi"; "0" moves no memory between NUMA nodes`
			}
			m.Bytes = q.Value()
			return "", ""
		},
		optionAnyKernel: func(m *node.MovePolicy, value string) (string, string) {
			m.AnyKernel = value == "true"
			if !m.AnyKernel && value != "false" {
				return fmt.Sprintf("it is %q", value), `use "true" or "false"`
			}
			return "", ""
		},
	}
}

// moves resolves the options of the policy dynamic.
func (r *resolution) moves() {
	r.policy.Moves = defaultMoves
	known := moveOptions()
	for _, name := range slices.Sorted(maps.Keys(known)) {
		value, given := r.spec.CPUManagerPolicyOptions[name]
		if !given {
			continue
		}
		if why, fix := known[name](&r.policy.Moves, value); why != "" {
			r.reject(Problem{Field: cpuField(name), Why: why, Fix: fix})
		}
	}
}

// describeMoves describes for people what a policy moves.
func describeMoves(m node.MovePolicy) string {
	pods := "1 pod"
	if m.Pods > 1 {
		pods = fmt.Sprintf("%d pods", m.Pods)
	}
	text := fmt.Sprintf(" (moves of at most %s with %s of memory", pods, request.Bytes(m.Bytes))
	if m.All {
		text += ", also without consent"
	}
	if m.AnyKernel {
		text += ", on any kernel"
	}
	return text + ")"
}
