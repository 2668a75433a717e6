// Package inputs reads the files that describe a node and its pods: the machine, the policy, the
// devices, a saved state, manifests. The commands and the agent share it, so a file means the same
// to all of them.
//
// The package reads and changes nothing. Remarks for the user, such as a setting without effect or
// an object without pods, are returned as text, and the caller prints or logs them. An error begins
// with the flag or the field that named the file.
package inputs
