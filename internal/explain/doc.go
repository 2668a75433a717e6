// Package explain describes why a pod got its resources, what would have admitted a rejected pod,
// and what a node's free CPUs and memory can still be used for.
//
// The package decides nothing. Moves of running pods come from package moves. The package answers
// three questions, each with a function of values of the core:
//
//	Of(state, plan)                     Decision  one decision, in the order of its flow
//	Search(ctx, state, pod, elsewhere)  Remedies  the smallest changes that admit a rejected pod
//	Usage(ctx, state)                   Report    how the node is used, and how badly cut up it is
//
// A Decision is built from the plan with its trace (package node) and the state before it. The
// requests, the division of a pool, the result of an alignment and the reason for a rejection come
// from the trace. If a Decision reports that something would not fit, it has asked the same
// hint.Set that the merge asked. A Proposal of Remedies is never an estimate: it was applied and
// planned, and Proposal.Apply repeats this for anyone who doubts it. Nothing here reads a clock.
// Searches are bounded in plans and containers, so that the same input has the same answer
// everywhere. If a bound ends a search, or if it cannot check every combination, the answer is "not
// searched further" and never "none": "none" and "no fewer" are exact. A search ends with its
// context and then has no answer.
//
// The documents are ready for JSON: amounts are CPUs, bytes or devices, CPU sets are in the
// kernel's list format, and NUMA nodes are lists of ids. Sentences are for people and may change.
// The id of the rule behind a sentence is not part of the sentence but in a field beside it: Rule
// or, if a value has several sentences, the field named after the sentence.
package explain
