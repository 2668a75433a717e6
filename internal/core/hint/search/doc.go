// Package search decides which few NUMA nodes of a machine to keep.
//
// # The problem
//
// A Problem has NUMA nodes and bins. An answer keeps some of the NUMA nodes and drops each of the
// others into a bin. A bin has dimensions, each with a capacity, and a NUMA node in the bin takes a
// load of each dimension. Package hint states its questions in this form. A bin represents a hint
// list, and a dimension represents a resource that the list needs. The capacity is the amount that
// the NUMA nodes offer beyond the need, and a load is the amount that one NUMA node offers. In the
// literature this is vector bin packing with as few items left over as possible.
//
// Any returns an answer of a given size, Fewest the size of the smallest answer, Lowest the answer
// with the smallest number, and Closest the answer whose NUMA nodes are closest to each other. It
// is always possible to keep more NUMA nodes than necessary.
//
// # How it is searched
//
// The search is a branch and bound. It takes one NUMA node after the other, and keeps it or drops
// it into one of the bins (branch). The bound is a Lagrangian relaxation (relax): capacity has a
// price, and a dropped NUMA node need not fit into its bin but pays for what it takes. Each NUMA
// node goes where it pays least, and those that would pay most are kept. The relaxation settles the
// question in two cases:
//
//   - The dropped NUMA nodes happen to fit. Then the choice is an answer. Most questions end here,
//     at once.
//   - The NUMA nodes pay more than all capacity costs. Then there is no answer at any prices.
//
// Otherwise the overloaded dimensions become more expensive, the others become cheaper, and the
// search branches. So prices improve while it runs. They determine how long the search takes and
// never what it finds. All numbers are whole. Loads are compared exactly. Prices are paid for loads
// that are rounded down, out of capacity that is not rounded, so that rounding never excludes an
// answer.
//
// Lowest asks at most one question for each NUMA node (lowest). Closest divides the NUMA nodes into
// classes that are interchangeable with respect to distances: 2 classes on a machine with two
// sockets, and 8 on one with 32 NUMA nodes in quads. It searches over the number of NUMA nodes of
// each class to keep, and asks only for counts that are closer than the best so far (nearest).
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
