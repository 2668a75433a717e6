package treatment

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Folder has what lies beside the state files of a kubelet: in the kubelet's own directory, or in
// the folder that the script of paddock collect makes. A field is empty if there is nothing of it.
type Folder struct {
	// Machine and Config are the folder itself, if files in it describe the machine, or how the
	// kubelet is configured.
	Machine, Config string
	// Objects are the files of the Node and its pods.
	Objects []string
}

// These are the files that show what a folder has. The readers of a machine and of a configuration
// find their files by themselves.
var (
	machineFiles = []string{"machine.json", "lscpu.json"}
	configFiles  = []string{"configz.json", "config.yaml", "config.yml", "config.json", "kubelet-config.yaml", "kubeletconfig.yaml"}
	objectFiles  = []string{"node.json", "pods.json"}
)

// FolderOf returns what the folder at a path has. A file is a folder with nothing in it.
func FolderOf(path string) (Folder, error) {
	var f Folder
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return f, err
	}
	for _, kind := range []struct {
		names []string
		found func(name string)
	}{
		{machineFiles, func(string) { f.Machine = path }},
		{configFiles, func(string) { f.Config = path }},
		{objectFiles, func(name string) { f.Objects = append(f.Objects, name) }},
	} {
		for _, name := range kind.names {
			name = filepath.Join(path, name)
			if _, err := os.Stat(name); err == nil {
				kind.found(name)
			} else if !errors.Is(err, fs.ErrNotExist) {
				return f, err
			}
		}
	}
	return f, nil
}
