package treatment

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/kubelet/doctor"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
)

// Text is a state file as it was read, and the manager that it is of.
type Text struct {
	Name    string
	Manager kubeletstate.Manager
	Data    []byte
}

// errManager is wrapped by the errors about files that could be of any manager.
var errManager = errors.New("neither its content nor its name shows whether it is a CPU or a memory state")

// managers are all that have a file.
var managers = []kubeletstate.Manager{kubeletstate.CPUManager, kubeletstate.MemoryManager, kubeletstate.DRAManager, kubeletstate.DeviceManager}

// Read reads files, at most one of each manager. A file with the kubelet's name for it is of that
// manager even if its content is damaged; under another name the content decides.
func Read(r inputs.Reader, names []string) ([]Text, error) {
	var texts []Text
	seen := map[kubeletstate.Manager]string{}
	for _, name := range names {
		data, err := r.File(name)
		if err != nil {
			return nil, err
		}
		var m kubeletstate.Manager
		if i := slices.IndexFunc(managers, func(m kubeletstate.Manager) bool { return filepath.Base(name) == m.FileName() }); i >= 0 {
			m = managers[i]
		} else if f, err := kubeletstate.RecogniseDevices(data); err == nil {
			m = f.Manager
		} else if f, err := kubeletstate.Recognise(data); err == nil {
			m = f.Manager
		} else {
			return nil, fmt.Errorf("%s: %w; %w", name, err, errManager)
		}
		if first, twice := seen[m]; twice {
			return nil, fmt.Errorf("%s: %s is a state of the %s already; a node has one", name, first, m)
		}
		seen[m] = name
		texts = append(texts, Text{name, m, data})
	}
	return texts, nil
}

// split parts the texts about devices from the others.
func split(texts []Text) (states, devices []Text) {
	for _, t := range texts {
		if t.Manager.HasDevices() {
			devices = append(devices, t)
		} else {
			states = append(states, t)
		}
	}
	return states, devices
}

// stateOf is the state that files have together. accept is asked about each file; the file is nil
// if it cannot be read.
func stateOf(texts []Text, accept func(Text, *kubeletstate.File, error) error) (*doctor.State, error) {
	s := &doctor.State{}
	for _, t := range texts {
		f, err := kubeletstate.Recognise(t.Data)
		if err == nil && f.Manager != t.Manager {
			err = fmt.Errorf("it is a state of the %s", f.Manager)
		}
		if err := accept(t, f, err); err != nil {
			return nil, fmt.Errorf("%s: %w", t.Name, err)
		}
		s.Add(f)
	}
	return s, nil
}

// notStdin is for files that are replaced.
func notStdin(names []string) error {
	if slices.Contains(names, "-") {
		return errors.New("standard input cannot be replaced: name the files")
	}
	return nil
}

// owners are the containers of pods by the id in their status.
func owners(pods inputs.Roster) map[string]doctor.Owner {
	byID := map[string]doctor.Owner{}
	for uid, pod := range pods {
		for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			_, id, _ := strings.Cut(status.ContainerID, "://")
			byID[id] = doctor.Owner{UID: uid, Container: status.Name}
		}
	}
	return byID
}
