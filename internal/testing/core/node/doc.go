// Package node tests the planner of internal/core/node as a whole: with scenarios in testdata,
// random histories, a model, and benchmarks. It is separate from the planner because the tests need
// packages above the core: the language of scenarios, state files and explanations. The core is a
// module of its own and must not require these. The package has tests only.
package node
