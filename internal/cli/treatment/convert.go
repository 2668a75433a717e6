package treatment

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/codec/statefile"
	"github.com/paddock-project/paddock/internal/kubelet/doctor"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
	"github.com/paddock-project/paddock/internal/node/replacement"
)

// Paddock is the target of a conversion for Paddock's own file.
const Paddock = "paddock"

// kubelets are the other targets.
var kubelets = map[string]kubeletstate.Kubelet{
	"kubelet-1.35":          {Minor: 35},
	"kubelet-1.36":          {Minor: 36, PodLevelManagers: true},
	"kubelet-1.36-gate-off": {Minor: 36},
	"kubelet-1.37":          {Minor: 37, PodLevelManagers: true},
	"kubelet-1.37-gate-off": {Minor: 37},
}

// Targets returns the targets of a conversion.
func Targets() []string { return append(slices.Sorted(maps.Keys(kubelets)), Paddock) }

// Conversion describes what to convert, for which target, and where to write it.
type Conversion struct {
	// To is one of Targets.
	To string
	// Save is a directory for the kubelet's files, or the name of Paddock's file.
	Save string
	// Machine and Config name the machine and the KubeletConfiguration of the target.
	Machine, Config string
	// Pods are the names of manifests of the pods of the node.
	Pods []string
}

// Plan plans a conversion of the files of a node, or of those in a directory. The error wraps
// doctor.ErrRejected if the target would not start with Config on the files. Even with an error, a
// plan can be returned for its notes.
func (c Conversion) Plan(r inputs.Reader, names []string) (*Plan, error) {
	to, isKubelet := kubelets[c.To]
	if !isKubelet && c.To != Paddock {
		return nil, fmt.Errorf("--to %q: expected %s or %s", c.To, strings.Join(slices.Sorted(maps.Keys(kubelets)), ", "), Paddock)
	}
	if err := notStdin(names); err != nil {
		return nil, err
	}
	from, err := Sources{Names: names, Kubelet: Kubelet{Machine: c.Machine, Config: c.Config}, Pods: c.Pods}.Complete(r, NeedFiles)
	if err != nil {
		return nil, err
	}
	names, c.Machine = from.Names, from.Kubelet.Machine
	if isKubelet { // The configuration of a folder is that of a kubelet, and not the agent's.
		c.Config = from.Kubelet.Config
	}
	pods := from.Roster
	if data, err := r.File(names[0]); err != nil {
		return nil, err
	} else if statefile.Begins(data) {
		if !isKubelet || len(names) > 1 {
			return nil, fmt.Errorf("%s is a state of Paddock: name it alone, and a kubelet as --to", names[0])
		}
		return c.fromPaddock(r, names[0], data, to)
	}
	texts, err := Read(r, names)
	if err != nil {
		return nil, err
	}
	texts, devices := split(texts)
	if len(devices) > 0 && !from.InFolder {
		return nil, fmt.Errorf("%s: every kubelet has the same file of its %s: leave it where it is, and name the CPU and memory states", devices[0].Name, devices[0].Manager)
	}
	var notes []string
	old, err := stateOf(texts, func(t Text, f *kubeletstate.File, err error) error {
		switch {
		case err != nil:
			return err
		case !f.Valid():
			return errors.New(`its checksum is wrong; run "paddock state verify" and "paddock state repair" first`)
		}
		for _, u := range f.Unknown {
			notes = append(notes, fmt.Sprintf("%s: field %s is not known and gets lost: %s", t.Name, u.Path, u.Value))
		}
		return nil
	})
	if err != nil {
		return &Plan{Notes: notes}, err
	}
	if !isKubelet {
		return c.toPaddock(r, old, notes, pods)
	}
	if len(texts) == 1 {
		notes = append(notes, fmt.Sprintf("only the state of the %s is converted; a kubelet reads both", texts[0].Manager))
	}
	plan := &Plan{Kubelet: to, Pods: pods, Notes: notes}
	var now *doctor.State
	if now, plan.Remarks, err = doctor.Convert(old, to, owners(pods)); err != nil {
		return plan, err
	}
	return plan, c.finish(plan, r, old, now, texts)
}

// finish adds the fates of the pods and the files. If the configuration of the target is known, it
// checks that the target starts on the files.
func (c Conversion) finish(plan *Plan, r inputs.Reader, old, now *doctor.State, texts []Text) error {
	files, err := now.Encode(plan.Kubelet)
	if err != nil {
		return err
	}
	if c.Config != "" {
		found, err := r.Machine(c.Machine)
		if err != nil {
			return err
		}
		if !slices.Equal(plan.Notes, found.Notes) { // They are equal if the source is Paddock.
			plan.Notes = append(plan.Notes, found.Notes...)
		}
		policy, more, err := r.KubeletPolicy(c.Config, found.Machine)
		if err != nil {
			return err
		}
		plan.Notes = append(plan.Notes, more...)
		policy.PodLevelManagers = plan.Kubelet.PodLevelManagers
		if err := doctor.Check(files, doctor.Setup{Kubelet: plan.Kubelet, Machine: found.Machine, Policy: policy}); err != nil {
			return fmt.Errorf("with %s: %w", c.Config, err)
		}
	}
	for _, uid := range old.Pods() {
		plan.Fates = append(plan.Fates, Fate{plan.Pods.Name(uid), doctor.Fate(old, uid, plan.Kubelet)})
	}
	plan.Files = toKubelet(files, c.Save, texts)
	return nil
}

func (c Conversion) fromPaddock(r inputs.Reader, name string, data []byte, to kubeletstate.Kubelet) (*Plan, error) {
	if c.Save == "" {
		return nil, errors.New("--save is missing: the directory for the kubelet's files, such as /var/lib/kubelet")
	}
	file, err := statefile.Decode(name, data)
	if err != nil {
		return nil, err
	}
	found, err := r.Machine(c.Machine)
	if err != nil {
		return nil, err
	}
	old, lost, err := doctor.FromPaddock(file, found.Machine)
	if err != nil {
		return nil, err
	}
	now, remarks, err := doctor.Convert(old, to, nil)
	if err != nil {
		return nil, err
	}
	plan := &Plan{Kubelet: to, Remarks: append(lost, remarks...), Pods: inputs.Roster{}, Notes: found.Notes}
	for _, g := range file.Grants {
		pod := &v1.Pod{}
		pod.Namespace, pod.Name = g.Pod.Namespace, g.Pod.Name
		plan.Pods[g.Pod.UID] = pod
	}
	return plan, c.finish(plan, r, old, now, nil)
}

func (c Conversion) toPaddock(r inputs.Reader, old *doctor.State, notes []string, pods inputs.Roster) (*Plan, error) {
	switch {
	case c.Save == "":
		return nil, errors.New("--save is missing: the file for the state of Paddock, such as /var/lib/paddock/state.json")
	case c.Config == "":
		return nil, errors.New("--kubelet-config is missing: the configuration of the agent, which can be another one than that of the kubelet")
	case pods == nil:
		return nil, errors.New("--pods is missing: all pods that run on the node (kubectl get pods -A --field-selector spec.nodeName=NODE -o json)")
	}
	found, err := r.Machine(c.Machine)
	if err != nil {
		return nil, err
	}
	policy, more, err := r.KubeletPolicy(c.Config, found.Machine)
	if err != nil {
		return nil, err
	}
	notes = append(notes, more...)
	asked, err := pods.Requests(podspec.GatesOf(*policy))
	if err != nil {
		return nil, err
	}
	state, err := doctor.ToPaddock(old, found.Machine, *policy, asked)
	if err != nil {
		return nil, err
	}
	data, err := statefile.Encode(state)
	if err != nil {
		return nil, err
	}
	return &Plan{State: state, Notes: append(notes, found.Notes...), Files: []*replacement.File{{Path: c.Save, Data: data, Agent: true}}}, nil
}
