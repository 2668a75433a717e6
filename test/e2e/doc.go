// Package e2e tests the agent on a node with a real kernel, containerd and runc, and several NUMA
// nodes. The nodes are virtual machines, which packages parts and vm make. The package consists
// only of tests.
//
// testdata/scenarios/MACHINE/*.txt describe what happens on a machine of testdata/machines, and
// what can be observed in cgroup files, /proc/PID/status, the PodResources API and CRI errors. The
// table in commands_test.go defines their commands. The invariants are checked after every command
// (invariants_test.go).
package e2e
