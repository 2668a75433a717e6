// Package quirk names the faults of kubelet 1.36.3 that change its answers, and what they change.
//
// The planner decides as a kubelet does (node.Behavior, which package behavior fills for a
// version), and records the points at which the kubelet's decision differs. This package names and
// describes these points, as in docs/rules/quirks.md, and compares the answer with Paddock's answer
// on the same state:
//
//	Kubelet.Admit(state, pod)             the kubelet's answer, and the quirks that change it
//	Kubelet.Remove(state, uid)            the quirks that take effect when a pod is removed
//	Kubelet.Restart(state, policy)        the quirks that prevent the kubelet from starting again
//	Again(state)                          the pods that a restart of the kubelet moves or rejects
//	Readmit(state, pods, release)         what a start does to the pods, one after the other
//	Start(machine, policy, setup)         what the kubelet reserves differently
//	Of(machine, policy)                   the quirks that pods can meet under a configuration
//
// The state is that of the kubelet: it was made with Policy, so it has the kubelet's behavior and
// residue. If both answers for a pod are the same, no quirk is named. The answers are compared with
// every recorded answer of the reference (internal/cli/replay, TestAsKubelet and TestQuirks).
//
// Three faults would distort the planner. The search of distribute-cpus-across-numa in lists that
// share memory, which may also never end, is separate in cpu/subsets.go; the planner
// gets its result or an error. A panic is a rejection with a separate cause
// (rejection.KubeletPanics), and the kubelet has no state after it. Failed starts (Q-21, Q-23,
// ) are not decisions about pods: their rules are in this package, in Restart and Start.
//
// Given devices are ignored: a kubelet 1.36 does not align with devices of claims, and the Device
// Manager chooses its own.
//
// How bytes are placed within a group is in every memory.Usage of a kubelet, so it has no
// name here. The package does not cover faults that change no answer (metrics, texts, order), Q-11
// (a resize) and Q-17 (the time that an admission takes). Of
// reports Q-17 nevertheless.
package quirk
