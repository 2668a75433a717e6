// Package sim is a container runtime in memory: the one that is built in, and the one that tests
// can make fail.
//
// It does what matters to Paddock of a real runtime, and in its order. The containers of a pod are
// created one after the other: a standard init container ends before the next container is
// created, sidecars and apps stay. Right before each creation it asks what the container shall run on, as
// a runtime asks its plugins. Running containers can be observed and updated, and every
// setting that a container was ever given is in its History.
//
// A creation can be told to fail, an update to get lost, and a container to drift away, so that
// what finds and repairs it can be seen at work:
//
//	observed := rt.Observe()
//	report := converge.Compare(state, observed)
//	err := rt.Update(report.Updates)
//
// Nothing is asked under a lock: the question before a creation may observe, update and stop
// containers. What changes between its answer and the creation is, as with every runtime, left to
// the next comparison.
package sim
