// Package hollow runs many nodes in one process, without machines, kernels or containers.
//
// Each node runs the agent of real nodes, internal/agent, in a simulated environment:
//
//	runtime    internal/node/runtime/sim, over NRI in memory
//	kubelet    Node: registers itself, serves /pods, runs bound pods, reports their status, ends deleted pods
//	disk       internal/testing/crashfs: survives the agent; a kill leaves what was written by then
//
// A Fleet has one watch of pods for all its nodes, and one HTTP server for their lists. It shares
// nothing with a scheduler except the API server. It records every RunPodSandbox and
// CreateContainer that a node answers with an error (Trouble), even if a later attempt succeeds.
// That is the purpose of the fleet.
package hollow
