// Package moves tests internal/core/moves on the states of scenarios, whose language is above the
// core: internal/testing/core/node has the reason. It has tests only.
package moves
