// Package engine is the single writer of a node's assignments: plan, persist, publish.
//
//	plan     node.State.Plan decides on the state that was decided last; nothing is visible yet
//	fit      a decision that cannot be encoded is rejected now: a write contains several decisions,
//	         and one pod that is too large for the state file must not make the others fail
//	persist  a writer goroutine writes the whole newest state in one atomic write
//	publish  an atomic pointer now shows that state to every reader
//
// What readers see as State is on disk, and a container is created only after the state that
// assigns its CPUs is on disk. A crash between any two steps leaves the state before or the state
// after. Readers never wait: Snapshot is a pointer to a value that does not change.
//
// # The two states
//
// The decided state ("next") has everything that was decided. The published state has what is
// durable. They differ while a write is under way:
//
//	pending    grants that are decided and not yet durable. Their CPUs are given to no other pod,
//	           and no reader sees them as assigned. Snapshot.Pending lists them.
//	           A resize is pending in the same way: readers see the pod as it was before.
//	unreleased pods whose release is decided and not yet durable. Their CPUs may be planned for
//	           a pod, which becomes durable with the same write. Snapshot.Unreleased lists them.
//
// The decided state also has the reservations (node.Reservation): places for pods that do not have
// them yet. The engine asks Config.Reserve for them before every decision, and never writes them. A
// change of the reservations is a new version of the snapshot.
//
// One write contains everything that was decided before it began, so a burst of admissions needs
// few writes.
//
// # What waits, and for how long
//
// No lock is held while the disk works. Admit, Release, Flush and Tick wait for the write until
// their context ends. Then they return an error that wraps ErrNotWritten, and the write goes on: a
// pod that asks again finds its grant pending or durable. A pod that is already durable is answered
// from memory, even while the disk stalls. Once a write takes longer than a second, an admission no
// longer waits for it. It fails at once, and the retry after the stall finds the grant. A disk that
// never answers keeps one goroutine waiting, however many requests follow.
//
// # Failure
//
// A failed write reverts everything that was pending. It also reverts what was decided during the
// write, because that was planned on the reverted decisions. Releases stay decided, and every later
// change and Tick retry them.
//
// If it is unknown whether a write failed (store.ErrUncertain), it counts as failed for what it
// gave to pods, and as done for what it took from them. A pod from which it took something is
// admitted again only with a write.
//
// When the next container is created, memory of init containers becomes free. This does not cause a
// write, because it is safe to start from the older state. The change is published at once, unless
// a write is under way, and is written with the next change.
package engine
