// Package chart renders the chart of deploy/chart with Helm's own library and compares the output:
// its defaults with deploy/base, every object with the Kubernetes types, and the agent's files with
// the agent. It consists only of tests. It is a separate module, so that the main module does not
// depend on Helm.
//
// testdata/NAME.yaml has values that a user may set. testdata/NAME.diff is what they change.
package chart
