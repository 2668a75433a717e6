package node

import "errors"

// MaxGeneration is the last generation. With two states of one generation, a plan for the first
// could apply to the second, so a state never counts beyond it. A thousand changes a second reach
// it in 285,000 years, so a file with a higher one was not written by counting. It is 2^53-1, which
// every reader of JSON keeps exact, browsers among them.
const MaxGeneration = 1<<53 - 1

// ErrExhausted is returned by Apply at MaxGeneration. Pods can still be released.
var ErrExhausted = errors.New("the state has counted all its revisions")

// Resume returns the state at a generation that it had before: a restored state goes on counting
// where the one that was written stopped, also when the newest grant is older than that, so that no
// two states have one generation. A generation that s has passed changes nothing, and one above
// MaxGeneration is MaxGeneration.
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
// Apply rejects every plan there, so that none can meet a state that it was not made for. The
// reservations stay; what is free of them is found again.
func (s *State) next() *State {
	n := *s
	if s.reserved != nil {
		n.reserved = &reserved{list: s.reserved.list}
	}
	n.generation = min(s.generation+1, MaxGeneration)
	return &n
}
