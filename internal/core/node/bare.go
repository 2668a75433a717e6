package node

// Bare returns s without its grants, which is small and keeps nothing of the pods alive but what is
// reserved: what is needed to make a decision again. Plan gives the same answer for a pod that is
// not in s, but for the account of a rejection, which names no pods that have a grant. A bare state
// is for Plan alone: Apply, Release and Check need the grants.
func (s *State) Bare() *State {
	bare := *s
	bare.grants = roster{}
	return &bare
}
