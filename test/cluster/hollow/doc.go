// Package hollow runs many nodes in one process, without machines, kernels or containers.
//
// Of each node, the agent is Paddock's own: the engine, the state file's bytes, the control loop
// with NRI's stub, and the source that reads the kubelet's list of pods. What is outside of the
// agent is imitated:
//
//	runtime    internal/node/runtime/sim, over NRI in memory
//	kubelet    Kubelet: registers the Node, serves /pods, runs what is bound, reports the status, ends what is deleted
//	disk       Disk: what was written last, in memory; it survives the agent
//
// A Fleet has one watch of pods for all its nodes, and one HTTP server for their lists. It shares
// nothing with a scheduler but the API server. Every RunPodSandbox and every CreateContainer that a
// node answers with an error is recorded (Trouble), even if a later try succeeds: that is what the
// fleet is for.
package hollow
