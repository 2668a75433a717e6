package node

import "github.com/paddock-project/paddock/internal/core/request"

// Bare returns s without its grants. It is small, and keeps nothing of the pods alive except
// reservations, so it is suited to repeat a decision later. For a pod that is not in s, Plan gives
// the same answer, except that the account of a rejection names no pods that have a grant. Use a
// bare state only with Plan: Apply, Release and Check need the grants.
func (s *State) Bare() *State {
	bare := *s
	bare.grants = roster{}
	return &bare
}

// Preview is Plan for callers that only ask: the plan cannot be applied. The account of a rejection
// does not name pods, because that takes most of the time of a rejection.
func (s *State) Preview(pod request.Pod) *Plan {
	if _, known := s.Grant(pod.UID); !known {
		s = s.Bare()
	}
	return s.Plan(pod)
}
