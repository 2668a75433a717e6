// Package installed consists only of tests of what deploy/base and deploy/scheduler install, on a
// real control plane with a few hollow nodes. The scheduler has a token of its service account and
// no other permission. So a rule that is missing in its roles, or in an admission policy, leads to
// an error in its log and a pod that does not run.
package installed
