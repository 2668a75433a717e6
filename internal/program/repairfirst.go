package program

import (
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/kubelet/quirk"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// untilStart returns a note about the pods to which the next start of the kubelet assigns a second
// pool, because the answer changes with that start. It returns "" if there are no such pods, or if
// the kubelet does not start again; in that case, the repair describes what to do.
func (d *decider) untilStart(state *node.State) string {
	if d.stock == nil || !d.as.kubelet() || len(d.stock.shown.Faults) > 0 {
		return ""
	}
	var pods []string
	why := ""
	for _, changed := range quirk.New(d.as.version).Again(state) {
		if at := slices.IndexFunc(changed.Quirks, func(q quirk.Quirk) bool { return q.ID == quirk.SecondPool }); at >= 0 {
			pods, why = append(pods, changed.Pod), fmt.Sprintf("%s: %s", quirk.SecondPool, changed.Quirks[at].Reason())
		}
	}
	if len(pods) == 0 {
		return ""
	}
	which := pods[0] + " has"
	if len(pods) > 1 {
		which = fmt.Sprintf("%d pods have, such as %s", len(pods), pods[0])
	}
	note := fmt.Sprintf("this answer holds until the kubelet starts again: its start changes what %s (%s)", which, why)
	if d.stock.node != nil {
		note += fmt.Sprintf(`; "paddock upgrade-check --to %s --state %s" shows what it does`, d.as.version, d.stock.node.Path())
	}
	return note + "; to avoid it, drain the node before a start of the kubelet, or use topologyManagerScope container"
}

// repair returns the repair of a node whose kubelet does not start again on its files, and whether
// the node would admit a pod afterwards. It returns nil if the kubelet starts again, or if that is
// unknown.
func (d *decider) repair(state *node.State, asked request.Pod) (*view.Repair, error) {
	if d.stock == nil || len(d.stock.shown.Faults) == 0 {
		return nil, nil //nolint:nilnil // There is nothing to repair.
	}
	var pods inputs.Roster
	name := ""
	if n := d.stock.node; n != nil {
		pods, name = n.Objects.On(n.Name), n.Name
	}
	out, repaired, err := d.stock.shown.RepairFirst(state, d.as.version, pods, name)
	if err != nil {
		return nil, err
	}
	kubelet := quirk.New(d.as.version)
	plan, quirks, _ := kubelet.Admit(repaired, asked)
	if plan = quirk.Answer(plan, quirks); plan.Rejection == nil {
		out.Admits, out.Then = true, view.HasOn(repaired, plan.Grant)
	} else {
		out.Then = fmt.Sprintf("rejected (%s)", plan.Rejection.Reason)
	}
	return out, nil
}
