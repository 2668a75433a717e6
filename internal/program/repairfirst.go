package program

import (
	"cmp"
	"fmt"

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
	out := &view.Repair{Command: "paddock " + d.stock.shown.Repair}
	for _, f := range d.stock.shown.Faults {
		out.Faults = append(out.Faults, view.FileFault{File: f.File, What: f.What})
	}
	repaired, err := node.Restore(state.Machine(), state.Policy(), state.Grants())
	if err == nil {
		repaired, err = repaired.WithDevices(state.Devices().Inventory())
	}
	if err != nil {
		return nil, err
	}
	kubelet := quirk.New(d.as.version)
	for _, changed := range kubelet.Again(repaired) {
		q := changed.Quirks[0]
		out.Before = append(out.Before, view.BeforeStart{Pod: changed.Pod, Quirk: string(q.ID), Why: cmp.Or(q.Reason(), q.Text), Do: q.BeforeStart()})
		for g := range repaired.AllGrants() {
			if g.Pod.ID() == changed.Pod {
				repaired = repaired.Release(g.Pod.UID)
			}
		}
	}
	name := ""
	if d.stock.node != nil {
		name = d.stock.node.Name
	}
	out.Order(name, quirk.DeleteFirst)
	plan, quirks, _ := kubelet.Admit(repaired, asked)
	if plan = quirk.Answer(plan, quirks); plan.Rejection == nil {
		out.Admits, out.Then = true, view.HasOn(repaired, plan.Grant)
	} else {
		out.Then = fmt.Sprintf("rejected (%s)", plan.Rejection.Reason)
	}
	return out, nil
}
