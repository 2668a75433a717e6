// Package agent wires the parts together into the process that holds a node's assignments.
//
//	runtime ──NRI──► nri.Plugin ──► engine ──► store        one write, then it is so
//	kubelet ──pods──►    │             └─────► telemetry    counters from decisions, gauges from snapshots
//	cgroups ◄────────────┘
//	podres, telemetry, web ◄── engine.Snapshot              readers; they never wait
//
// It decides nothing. There is one control loop, nri.Plugin, and two places where it runs. On a node
// (Config.Runtime "nri") the runtime is containerd or CRI-O, and the kubelet lists the pods
// (podsource/kubelet). In the simulation ("sim") both are in memory (runtime/sim), and the pods are those of
// the manifests. The simulation needs no root and leaves no socket behind; its containers end with the
// process, and the next start makes them again with what the state has.
//
// A start never begins with nothing where there was something: a damaged state file stops it,
// unless the generation before is whole (package store). Pods that the state holds and that do
// not hold here any more are named, with what to do; Strict makes them a reason not to start.
package agent
