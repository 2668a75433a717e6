// Package rejection has the words for a pod that is not admitted: the cause on which code depends,
// the reason and the rule that people know, and the account of what is short.
//
// A Rejection is a result, not an error of the program. Its cause decides everything else: one
// table (Cause.Names) has the reason, as the kubelet's metrics and events have it, and the id of
// the rule in docs/rules. No code compares reasons, rules or sentences. No sentence has the id of a
// rule in it. The package knows neither states nor plans: core/node finds the cause and the
// numbers, and writes the sentence where the numbers are.
package rejection
