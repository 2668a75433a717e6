package treatment

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
	"github.com/paddock-project/paddock/internal/node/podsource/kubeletdevices"
)

// Folder has what lies beside the state files of a kubelet: in the kubelet's own directory, or in
// the folder that the script of paddock collect makes. A field is empty if there is nothing of it.
type Folder struct {
	// Path is the folder.
	Path string
	// Machine and Config are the folder itself, if files in it describe the machine, or how the
	// kubelet is configured.
	Machine, Config string
	// Node and Pods are the files of the Node and its pods. Pending is the file of the pods that
	// have no node yet.
	Node, Pods, Pending string
	// Allocatable is the kubelet's answer about its devices, which the script of paddock collect
	// asks for.
	Allocatable string
}

// The files that are known by their names.
const (
	numactlFile = "numactl.txt"
	lscpuFile   = "lscpu.json"
	kernelFile  = "isolation.txt"
	cachesFile  = "resctrl.txt"
	nodeFile    = "node.json"
	podsFile    = "pods.json"
	pendingFile = "pending.json"

	allocatableFile = "allocatable_resources"
)

// These are the files that show what a folder has. The readers of a machine and of a configuration
// find their files by themselves.
var (
	machineFiles = []string{"machine.json", lscpuFile, numactlFile}
	configFiles  = []string{"configz.json", "config.yaml", "config.yml", "config.json", "kubelet-config.yaml", "kubeletconfig.yaml"}
)

// FolderOf returns what the folder at a path has. A file is a folder with nothing in it.
//
// A folder with a Node or pods was collected from a node, and so its machine is the node's, even if
// the files about it are missing: the machine on which Paddock runs is another one.
func FolderOf(path string) (Folder, error) {
	f := Folder{Path: path}
	if several(path) != nil {
		return f, nil
	}
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return f, err
	}
	machine, err := filesIn(path, machineFiles...)
	if err != nil {
		return f, err
	}
	if _, err := filesIn(path, kernelFile, cachesFile); err != nil { // They are no machine, but must not be damaged.
		return f, err
	}
	config, err := filesIn(path, configFiles...)
	if err != nil {
		return f, err
	}
	objects, err := filesIn(path, nodeFile, podsFile, pendingFile)
	if err != nil {
		return f, err
	}
	devices, err := filesIn(path, allocatableFile)
	if err != nil {
		return f, err
	}
	if len(devices) > 0 {
		f.Allocatable = devices[0]
	}
	for _, name := range objects {
		switch filepath.Base(name) {
		case nodeFile:
			f.Node = name
		case podsFile:
			f.Pods = name
		case pendingFile:
			f.Pending = name
		}
	}
	if len(machine)+len(objects) > 0 {
		f.Machine = path
	}
	if len(config) > 0 {
		f.Config = path
	}
	return f, nil
}

// maxConfigz is the size of the largest answer of /configz that is read, in bytes.
const maxConfigz = 1 << 20

// usable returns an error if a file of a folder is empty, cut off or no file. Without it, a reader
// that recognises files by their content takes a damaged one for a missing one. A pipe, which may
// never end, is not read.
func usable(name string) error {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a file: collect it again", name)
	case info.Size() == 0:
		return fmt.Errorf("%s is empty: collect it again", name)
	case filepath.Base(name) == numactlFile:
		return usableOutput(name, "the output of numactl -H, which has a line \"available: 2 nodes (0-1)\"", "available: ")
	case filepath.Base(name) == lscpuFile:
		return usableOutput(name, "the output of lscpu -J -e=CPU,NODE,SOCKET,CORE,CACHE,ONLINE, which has a list \"cpus\"", `"cpus"`, `"lscpu"`)
	case filepath.Base(name) == kernelFile:
		return usableOutput(name, "the output of grep -H . /sys/devices/system/cpu/isolated /proc/cmdline, which has lines that begin with the names of the files", "/sys/devices/system/cpu/isolated:", "/proc/cmdline:")
	case filepath.Base(name) != "configz.json":
		return nil
	case info.Size() > maxConfigz:
		return fmt.Errorf("%s has %d bytes, which is too large for an answer of /configz: collect it again", name, info.Size())
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if !json.Valid(data) {
		return fmt.Errorf("%s is not JSON, for example because it was cut off: collect it again", name)
	}
	var fields map[string]json.RawMessage
	isObject := json.Unmarshal(data, &fields) == nil
	if _, answer := fields["kubeletconfig"]; !isObject || !answer && fields["kind"] == nil {
		return fmt.Errorf("%s is not the answer of /configz, which has a field \"kubeletconfig\": collect it again (kubectl get --raw /api/v1/nodes/NODE/proxy/configz)", name)
	}
	return nil
}

// usableOutput returns an error if the begin of a file has none of the texts, which the output of a
// command has. What describes that output.
func usableOutput(name, what string, texts ...string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	const most = 64 << 10
	data, err := io.ReadAll(io.LimitReader(f, most))
	if err == nil && !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(string(data), text) }) {
		err = fmt.Errorf("%s is not %s: collect it again, or remove it", name, what)
	}
	return err
}

// filesIn returns the paths of those of the files that are in a directory.
func filesIn(dir string, names ...string) ([]string, error) {
	var paths []string
	for _, name := range names {
		name = filepath.Join(dir, name)
		switch err := usable(name); {
		case err == nil:
			paths = append(paths, name)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	return paths, nil
}

// places returns the NUMA nodes of devices as the kubelet answered, by resource and id. It returns
// nil if the folder does not have the answer.
func (f Folder) places(r inputs.Reader) (map[string]map[string]mask.Mask, error) {
	if f.Allocatable == "" {
		return nil, nil
	}
	data, err := r.File(f.Allocatable)
	if err != nil {
		return nil, err
	}
	devices, err := kubeletdevices.ReadAllocatable(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: collect it again, or remove it", f.Allocatable, err)
	}
	return kubeletdevices.Places(devices), nil
}

// MachineOr returns the machine of the folder if the user named none, and otherwise the one that
// the user named.
func (f Folder) MachineOr(named string) string {
	if named == discover.LiveName && f.Machine != "" {
		return f.Machine
	}
	return named
}

// ownMachine returns the machine of the folder if the user named another one. It returns nil if the
// files of the folder do not describe one, which can be why the user named another one.
func (f Folder) ownMachine(r inputs.Reader, named string) *machine.Machine {
	if f.Machine == "" || f.MachineOr(named) == f.Machine {
		return nil
	}
	found, err := r.Machine(f.Machine)
	if err != nil {
		return nil
	}
	return found.Machine
}

// ownPolicy returns how the files of the folder configure the kubelet if the user named another
// configuration. It returns nil if they do not.
func (f Folder) ownPolicy(r inputs.Reader, named string, m *machine.Machine) *node.Policy {
	if f.Config == "" || named == "" || named == f.Config {
		return nil
	}
	policy, _, err := r.KubeletPolicy(f.Config, m)
	if err != nil {
		return nil
	}
	return policy
}

// Objects returns the files to read objects from: the given ones, or else the pods of the folder,
// and the Node of the folder. It returns an error if there are no pods.
func (f Folder) Objects(names inputs.Names, pods []string) ([]string, error) {
	const ask = "kubectl get pods -A --field-selector spec.nodeName=NODE -o json"
	switch {
	case len(pods) > 0 || f.Pods != "":
		return f.objects(pods), nil
	case ofFleet(names):
		return nil, fmt.Errorf("%s has no pods.json, so it is not known which pods run: put all pods of the node there (%s > %s)", f.Path, ask, filepath.Join(f.Path, podsFile))
	}
	return nil, fmt.Errorf("%s has no pods.json, so it is not known which pods run: add --pods FILE, all pods of the node (%s)", f.Path, ask)
}

// ofFleet reports whether inputs with these names are those of one node of a fleet, which has no
// flags of its own: what is missing belongs into its folder or into its entry.
func ofFleet(names inputs.Names) bool { return names == inputs.Fields }

// objects is Objects for a command that does not need pods.
func (f Folder) objects(pods []string) []string {
	paths := slices.Clone(pods)
	if len(paths) == 0 && f.Pods != "" {
		paths = append(paths, f.Pods)
	}
	if f.Node != "" {
		paths = append(paths, f.Node)
	}
	return paths
}

// noDirectory ends an error about a directory without the files of a kubelet. It names the only
// directory in it that has some.
func noDirectory(dir string) string {
	const what = "it is not a kubelet's directory, such as /var/lib/kubelet, or a copy of one"
	entries, err := os.ReadDir(dir)
	if err != nil {
		return what
	}
	var found []string
	for _, e := range entries {
		inside := filepath.Join(dir, e.Name())
		if names, err := filesIn(inside, kubeletstate.CPUManager.FileName(), kubeletstate.MemoryManager.FileName()); e.IsDir() && err == nil && len(names) > 0 {
			found = append(found, inside)
		}
	}
	if len(found) == 1 {
		return what + "; did you mean " + found[0] + "?"
	}
	return what
}
