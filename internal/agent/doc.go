// Package agent wires the parts together into the process that manages a node.
//
//	runtime ──NRI──► nri.Plugin ──► engine ──► store        one durable write
//	kubelet ──pods──►    │             └─────► telemetry    counters from decisions, gauges from snapshots
//	cgroups ◄────────────┘
//	podres, telemetry, web ◄── engine.Snapshot              readers; they never wait
//
// It makes no decisions. There is one control loop, nri.Plugin, which runs in two environments. On
// a node (Config.Runtime "nri") the runtime is containerd or CRI-O, and the kubelet lists the pods
// (podsource/kubelet). In the simulation ("sim") both are in memory (runtime/sim), and the pods are
// those of the manifests. The simulation needs no root and leaves no socket behind. Its containers
// end with the process, and the next start creates them again with the settings in the state.
//
// A damaged state file never becomes an empty state: the agent does not start unless the previous
// revision is intact (package store). When it starts, the agent logs each pod in the state whose
// assignments are no longer valid, and what to do. If Strict is set, it does not start then.
package agent
