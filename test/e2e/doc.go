// Package e2e proves the agent on a node with a real kernel, containerd and runc, and several NUMA
// nodes: in virtual machines, which packages parts and vm make. Its tests are all there is of it.
//
// testdata/scenarios/MACHINE/*.txt describe what happens on a machine of testdata/machines and what
// can be seen then, in cgroup files, /proc/PID/status, the PodResources API and the errors of CRI.
// The commands are those of a table in commands_test.go. What may not be at any time is looked for
// after every command (invariants_test.go).
package e2e
