package program

import (
	"fmt"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/kubelet/quirk"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// repair returns what to repair on a node whose kubelet does not start again on its files, and
// whether a pod would be admitted after that. It returns nil if the kubelet starts again, or if
// that is not known.
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
