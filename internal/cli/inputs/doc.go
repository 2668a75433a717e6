// Package inputs reads the files that describe a node and its pods: the machine, the policy, the
// devices, a saved state, manifests. The commands and the agent share it, so that a file means the
// same to all of them.
//
// The package reads, and changes nothing. What it finds worth telling a user, a setting without
// effect or an object without pods, is returned as text; the caller prints or logs it. An error
// begins with the flag or the field that named the file.
package inputs
