package node

// Bare returns s without its grants. It is small, and keeps nothing of the pods alive except
// reservations, so it is suited to repeat a decision later. For a pod that is not in s, Plan gives
// the same answer, except that the account of a rejection names no pods that have a grant. Use a
// bare state only with Plan: Apply, Release and Check need the grants.
func (s *State) Bare() *State {
	bare := *s
	bare.grants = roster{}
	return &bare
}
