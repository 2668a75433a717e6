// Package node decides what a pod gets on a node, and is the record of what all pods got.
//
// # Admission
//
// The flow of one admission is
//
//	State.Demand(pod) → Demand   what the pod asks of the managers, and on which path
//	State.Plan(pod)   → Plan     a grant with its delta and trace, or a refusal with its account
//	State.Apply(plan) → State    the next state
//
// A State is an immutable value with a generation. Plan changes nothing; everything that
// an admission takes is collected in a draft that is thrown away when any step refuses,
// so there is no undo code and a refusal changes nothing. Apply refuses a
// plan made for another generation. Planning a pod that is known is the identity: its grant
// stands.
//
// The truth are the grants. The node's shared pool and the memory books follow from them: Restore
// builds a state from grants alone, for a machine and a policy that may have changed since,
// and Check compares what is kept with what follows.
//
// A grant also stands when CPUs of it go offline. The machine of a state has the CPUs that are online,
// and OnMachine gives the same grants on another machine. A CPU that a grant has and the machine
// lacks is offline: it stays assigned, no other pod gets it, and Cgroup says what containers run on
// without it. Nothing is recorded, so nothing needs to be undone when it comes back.
//
// The paths through an admission (docs/rules/demand.md, section 10) are
//
//	topology policy  scope      pod-level pod, managers on         any other pod
//	none             –          each container by itself           the same
//	other            container  each container aligned by itself   the same
//	other            pod        one pool, aligned as one, divided  aligned as one, each container by itself
//
// # Trace
//
// The planner is the only place that applies a rule of admission. It records what it decided in the trace
// of the plan. Explanations, tables and metrics read the trace; they never derive it again from the
// policy and the pod:
//
//	Demand      what was asked of each resource, for each container and together, and why
//	Divisions   the arithmetic of a pool, and what is wrong with a pool that cannot be divided
//	Alignments  the hints, the choice, and the outcome
//	Stage       which manager was asked last; StageEnd: no manager rejected the pod
//	Requests    how often the CPU manager and the memory manager were asked
//	Cause       why the pod was rejected
//
// Code depends on the types Basis, Outcome, Stage and Cause. The reason and the rule id of a refusal follow
// from its cause, in one table, and are for people: no code compares rule ids. The planner needs nearly
// all of a trace itself, so recording it costs no more than a few words a container. Package explain
// turns a trace into sentences. A sentence that the planner needs too is a method here.
//
// Some rules do not depend on one admission and have other readers as well. They are decided here, once:
// Policy.Conflicts (settings that exclude each other), PoolClaims (what containers claim of a pool) and
// State.Limit (what bounds a container's CPU time).
package node
