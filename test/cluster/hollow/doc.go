// Package hollow runs many nodes in one process, without machines, kernels or containers.
//
// Each node runs the agent of real nodes, internal/agent, in a simulated environment:
//
//	runtime    internal/node/runtime/sim, over NRI in memory
//	kubelet    Node: registers itself, serves /pods, runs bound pods, reports their status, ends deleted pods
//	disk       internal/testing/crashfs: survives the agent; a kill leaves what was written by then
//
// That is a managed host. On an observed one, the managers of a kubelet decide (package stock), and
// the observing agent of real nodes reads their files and answers. There are no containers there: a
// pod that is admitted runs.
//
// A Fleet has one watch of pods for all its nodes, and one HTTP server for their lists. It shares
// nothing with a scheduler except the API server. It records every RunPodSandbox and
// CreateContainer that a node answers with an error (Trouble), even if a later attempt succeeds, and
// every pod that a kubelet rejects. That is the purpose of the fleet.
package hollow
