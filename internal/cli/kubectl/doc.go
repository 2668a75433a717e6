// Package kubectl asks the agents of a cluster, with the access that kubectl has: its files,
// contexts and flags. It finds the agent of a pod's node and runs a command in the agent's
// container. So the agent answers of its own node, by its own configuration, and in the words of
// its own version; no port of a node has to be open, and no login to a node is needed.
//
// A Cluster needs these permissions: get pods where the explained pods are, list pods and create
// (or get) pods/exec in the namespace of the agents. An error of the API server that names a
// missing one is passed on, with the role that has it.
//
// client-go without cli-runtime is enough for that. cli-runtime brings the types of all APIs: 45 MB
// of binary and 2 MiB of memory for an agent that never uses them.
package kubectl
