package scenario

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/node"
)

// Elsewhere plans a pod of the node at another place than the one that it has: on what is free
// beside that, whatever is reserved. Its devices stay.
func Elsewhere(s *node.State, g *node.Grant) *node.Plan {
	place := *g
	place.Pod.UID = "" // So it is kept from the pod itself, too.
	place.Containers = slices.Clone(g.Containers)
	for i := range place.Containers {
		place.Containers[i].Devices = nil
	}
	return s.Release(g.Pod.UID).WithReservations([]node.Reservation{{Grant: &place}}).Replan(g)
}
