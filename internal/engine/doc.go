// Package engine is the single writer of a node's assignments: plan, persist, publish.
//
// Every change goes through one lock, one after the other:
//
//	plan     node.State.Plan decides; nothing has changed
//	persist  the next state is written, whole, in one atomic write; an error refuses the change
//	publish  an atomic pointer now shows the next state to every reader
//
// So what readers see is on disk, a container is created only after the state that it runs on is,
// and a crash between any two steps leaves the state before or the state after. Readers never
// wait: Snapshot is a pointer to a value that does not change.
//
// Two changes are not worth a write of their own, because the older state is safe to start
// from: memory that init containers leave when the next container is created, and a
// release that could not be written. The first is published at once and written with the next
// change. The second is not published: the pod keeps what it holds until a later write, which
// takes the release along, succeeds; Tick retries it.
//
// A write of which it is open whether it failed (store.ErrUncertain) counts as failed for what it
// gave, and as done for what it took: a pod of which it took something is not admitted again
// before a write has succeeded.
//
// Who must be told is the caller's: an admission and a release return what changed, and Converge
// says which running containers need an update, so that a runtime's hook can carry the updates
// in its reply, and the reconcile loop can make them by itself.
package engine
