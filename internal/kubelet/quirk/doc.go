// Package quirk names the answers of a kubelet 1.36.3 that a fault of that kubelet changes.
//
// Paddock decides as a kubelet does, but for the faults of docs/rules/quirks.md. Where a pod is to
// run on a node whose kubelet decides, the fault decides. This package answers what it changes:
//
//	Kubelet.Admit(state, request, plan)   the quirks that give this pod another answer there
//	Kubelet.Restart(state, policy)        the quirks that keep the kubelet from starting again
//	Kubelet.Again(state)                  the pods that a restart of the kubelet moves or rejects
//	Start(machine, policy)                what the kubelet reserves otherwise
//	Of(machine, policy)                   the quirks that pods can meet under a configuration
//
// Admit decides the pod a second time, as the kubelet does with its faults, on the same state. It
// names the faults that this decision went through, and only if the answer differs: admitted or
// rejected, the CPUs, or the memory of a container. Nothing is named for a pod with the same
// answer. The answers are compared with every recorded answer of the reference
// (internal/cli/replay, TestQuirks).
//
// A Kubelet remembers what a kubelet keeps between admissions and no state has: what init
// containers left, by UID, and whether its accounts are broken. It is a value, and its zero
// value is a kubelet that has just started. Feed it the admissions, removals and restarts in their
// order. Where an answer depends on more than that, Quirk.Certain is false.
//
// Given devices are left out: a kubelet 1.36 does not align with devices of claims, and the device
// manager has its own.
//
// Not decided here: faults that change no answer (metrics, texts, order), Q-11 (a resize), Q-17
// (the time that an admission takes), Q-32 and Q-33 (what other pods did before). Of reports Q-17.
package quirk
