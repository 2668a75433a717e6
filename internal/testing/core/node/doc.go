// Package node tests the planner of internal/core/node as a whole: scenarios in testdata, random
// histories, a model, and benchmarks. It is apart from what it tests because it needs what is above
// the core (the language of scenarios, state files, explanations). The core is a module of its own
// and must not require that. It has tests only.
package node
