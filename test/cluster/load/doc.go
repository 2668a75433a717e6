// Package load creates and deletes pods as a fleet's users do: shapes of a real trace, as many as
// fit, then one for every one that ends. It notes when the API server shows each pod bound and
// running, and stands for the controllers of the pods: a pod that was evicted comes back under
// another name.
package load
