package treatment

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/codec/statefile"
	"github.com/paddock-project/paddock/internal/core/behavior"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/kubelet/quirk"
)

// Stock is a node on which a kubelet decides, as a user names its files.
type Stock struct {
	// Path is the kubelet's directory, a copy of it, or one of its state files.
	Path string
	// Machine, Config and Devices name the files that describe the node. If Machine is
	// discover.LiveName, or Config is empty, they are those of the directory. Devices may be empty.
	Machine, Config, Devices string
	// Pods are files of the pods and the Node. If empty, they are those of the directory. Objects
	// is what they have, if they were read before.
	Pods    []string
	Objects *inputs.Objects
	// Name is the name of the Kubernetes node, or empty if it is the one of the objects.
	Name string
	// Version is the kubelet, or zero if it is the one that the Node names.
	Version behavior.Version
	Quota   node.QuotaPolicy
}

// StockNode is a node on which a kubelet decides.
type StockNode struct {
	*inputs.Node
	// Shown is the state. It is empty after an error.
	Shown *Shown
	// Objects are the pods and the Node. Name is the name of the node, or empty if the pods have no
	// node.
	Objects *inputs.Objects
	Name    string
	Version behavior.Version
	// Config is the file with the configuration.
	Config string
	// Notes are remarks about the inputs, without the faults of Shown.
	Notes []string
	// WhatIf are notes if the kubelet or the configuration is given, and is another one than that
	// of the node. The answer is then not about the node as it is.
	WhatIf []string

	found Found
}

// ReadStock reads a node of a fleet. It returns nil if the path is not a kubelet's.
func ReadStock(r inputs.Reader, files inputs.StockFiles) (*inputs.StockFound, error) {
	if is, err := OfKubelet(r, files.Path); err != nil || !is {
		return nil, err
	}
	n, err := Stock{Path: files.Path, Machine: files.Machine, Config: files.Config, Devices: files.Devices, Version: files.Version}.Read(r)
	if err != nil {
		return nil, err
	}
	state, err := n.Shown.ForPlans(n.Shown.State)
	if err != nil {
		return nil, err
	}
	n.Node.Devices = n.Shown.inventory(n.Node.Devices)
	return &inputs.StockFound{
		Node: n.Node, State: state, Name: n.Name, Object: n.Objects.Nodes[n.Name], Pods: n.Objects.On(n.Name),
		Version: n.Version, Notes: slices.Concat(n.Notes, n.WhatIf, n.Shown.FaultNotes()),
	}, nil
}

// Read reads the node. It assumes nothing: what is neither given nor in the directory is an error
// that names it. Even with an error, it returns the notes.
func (k Stock) Read(r inputs.Reader) (*StockNode, error) {
	out := &StockNode{Shown: &Shown{}, Objects: k.Objects, Name: k.Name, Version: k.Version}
	if err := Usable(k.Path); err != nil {
		return out, of(r.Names.State, err)
	}
	if ofFleet(r.Names) && !isDir(k.Path) {
		return out, fmt.Errorf("%s is a file, and a node of a fleet has its pods and its Node beside it: name the folder with the state files, %s, %s and the configuration of the kubelet", k.Path, podsFile, nodeFile)
	}
	folder, err := FolderOf(k.Path)
	if err != nil {
		return out, of(r.Names.State, err)
	}
	given, config := k.Machine, k.Config
	k.Machine = folder.MachineOr(given)
	if k.Config = cmp.Or(k.Config, folder.Config); k.Config == "" {
		return out, folder.NoConfig(r.Names)
	}
	out.Config = k.Config
	if err := out.objects(r, folder, k.Pods); err != nil {
		return out, err
	}
	if err := out.kubelet(r.Names, k.Path); err != nil {
		return out, err
	}
	r.Minor = out.Version.Minor
	if out.Node, err = r.Node(inputs.NodeFiles{Machine: k.Machine, Policy: k.Config, Devices: k.Devices, Quota: k.Quota}); err != nil {
		return out, err
	}
	out.Notes = append(append(out.Notes, out.Found.Notes...), out.Policy.Warnings...)
	near, err := folder.places(r)
	if err != nil {
		return out, err
	}
	object := out.Objects.Nodes[out.Name]
	out.found = Found{Near: near, Copied: true, Own: folder.ownMachine(r, given), OwnPolicy: folder.ownPolicy(r, config, out.Found.Machine), Path: k.Path, Pods: out.Objects.On(out.Name), Elsewhere: out.Objects.Elsewhere(out.Name), Node: object, Unlinked: object == nil, Version: out.Version}
	out.WhatIf = whatIf(object, k.Version, folder, out.found.OwnPolicy, out.Policy.Policy)
	if out.Shown, err = out.found.State(r, out.Node); err != nil {
		out.Shown = &Shown{}
		return out, err
	}
	if len(out.Shown.Faults) > 0 {
		out.Shown.Repair = out.repairCommand()
	}
	out.Notes = append(out.Notes, out.Shown.Notes...)
	for _, d := range out.Shown.OfNode() {
		out.Notes = append(out.Notes, "unsure: "+d.String())
	}
	return out, nil
}

// otherKubelet returns the kubelet of a Node, which may be nil, and reports whether it decides
// otherwise than the given one. The given one is zero if it is that of the Node.
func otherKubelet(o *v1.Node, given behavior.Version) (behavior.Version, bool) {
	if o == nil || given == (behavior.Version{}) {
		return given, false
	}
	runs, _, err := behavior.OfNode(o.Status.NodeInfo.KubeletVersion)
	if err != nil {
		return given, false
	}
	has, err := behavior.Of(runs)
	as, wrong := behavior.Of(given)
	return runs, err != nil || wrong != nil || runs.Minor != given.Minor || has != as
}

// whatIf returns StockNode.WhatIf. given is the kubelet that the user named, or zero, and own the
// policy of the folder if the user named another configuration, or nil.
func whatIf(o *v1.Node, given behavior.Version, f Folder, own *node.Policy, policy node.Policy) (notes []string) {
	if runs, other := otherKubelet(o, given); other {
		notes = append(notes, fmt.Sprintf("the Node runs kubelet %s: this is what %s would do", runs, given))
	}
	if own == nil {
		return notes
	}
	if others := statefile.OtherSettings(*own, policy); len(others) > 0 {
		notes = append(notes, fmt.Sprintf("the configuration in %s has %s: this is an answer for another configuration", f.Config, strings.Join(others, ", ")))
	}
	return notes
}

// of returns an error with the user's name for an input, unless the name is empty.
func of(what string, err error) error {
	if what == "" {
		return err
	}
	return fmt.Errorf("%s: %w", what, err)
}

// objects reads the pods and the Node, unless they were read before, and finds the name of the
// node.
func (n *StockNode) objects(r inputs.Reader, folder Folder, pods []string) error {
	if n.Objects == nil {
		paths, err := folder.Objects(r.Names, pods)
		if err != nil {
			return err
		}
		if n.Objects, err = r.Objects(paths); err != nil {
			return err
		}
	}
	if err := OneNode(n.Objects); err != nil {
		return err
	}
	if n.Name != "" {
		return nil
	}
	var err error
	if n.Name, err = n.Objects.NodeName(); err != nil {
		return of(r.Names.Pods, err)
	}
	return nil
}

// kubelet finds the version of the kubelet, unless it is given.
func (n *StockNode) kubelet(inputNames inputs.Names, path string) error {
	if n.Version != (behavior.Version{}) {
		return nil
	}
	object := n.Objects.Nodes[n.Name]
	if object == nil {
		names := behavior.Names()
		if ofFleet(inputNames) {
			return fmt.Errorf("the Node is missing, so it is not known which kubelet decides on %s: put it there (kubectl get node NODE -o json > %s), or set as of this node in a file for --nodes, such as as: %s",
				path, filepath.Join(path, nodeFile), names[len(names)-1])
		}
		return fmt.Errorf("the Node is missing, so it is not known which kubelet decides on %s: put it into the folder (kubectl get node NODE -o json > node.json) or into --pods, or name the kubelet of the node, such as --as %s", path, names[len(names)-1])
	}
	text := object.Status.NodeInfo.KubeletVersion
	if text == "" {
		return errors.New("node " + n.Name + ": its status has no version of the kubelet: collect the Node again, or name the kubelet with --as")
	}
	version, exact, err := behavior.OfNode(text)
	if err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	n.Version = version
	if newest, _ := behavior.Newest(version.Minor); !exact {
		n.Notes = append(n.Notes, fmt.Sprintf("node %s runs kubelet %s, which was not recorded itself: it is answered as %s, with the known changes since %s", n.Name, text, newest, version))
	}
	return nil
}

// Path returns the path of the kubelet's files.
func (n *StockNode) Path() string { return n.found.Path }

// repairCommand returns the command that shows what a repair of the files changes, as arguments of
// paddock. What is not in the directory of the files is in flags.
func (n *StockNode) repairCommand() string {
	command, path := "state repair --dry-run", n.found.Path
	if n.Found.Name != path && n.Found.Name != discover.LiveName {
		command += " --machine " + n.Found.Name
	}
	if n.Config != path {
		command += " --kubelet-config " + n.Config
	}
	if n.found.Node == nil || !isDir(path) {
		command += fmt.Sprintf(" --kubelet 1.%d", n.Version.Minor)
	}
	if files := several(path); files != nil {
		path = strings.Join(files, " ")
	}
	return command + " " + path
}

// Waiting returns the pods that are bound to the node and about which the kubelet has not decided,
// by their creation: none of their containers has started, and the files have nothing of them. Pods
// that get nothing of their own are left out.
func (n *StockNode) Waiting() ([]*v1.Pod, error) {
	pods := n.Objects.On(n.Name)
	asked, err := pods.Requests(podspec.GatesOf(n.Policy.Policy))
	if err != nil {
		return nil, err
	}
	var waiting []*v1.Pod
	for i := range asked {
		pod := pods[asked[i].UID]
		_, has := n.Shown.State.Grant(asked[i].UID)
		if !has && pod.Spec.NodeName != "" && waits(pod) && (Owns(n.Shown.State, &asked[i]) || len(resourcesOf(&asked[i])) > 0) {
			waiting = append(waiting, pod)
		}
	}
	return waiting, nil
}

// Before returns the state with the pods that ended at a time or later, as far as the files still
// have their CPUs and memory: the kubelet removes them when it admits the next pod.
func (n *StockNode) Before(r inputs.Reader, at time.Time) (*Shown, error) {
	f := n.found
	f.Pods = maps.Clone(f.Pods)
	for uid, pod := range f.Pods {
		if podspec.Ended(pod) && Started(pod) && !endOf(pod).Before(at) {
			f.Pods[uid] = running(pod)
		}
	}
	return f.State(r, n.Node)
}

// running returns a pod as if it had not ended.
func running(pod *v1.Pod) *v1.Pod {
	ran := pod.DeepCopy()
	ran.Status.Phase, ran.Status.Reason, ran.Status.Message = v1.PodRunning, "", ""
	return ran
}

// AtStart returns how the kubelet decided at its start about a pod that ran, with the pods that
// have not ended. It is nil if the files have nothing of the pod any more: the kubelet removes it
// when it admits the next pod.
func (n *StockNode) AtStart(r inputs.Reader, pod *v1.Pod) (*quirk.Readmission, error) {
	f := n.found
	f.Pods = maps.Clone(f.Pods)
	uid := podspec.UID(pod)
	f.Pods[uid] = running(pod)
	names, err := f.files()
	if err != nil {
		return nil, err
	}
	texts, err := Read(r, names)
	if err != nil {
		return nil, err
	}
	start, err := readmit(f, texts, f.Pods, n.Node, assumptions{})
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(start.all, func(a quirk.Readmission) bool { return a.Pod.UID == uid })
	if at < 0 || start.all[at].Had == nil {
		return nil, nil //nolint:nilnil // The files do not show it.
	}
	return &start.all[at], nil
}
