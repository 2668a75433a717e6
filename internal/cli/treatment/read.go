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

// Text is a state file that was read, with its manager.
type Text struct {
	Name    string
	Manager kubeletstate.Manager
	Data    []byte
}

// errManager is wrapped by errors about files that could belong to any manager.
var errManager = errors.New("neither its content nor its name shows whether it is a CPU or a memory state")

// managers are all managers that have a file.
var managers = []kubeletstate.Manager{kubeletstate.CPUManager, kubeletstate.MemoryManager, kubeletstate.DRAManager, kubeletstate.DeviceManager}

// Read reads files, at most one for each manager. A file with the kubelet's name for it belongs to
// that manager even if its content is damaged. For other names the content decides.
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

// split separates the files about devices from the others.
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

// stateOf returns the combined state of the files. It calls accept for each file. The file is nil
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

// notStdin rejects standard input, because the files are replaced.
func notStdin(names []string) error {
	if slices.Contains(names, "-") {
		return errors.New("standard input cannot be replaced: name the files")
	}
	return nil
}

// owners maps the container ids in the status of pods to their containers.
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
