package scenario

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/node"
)

// Elsewhere plans a pod of the node at a place other than its present one. The plan uses resources
// that are free in addition to that place, and ignores reservations. The pod keeps its devices.
func Elsewhere(s *node.State, g *node.Grant) *node.Plan {
	place := *g
	place.Pod.UID = "" // Without a UID, the reservation applies to the pod itself, too.
	place.Containers = slices.Clone(g.Containers)
	for i := range place.Containers {
		place.Containers[i].Devices = nil
	}
	return s.Release(g.Pod.UID).WithReservations([]node.Reservation{{Grant: &place}}).Replan(g)
}
