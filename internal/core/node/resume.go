package node

import "errors"

// MaxGeneration is the last generation. If two states had the same generation, a plan for the first
// one could apply to the second one, so a state never counts beyond it. A thousand changes per
// second reach it in 285,000 years, so a file with a higher generation was not written by counting.
// It is 2^53-1, which every JSON reader, including browsers, represents exactly.
const MaxGeneration = 1<<53 - 1

// ErrExhausted is returned by Apply at MaxGeneration. Pods can still be released.
var ErrExhausted = errors.New("the state has counted all its revisions")

// Resume returns the state at a generation that it had before. A restored state continues to count
// where the written one stopped, even if its newest grant is older, so that no two states have the
// same generation. A generation below that of s changes nothing. One above MaxGeneration becomes
// MaxGeneration.
func (s *State) Resume(generation uint64) *State {
	generation = min(generation, MaxGeneration)
	if generation <= s.generation {
		return s
	}
	n := *s
	n.generation = generation
	return &n
}

// next returns a copy to be changed, one generation later. At MaxGeneration, the copy has the same
// generation: Apply rejects every plan there, so none can apply to a state for which it was not
// made. The reservations stay, and what is free of them is computed again.
func (s *State) next() *State {
	n := *s
	if s.reserved != nil {
		n.reserved = &reserved{list: s.reserved.list}
	}
	n.generation = min(s.generation+1, MaxGeneration)
	return &n
}
