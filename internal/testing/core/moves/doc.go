// Package moves tests internal/core/moves on the states of scenarios. The language of scenarios is
// above the core; internal/testing/core/node explains why. The package has tests only.
package moves
