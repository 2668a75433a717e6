package node

import (
	"errors"
	"fmt"
)

// MaxGeneration is the last generation. A state counts no further: two states of one generation
// would let a plan for the first apply to the second. A thousand changes a second reach it in
// 285,000 years, so that a file with more was not written by counting. It is 2^53-1, which
// every reader of JSON keeps exact, browsers among them.
const MaxGeneration = 1<<53 - 1

// ErrExhausted is returned by Apply at MaxGeneration. Pods can still be released.
var ErrExhausted = errors.New("the state has counted all its revisions")

// Resume returns the state at a generation that it had before: a restored state goes on counting
// where the one that was written stopped, also when the newest grant is older than that, so that
// no generation stands for two states. A generation that s has passed changes nothing, and
// one above MaxGeneration is MaxGeneration.
func (s *State) Resume(generation uint64) *State {
	generation = min(generation, MaxGeneration)
	if generation <= s.generation {
		return s
	}
	n := *s
	n.generation = generation
	return &n
}

// next is a copy to be changed, one generation later. At MaxGeneration it has the same one:
// Apply refuses every plan there, so that none can meet a state that it was not made for.
func (s *State) next() *State {
	n := *s
	n.generation = min(s.generation+1, MaxGeneration)
	return &n
}

// checkRevision tells whether p can change this state.
func (s *State) checkRevision(p *Plan) error {
	switch {
	case p.Base != s.generation:
		return fmt.Errorf("%w: revision %d, now %d", ErrStale, p.Base, s.generation)
	case p.Grant != nil && !p.Known && s.generation >= MaxGeneration:
		return fmt.Errorf("%w: %d is the last; drain the node and start with a new state file", ErrExhausted, s.generation)
	}
	return nil
}
