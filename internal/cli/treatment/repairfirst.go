package treatment

import (
	"cmp"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/behavior"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/kubelet/doctor"
	"github.com/paddock-project/paddock/internal/kubelet/quirk"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// RepairFirst returns what to do before a kubelet starts on the files of a node with faults, in its
// order, and the state after that. pods are those of the node, and name is its name or empty. It
// returns nil if the files have no faults.
func (s *Shown) RepairFirst(state *node.State, version behavior.Version, pods inputs.Roster, name string) (*view.Repair, *node.State, error) {
	if len(s.Faults) == 0 {
		return nil, nil, nil //nolint:nilnil // There is nothing to repair.
	}
	out := &view.Repair{}
	if s.Repair != "" {
		out.Command = "paddock " + s.Repair
	}
	for _, f := range s.Faults {
		out.Faults = append(out.Faults, view.FileFault{File: f.File, What: f.What})
	}
	repaired, err := node.Restore(state.Machine(), state.Policy(), state.Grants())
	if err == nil {
		repaired, err = repaired.WithDevices(state.Devices().Inventory())
	}
	if err != nil {
		return nil, nil, err
	}
	for _, changed := range quirk.New(version).Again(repaired) {
		for g := range repaired.AllGrants() {
			if g.Pod.ID() == changed.Pod {
				out.Before = append(out.Before, beforeStart(pods[g.Pod.UID], changed))
				repaired = repaired.Release(g.Pod.UID)
			}
		}
	}
	out.Order(name)
	return out, repaired, nil
}

// beforeStart returns what to do about a pod that a start changes. pod is nil if it is not known.
func beforeStart(pod *v1.Pod, changed quirk.Changed) view.BeforeStart {
	q := changed.Quirks[0]
	out := view.BeforeStart{Pod: changed.Pod, Quirk: string(q.ID), Why: cmp.Or(q.Reason(), q.Text), Do: q.BeforeStart()}
	switch {
	case out.Do == quirk.DeleteFirst && pod == nil:
		out.Deleted = podspec.Unknown
	case out.Do == quirk.DeleteFirst && !ofNode(pod):
		out.Deleted = podspec.RecreationOf(pod)
	case pod != nil:
		out.Do = strings.Replace(out.Do, quirk.DeleteFirst, away(pod), 1)
	}
	return out
}

// addSteps adds to files with a fault what to do before the kubelet starts, if that is more than to
// repair the files: a start changes pods, too. What the files do not show is left out.
func (f Found) addSteps(verified []Verified, texts []Text, s doctor.Setup) {
	if f.Pods == nil || s.Policy == nil || Answer(verified) != doctor.Rejects {
		return
	}
	if f.Version == (behavior.Version{}) {
		f.Version, _ = behavior.Newest(s.Kubelet.Minor)
	}
	n, err := nodeOf(s)
	if err != nil {
		return
	}
	shown, err := f.OfFiles(texts, n)
	if err != nil {
		return
	}
	name := ""
	if f.Node != nil {
		name = f.Node.Name
	}
	repair, _, err := shown.RepairFirst(shown.State, f.Version, f.Pods, name)
	if err != nil || repair == nil || len(repair.Before) == 0 {
		return
	}
	for i := range verified {
		if verified[i].Diagnosis.Answer() == doctor.Rejects {
			verified[i].Steps = repair.Steps
		}
	}
}
