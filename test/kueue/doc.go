// Package kueue compares what Paddock reads and writes of Kueue's objects with Kueue 0.17: its API
// types, its CustomResourceDefinitions and the functions with which it looks at admission checks.
// It consists only of tests. It is a separate module without Paddock's packages, because Kueue is
// compiled with another version of Kubernetes.
//
// testdata/workloads.json has workloads as Kueue makes them, with topology assignments in the form
// of both versions of its API. TestKueue in scheduler/kueue reads them, and records what Paddock
// answers in testdata/answered.json there. The tests here check these answers.
//
// The module also names the version of Kueue that test/cluster/installed runs.
package kueue
