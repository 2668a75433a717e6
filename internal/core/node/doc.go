// Package node decides what a pod gets on a node, and is the record of what all pods got.
//
// The flow of one admission is
//
//	State.Plan(pod)   → Plan     a grant with its delta and trace, or a refusal with its account
//	State.Apply(plan) → State    the next state
//
// A State is an immutable value with a generation. Plan changes nothing; everything that
// an admission takes is collected in a draft that is thrown away when any step refuses,
// so there is no undo code and a refusal leaves no trace. Apply refuses a
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
// Ways through an admission (docs/rules/demand.md, section 10):
//
//	topology policy  scope      pod-level pod, managers on         any other pod
//	none             –          each container by itself           the same
//	other            container  each container aligned by itself   the same
//	other            pod        one pool, aligned as one, divided  aligned as one, each container by itself
package node
