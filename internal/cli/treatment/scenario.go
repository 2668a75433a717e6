package treatment

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/cli/replay"
	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/node"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
)

// FromScenario is replay.Player.Find: the state of a node on which a kubelet has decided.
func FromScenario(f *replay.Found, on replay.FoundOn) (*node.State, error) {
	texts, err := textsIn(f)
	if err != nil {
		return nil, err
	}
	for _, of := range []struct {
		manager kubeletstate.Manager
		static  bool
		what    string
	}{{kubeletstate.CPUManager, on.Policy.StaticCPU, "CPUs"}, {kubeletstate.MemoryManager, on.Policy.StaticMemory, "memory"}} {
		name := of.manager.FileName()
		if _, is := f.State.Checkpoints[name]; of.static && !is {
			return nil, fmt.Errorf("found.state.checkpoints has no %s: expected the text of that file, which has the %s of the pods", name, of.what)
		}
	}
	pods, err := rosterIn(f, on.Pods)
	if err != nil {
		return nil, err
	}
	n := &inputs.Node{Found: &discover.Found{Name: "machine", Machine: on.Machine}, Policy: inputs.Policy{Policy: on.Policy}, Devices: on.Inventory}
	shown, err := Found{Path: "found", Pods: pods, Version: on.Version}.OfFiles(texts, n)
	if err != nil {
		return nil, fmt.Errorf("found: %w", err)
	}
	return shown.State, nil
}

// textsIn returns the state files in the order of their managers.
func textsIn(f *replay.Found) ([]Text, error) {
	known := []kubeletstate.Manager{kubeletstate.CPUManager, kubeletstate.MemoryManager, kubeletstate.DeviceManager}
	for name := range f.State.Checkpoints {
		if !slices.ContainsFunc(known, func(m kubeletstate.Manager) bool { return m.FileName() == name }) {
			return nil, fmt.Errorf("found: checkpoint %q: expected the name of a state file of the CPU, Memory or Device Manager", name)
		}
	}
	var texts []Text
	for _, m := range known {
		if text, is := f.State.Checkpoints[m.FileName()]; is {
			texts = append(texts, Text{Name: m.FileName(), Manager: m, Data: []byte(text)})
		}
	}
	return texts, nil
}

// rosterIn returns the pods that run, with their status.
func rosterIn(f *replay.Found, pods map[string]*v1.Pod) (inputs.Roster, error) {
	roster := inputs.Roster{}
	for _, uid := range f.Running {
		if pods[uid] == nil {
			return nil, fmt.Errorf("found: running: pod %q is none of the scenario's pods", uid)
		}
		if roster[uid] != nil {
			return nil, fmt.Errorf("found: running: pod %q is there twice", uid)
		}
		p := pods[uid].DeepCopy()
		p.Status.Phase = v1.PodRunning
		for _, name := range f.Started[uid] {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, v1.ContainerStatus{
				Name: name, ContainerID: "containerd://" + uid + "/" + name, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
			})
		}
		roster[podspec.UID(p)] = p
	}
	return roster, nil
}
