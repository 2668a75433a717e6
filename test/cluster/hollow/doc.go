// Package hollow runs many nodes in one process, without machines, kernels or containers.
//
// The agent of each node is the one that runs on real nodes, internal/agent. Its world is imitated:
//
//	runtime    internal/node/runtime/sim, over NRI in memory
//	kubelet    Node: registers itself, serves /pods, runs what is bound, reports the status, ends what is deleted
//	disk       internal/testing/crashfs: it survives the agent, and a kill leaves what was written by then
//
// A Fleet has one watch of pods for all its nodes, and one HTTP server for their lists. It shares
// nothing with a scheduler but the API server. Every RunPodSandbox and every CreateContainer that a
// node answers with an error is recorded (Trouble), even if a later try succeeds: that is what the
// fleet is for.
package hollow
