package node

// Resume returns the state at a generation that it had before: a restored state goes on counting
// where the one that was written stopped, also when the newest grant is older than that, so that
// no generation stands for two states. A generation that s has passed changes nothing.
func (s *State) Resume(generation uint64) *State {
	if generation <= s.generation {
		return s
	}
	n := *s
	n.generation = generation
	return &n
}
