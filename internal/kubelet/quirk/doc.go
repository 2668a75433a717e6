// Package quirk names what a fault of kubelet 1.36.3 changes in its answers.
//
// The planner decides as a kubelet does (node.Behavior, which package behavior fills for a
// version), and records the points at which a decision went the kubelet's way. This package has
// their names and words, as in docs/rules/quirks.md, and compares the answer with Paddock's on the
// same state:
//
//	Kubelet.Admit(state, pod)             the kubelet's answer, and the quirks that make it another one
//	Kubelet.Remove(state, uid)            the quirks that show when a pod is gone
//	Kubelet.Restart(state, policy)        the quirks that keep the kubelet from starting again
//	Again(state)                          the pods that a restart of the kubelet moves or rejects
//	Start(machine, policy, setup)         what the kubelet reserves otherwise
//	Of(machine, policy)                   the quirks that pods can meet under a configuration
//
// A state is the kubelet's: it was made with Policy, so that it has the kubelet's behavior and its
// residue. Nothing is named for a pod with the same answer. The answers are compared with every
// recorded answer of the reference (internal/cli/replay, TestAsKubelet and TestQuirks).
//
// Three faults would bend the planner. The search of distribute-cpus-across-numa in lists that
// share memory, which can also never end, is apart in cpu/subsets.go; the planner gets
// its result or an error. A panic is a rejection with a cause of its own
// (node.KubeletPanics), and the kubelet has no state after it. Starts that fail (Q-21, Q-23, Q-47,
// Q-48) are no decisions about pods: their rules are here, in Restart and Start.
//
// Given devices are left out: a kubelet 1.36 does not align with devices of claims, and the device
// manager has its own.
//
// Not decided: faults that change no answer (metrics, texts, order), Q-11 (a resize), Q-17 (the
// time that an admission takes) and Q-33 (how bytes lie within a group). Of reports Q-17.
package quirk
