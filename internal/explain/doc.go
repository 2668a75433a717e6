// Package explain describes why a pod got what it got, what would have admitted one that was
// rejected, and what a node's free CPUs and memory are still good for.
//
// It decides nothing: what it finds of moves of running pods is what package moves finds. Three
// questions have an answer here, each a function of values of the core:
//
//	Of(state, plan)                     Decision  one decision, in the order of its flow
//	Search(ctx, state, pod, elsewhere)  Remedies  the smallest changes that admit a rejected pod
//	Usage(ctx, state)                   Report    how the node is used, and how badly cut up it is
//
// A Decision is made of the plan with its trace (package node) and of the state before it. What was
// asked, how a pool is divided, what came of an alignment and why a pod was rejected are the
// trace's; wherever a Decision reports that something would not do, it has asked the same hint.Set
// that the merge asked. A Proposal of Remedies is never an estimate: it was applied and planned,
// and Proposal.Apply does the same again for whoever doubts it. Nothing here reads a clock: the
// searches are bounded in plans and containers, so that the same input has the same answer
// everywhere. Where the bound ends a search, or where it cannot look at every combination, the
// answer is "not searched further", and never "none": "none" and "no fewer" are exact. A search
// ends with its context, and has no answer then.
//
// The documents are ready for JSON: amounts are CPUs, bytes or devices, CPU sets are in the
// kernel's list format, NUMA nodes are lists of ids. Sentences are for people, and may
// change. The id of the rule behind a sentence is not in it but in a field beside it: Rule, or,
// where a value has several sentences, the one with the sentence's name.
package explain
