package treatment

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/core/machine"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
)

// Sources are the inputs of a command about the state files of a kubelet, as a user names them.
type Sources struct {
	// Names are the state files, or one directory that has them.
	Names []string
	// Kubelet is the kubelet that reads the files.
	Kubelet Kubelet
	// Pods are files of the pods of the node.
	Pods []string

	// Folder is what the directory has, or zero if Names are files. InFolder is set for a
	// directory.
	Folder   Folder
	InFolder bool
	// Roster are the pods of the node. It is nil if they are not known.
	Roster inputs.Roster

	own  *machine.Machine // as in Found
	node *v1.Node         // as in Found
}

// Found returns the files as what is known of a node.
func (s Sources) Found() Found {
	path := s.Folder.Path
	if !s.InFolder {
		path = strings.Join(s.Names, ", ")
	}
	return Found{Path: path, Pods: s.Roster, Own: s.own, Node: s.node, SameMachine: s.Kubelet.SameMachine}
}

// Need is what a command must know about a kubelet beside its state files.
type Need int

// The needs. A higher one includes the lower ones.
const (
	// NeedFiles means that the state files are enough.
	NeedFiles Need = iota
	// NeedConfig means that the configuration of the kubelet must be known.
	NeedConfig
	// NeedVersion means that the version of the kubelet must be known, too.
	NeedVersion
)

// Complete reads the pods. If the command names a directory, it replaces the directory by the state
// files in it, and takes from it what the user did not give. What is needed and is in neither is an
// error, because a default would be the answer for another kubelet.
func (s Sources) Complete(r inputs.Reader, need Need) (Sources, error) {
	at := slices.IndexFunc(s.Names, isDir)
	if at < 0 {
		var err error
		s.Roster, err = r.Roster(s.Pods)
		return s, err
	}
	dir := s.Names[at]
	if len(s.Names) > 1 {
		return s, fmt.Errorf("%s is a directory: name it alone, or name the state files", dir)
	}
	var err error
	if s.Names, err = StateFiles(dir); err != nil {
		return s, err
	}
	if s.Folder, err = FolderOf(dir); err != nil {
		return s, err
	}
	s.InFolder = true
	s.own = s.Folder.ownMachine(r, s.Kubelet.Machine)
	s.Kubelet.Machine = s.Folder.MachineOr(s.Kubelet.Machine)
	if s.Kubelet.Config = cmp.Or(s.Kubelet.Config, s.Folder.Config); s.Kubelet.Config == "" && need >= NeedConfig {
		return s, s.Folder.NoConfig(r.Names)
	}
	return s, s.objects(r, need)
}

// objects reads the Node and the pods, those that the user named or else those of the folder.
func (s *Sources) objects(r inputs.Reader, need Need) error {
	paths := s.Folder.objects(s.Pods)
	known := len(s.Pods) > 0 || s.Folder.Pods != ""
	objects := &inputs.Objects{}
	if len(paths) > 0 {
		var err error
		if objects, err = r.Objects(paths); err != nil {
			return err
		}
	}
	if err := OneNode(objects); err != nil {
		return err
	}
	name, err := objects.NodeName()
	if err != nil {
		return fmt.Errorf("%s: the pods are of several nodes: give those of one node", strings.Join(paths, ", "))
	}
	if known {
		s.Roster = objects.On(name)
	}
	s.node = objects.Nodes[name]
	if s.Kubelet.Version != "" || need < NeedVersion {
		return nil
	}
	if n := s.node; n != nil && n.Status.NodeInfo.KubeletVersion != "" {
		s.Kubelet.Version, _, _ = strings.Cut(n.Status.NodeInfo.KubeletVersion, "+")
		return nil
	}
	return fmt.Errorf("%s has no node.json with the version of the kubelet, so it is not known which kubelet reads the files: add --kubelet VERSION, such as --kubelet 1.36", s.Folder.Path)
}

// OneNode returns an error if there is a Node, and pods only of other nodes.
func OneNode(o *inputs.Objects) error {
	all := inputs.Roster{}
	for _, p := range o.Pods {
		all[string(p.UID)+"/"+p.Namespace+"/"+p.Name] = p
	}
	names := nodeNames(all)
	if len(o.Nodes) != 1 || len(names) == 0 {
		return nil
	}
	for name := range o.Nodes {
		if !slices.Contains(names, name) {
			return fmt.Errorf("the pods are on node %s, and the Node is %s: give the pods and the Node of one node", strings.Join(names[:min(len(names), fewNames)], ", "), name)
		}
	}
	return nil
}

// fewNames is how many names of nodes fit in an error.
const fewNames = 3

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir() && path != "-"
}

// StateFiles returns the state files of a kubelet in a directory: its own, or a copy without
// subdirectories. It returns an error if there are none.
func StateFiles(dir string) ([]string, error) {
	var names []string
	for _, m := range managers {
		found, err := filesIn(dir, m.FileName())
		if err == nil && len(found) == 0 && m == kubeletstate.DeviceManager {
			found, err = filesIn(dir, filepath.Join("device-plugins", m.FileName()))
		}
		if err != nil {
			return nil, err
		}
		names = append(names, found...)
	}
	if len(names) == 0 {
		all := make([]string, len(managers))
		for i, m := range managers {
			all[i] = m.FileName()
		}
		return nil, fmt.Errorf("%s has none of %s: %s", dir, strings.Join(all, ", "), noDirectory(dir))
	}
	return names, nil
}

// NoConfig returns the error for a folder without a configuration.
func (f Folder) NoConfig(names inputs.Names) error {
	if ofFleet(names) {
		return fmt.Errorf("%s has neither configz.json nor config.yaml, so it is not known how the kubelet decides: put the kubelet's config.yaml there, or the answer of its /configz as configz.json; or set kubeletConfig of this node in a file for --nodes", f.Path)
	}
	if !isDir(f.Path) {
		return errors.New("it is not known how the kubelet decides: add --kubelet-config FILE, its config.yaml or the answer of its /configz")
	}
	return fmt.Errorf("%s has neither configz.json nor config.yaml, so it is not known how the kubelet decides: add --kubelet-config FILE, its config.yaml or the answer of its /configz", f.Path)
}

// Usable returns an error if a path is not a state file of a kubelet, and not a directory with one
// for the CPU or the Memory Manager.
func Usable(path string) error {
	if !isDir(path) {
		names := several(path)
		if names == nil {
			names = []string{path}
		}
		for _, name := range names {
			if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return nil
	}
	_, err := Found{Path: path}.files()
	return err
}
