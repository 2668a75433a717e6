// Package v1alpha1 has the messages and the client of the service of `paddock predict serve`, which
// answers whether a node of a cluster would take a pod. They are generated from predict.proto by
// `make proto`.
package v1alpha1
