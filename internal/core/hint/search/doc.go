// Package search decides which few NUMA nodes of a machine to keep.
//
// # The problem
//
// A Problem has NUMA nodes and bins. An answer keeps some of the NUMA nodes and drops each of the
// others into a bin. A bin has dimensions with a capacity each, and a NUMA node in the bin takes
// a load of each dimension. Package hint states its questions in this form: a bin represents one
// hint list, a dimension for a resource that the list needs, its capacity for what the NUMA nodes
// offer beyond the need, and a load for what a NUMA node offers. In the literature this is vector
// bin packing with as few items left over as possible.
//
// Any, Fewest, Lowest and Closest ask for an answer of some size, for the size of the smallest
// answer, for the answer that is the smallest number, and for the one whose NUMA nodes are
// closest to each other. More NUMA nodes than necessary can always be kept.
//
// # How it is searched
//
// Branch and bound: keep a NUMA node or drop it into one of the bins, one NUMA node after the
// other (branch). The bound is a Lagrangian relaxation (relax). Capacity has a price, and a
// dropped NUMA node need not fit into its bin, but pays for what it takes. Each goes where it
// pays least, and those that would pay most are kept. There are two ways to be done:
//
//   - What is dropped happens to fit. Then it is an answer. Most questions end here, at once.
//   - What is paid exceeds what all capacity costs. Then there is no answer, at any prices.
//
// Otherwise the dimensions that were overloaded become more expensive, the others cheaper, and
// the search branches. So prices improve while it runs. They decide how long it takes and never
// what it finds. All numbers are whole: loads are compared exactly, and prices are paid for loads
// that are rounded down, out of capacity that is not, so that rounding never excludes an answer.
//
// Lowest asks at most one question for each NUMA node (lowest). Closest divides the NUMA nodes
// into classes that are interchangeable as far as distances go, 2 on a machine with two sockets
// and 8 on one with 32 NUMA nodes in quads, searches over how many of each class to keep, and
// asks only for counts that are closer than the best so far (nearest).
//
// # Limits
//
// The questions contain bin packing and densest subgraph, so the worst case is exponential.
// Search.Budget limits the steps. Machines with a hierarchy of distances stay far below
// hint.DefaultBudget. Irregular distances between dozens of NUMA nodes, each a class of its own,
// can reach it.
//
// The tests compare each question with a twin that tries every mask and every bin.
package search
