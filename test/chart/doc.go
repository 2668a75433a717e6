// Package chart renders the chart of deploy/chart with Helm's own library and compares what comes
// out: its defaults with deploy/base, every object with the types of Kubernetes, the agent's files
// with the agent. Its tests are all there is of it. It is a module of its own, so that the main
// module does not depend on Helm.
//
// testdata/NAME.yaml are values that somebody may set; testdata/NAME.diff is what they change.
package chart
