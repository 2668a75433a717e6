package scenario

import (
	"errors"
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/core/node"
)

// runReserve reserves what a pod would get now until it is admitted. The command "unreserve" ends
// the reservation.
func (n *Node) runReserve(c Command) ([]string, error) {
	why := node.OnItsWay
	switch {
	case len(c.Args) == 2 && c.Args[1] == "room" && c.Name == "reserve":
		why = node.RoomForPod
	case len(c.Args) == 2 && c.Args[1] == "move" && c.Name == "reserve":
		return n.reserveMove(c.Args[0])
	case len(c.Args) != 1:
		return nil, errors.New(c.Name + ": want the name of one pod; \"room\" behind it reserves as for a pod for which others are moved, and \"move\" the place to which it moves")
	}
	pod, unknown := n.Request(c.Args[0])
	if unknown != nil {
		return nil, unknown
	}
	others := slices.DeleteFunc(slices.Clone(n.state.Reservations()), func(r node.Reservation) bool { return r.Grant.Pod.UID == pod.UID })
	if c.Name == "unreserve" {
		ended := len(n.state.Reservations()) - len(others)
		n.state = n.state.WithReservations(others)
		return []string{fmt.Sprintf("%d reservations end", ended)}, nil
	}
	plan := n.state.Plan(pod)
	if plan.Rejection != nil || plan.Known {
		return n.describePlan(plan), nil //nolint:nilerr // A rejection is an answer.
	}
	n.state = n.state.WithReservations(append(others, node.Reservation{Grant: plan.Grant, Why: why}))
	return n.describeGrant("reserved", plan.Grant), nil
}

// reserveMove reserves another place for an admitted pod, which is about to be moved there.
func (n *Node) reserveMove(uid string) ([]string, error) {
	g, known := n.state.Grant(uid)
	if !known {
		return nil, fmt.Errorf("pod %q is not on the node", uid)
	}
	plan := Elsewhere(n.state, g)
	if plan.Rejection != nil {
		return describeRejection(plan.Rejection), nil //nolint:nilerr // A rejection is an answer.
	}
	n.state = n.state.WithReservations(append(slices.Clone(n.state.Reservations()), node.Reservation{Grant: plan.Grant, Why: node.MovedTo}))
	return n.describeGrant("reserved", plan.Grant), nil
}
