// Package collect makes the script with which a person collects the inputs of a kubelet's decisions
// from a node, and reduces Kubernetes objects to the fields that decide.
//
// It runs no command and writes no file. Script returns the text of the script, which a person
// reads before running it. The script passes every object through a Filter, so that the collected
// folder has no environments, arguments, volumes, or labels and annotations of users.
//
// The types of reduced objects in objects.go are the list of the fields that are kept. A field that
// is not in them does not leave the cluster, whatever a newer Kubernetes puts into it.
package collect
