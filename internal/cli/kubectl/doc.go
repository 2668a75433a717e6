// Package kubectl asks the agents of a cluster with the access that kubectl has: its files,
// contexts and flags. It finds the agent of a pod's node and runs a command in the agent's
// container. So the agent answers about its own node, with its own configuration, in its own
// version. No port of a node has to be open, and no login to a node is needed.
//
// A Cluster needs these permissions: get pods in the namespaces of the explained pods, and list
// pods and create (or get) pods/exec in the namespace of the agents. If a permission is missing,
// the error of the API server is returned with the role that has it, unless the API server is not
// ready: it is starting then, and forbids what it allows when it has read its roles. A Cluster does
// not wait for that.
//
// client-go without cli-runtime is enough for that. cli-runtime adds the types of all APIs: 45 MB
// of binary, and 2 MiB of memory for an agent that never uses them.
package kubectl
