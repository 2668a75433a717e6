package treatment

import (
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/kubelet/doctor"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
)

// Repair describes for which kubelet to repair the files of a node, and where to write them.
type Repair struct {
	Kubelet Kubelet
	// Pods are the names of manifests of all pods of the node. Pods that are not in them have
	// ended. If empty, all pods are assumed to exist.
	Pods []string
	// Save is a directory. If empty, the files are replaced.
	Save string
}

// Plan plans a repair of state files, or of those in a directory. The plan has no files if the
// kubelet starts on the files as they are, nothing in them needs a repair, and all their pods
// exist. The error wraps doctor.ErrUnmendable or doctor.ErrRejected if they cannot be repaired. It
// is an *OtherMachineError if they can be of another machine.
func (c Repair) Plan(r inputs.Reader, names []string) (*Plan, error) {
	if err := notStdin(names); err != nil {
		return nil, err
	}
	from, err := Sources{Names: names, Kubelet: c.Kubelet, Pods: c.Pods}.Complete(r, NeedVersion)
	if err != nil {
		return nil, err
	}
	texts, err := Read(r, from.Names)
	if err != nil {
		return nil, err
	}
	if from.Kubelet.Config == "" {
		return nil, from.Folder.NoConfig(r.Names)
	}
	setup, notes, err := from.Kubelet.Setup(r)
	if err != nil {
		return nil, err
	}
	pods := from.Roster
	all := texts
	texts, devices := split(texts)
	verified := Verify(texts, setup, pods)
	if doubt := from.Found().ofOtherMachine(verified, setup); doubt != nil {
		return nil, &OtherMachineError{*doubt}
	}
	from.Found().addSteps(verified, all, setup)
	sound := true // set while the kubelet starts on the files, and no finding recommends a command
	old, err := stateOf(texts, func(t Text, f *kubeletstate.File, err error) error {
		if f == nil {
			return fmt.Errorf("%w; there is nothing to repair it from: drain the node and delete it", err)
		}
		d := doctor.Verify(t.Manager, t.Data, setup)
		sound = sound && d.Answer() == doctor.Starts && !slices.ContainsFunc(d.Findings, func(f doctor.Finding) bool { return f.Command != "" })
		return err
	})
	if err != nil {
		return nil, err
	}
	plan := &Plan{Kubelet: setup.Kubelet, Pods: pods, Unprotected: old.Unprotected, Notes: notes}
	if at := slices.IndexFunc(verified, func(v Verified) bool { return len(v.Steps) > 0 }); at >= 0 {
		plan.Steps = verified[at].Steps
	}
	known := doctor.Pods{Owners: owners(pods)}
	if pods != nil {
		known.Alive, known.Init = pods.Alive, pods.IsInit
		sound = sound && !slices.ContainsFunc(old.Pods(), func(uid string) bool { return !pods.Alive(uid) })
	}
	for _, t := range devices {
		now, remarks, err := doctor.RepairDevices(t.Manager, t.Data, known)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Name, err)
		}
		if now != nil {
			plan.Remarks = append(plan.Remarks, remarks...)
			plan.Files = append(plan.Files, toKubelet(map[kubeletstate.Manager][]byte{t.Manager: now}, c.Save, devices)...)
		}
	}
	if sound {
		return plan, nil
	}
	now, remarks, err := doctor.Repair(old, setup, known)
	if err != nil {
		return nil, err
	}
	files, err := now.Encode(setup.Kubelet)
	if err != nil {
		return nil, err
	}
	plan.Remarks = append(remarks, plan.Remarks...)
	plan.Files = append(toKubelet(files, c.Save, texts), plan.Files...)
	return plan, doctor.Check(files, setup)
}
