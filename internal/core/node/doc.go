// Package node decides which CPUs, memory and devices a pod gets on a Kubernetes node, and records
// what all pods got.
//
// # Admission
//
// The flow of one admission is
//
//	State.Demand(pod) → Demand   what the pod asks of the managers, and on which path
//	State.Plan(pod)   → Plan     a grant with its delta and trace, or a rejection with its account
//	State.Apply(plan) → State    the next state
//
// State.Admits(pod) is the verdict of Plan alone. It is the same draft, which stops early.
//
// A State is an immutable value with a generation. Plan changes nothing: a draft collects
// everything that an admission takes, and is dropped if any step rejects the pod. So there is no
// undo code, and a rejection changes nothing. Apply rejects a plan that was made
// for another generation. A plan for a known pod returns its grant.
//
// The grants define the state. The node shared pool and the memory accounting are derived from
// them: Restore builds a state from grants alone, for a machine and a policy that may have changed
// since, and Check compares the pool and the accounting with the grants.
//
// A grant does not change when its CPUs go offline. The machine of a state has the CPUs that are
// online, and OnMachine returns the state with the same grants on another machine. A CPU that a
// grant has and the machine does not have is offline: it stays assigned, no other pod gets it, and
// Cgroup returns what containers run on instead. Nothing is recorded, so nothing needs to be undone
// when the CPU comes back.
//
// The paths through an admission (docs/rules/demand.md, section 10) are
//
//	topology policy  scope      pod-level pod, managers on         any other pod
//	none             –          each container by itself           the same
//	other            container  each container aligned by itself   the same
//	other            pod        one pool, aligned as one, divided  aligned as one, each container by itself
//
// # Resize
//
// State.Resize is Plan for a pod that has a grant and asks for other amounts
// (docs/rules/resize.md). Its plan has the complete next grant, and Apply replaces the old one with
// it. The CPUs of the admission, the baseline, stay in the grant while it has more. A resize is
// never a move: a container that grows loses nothing, and a container that shrinks gets nothing
// else.
//
// # Reservations
//
// A Reservation keeps a place for a pod that does not have it yet. Plan, Resize and moves treat
// what is reserved for other pods as if it were assigned, and an account names it. Reservations are
// not assigned: pools, free memory and grants are the same with and without them, and a reservation
// that contradicts a grant yields. The core has no clock: WithReservations replaces all
// reservations.
//
// # Trace
//
// Only the planner applies a rule of admission. It records what it decided in the trace of the
// plan. Explanations, tables and metrics read the trace; they never derive it again from the policy
// and the pod:
//
//	Demand      what was asked of each resource, for each container and together, and why
//	Divisions   the arithmetic of a pool, and why a pool cannot be divided
//	Alignments  the hints, the choice, and the outcome
//	Stage       which manager was asked last; StageEnd if no manager rejected the pod
//	Requests    how often the CPU manager and the memory manager were asked
//	Cause       why the pod was rejected
//
// Code depends on the types Basis, Outcome, Stage and Cause. The reason and the rule id of a
// rejection follow from its cause, in one table, and are for people: no code compares rule ids. The
// planner needs nearly all of a trace itself, so recording it costs no more than a few words per
// container. Package explain turns a trace into sentences. A sentence that the planner needs too is
// a method here. No sentence has the id of a rule in it: a Why has both, and the code that prints
// it decides whether to show the id.
//
// Some rules do not depend on one admission and have other readers as well. This package decides
// them once: Policy.Conflicts (settings that exclude each other) and PoolClaims (what containers
// claim of a pool).
//
// # Behavior
//
// A state with a Behavior in its policy is the state of a kubelet: Plan decides as that kubelet
// does, with its faults, and Trace.Met has the points at which it did. Such a state can break the
// invariants. Its Residue is what the grants do not explain. Check proves that grants, residue and
// what is free make up the machine. Where Paddock decides, Behavior is the zero value and there is
// no residue.
package node
