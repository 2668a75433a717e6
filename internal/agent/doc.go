// Package agent wires the parts together into the process that holds a node's assignments.
//
//	manifests ──► keeper ──► engine ──► store        one write, then it is so
//	                 │          └─────► telemetry    counters from decisions, gauges from snapshots
//	                 ├──► runtime                    containers are created with what the engine says
//	                 └◄── tick                       what runs is compared with what should
//	podres, telemetry ◄── engine.Snapshot            readers; they never wait
//
// It decides nothing. The keeper is one goroutine: a new set of pods, a tick and the end come one
// after the other. Everything else only reads.
//
// On a real node (Config.Runtime "nri") the runtime drives: package runtime/nri answers its questions from
// the engine, with the kubelet's pods (podsource/kubelet), and there is no keeper.
//
// A start never begins with nothing where there was something: a damaged state file stops it,
// unless the generation before is whole (package store). Pods that the state holds and that do
// not hold here any more are named, with what to do; Strict makes them a reason not to start.
package agent
