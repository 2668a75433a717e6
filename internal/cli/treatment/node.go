package treatment

import (
	"fmt"
	"os"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/codec/statefile"
	"github.com/paddock-project/paddock/internal/core/behavior"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/kubelet/doctor"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
)

// OfKubelet reports whether a path is a directory or a state file of a kubelet, and not a state of
// Paddock. It does not read a pipe, which can be read only once.
func OfKubelet(r inputs.Reader, path string) (bool, error) {
	if path == "" || path == "-" {
		return false, nil
	}
	if names := several(path); names != nil {
		for _, name := range names {
			if is, err := OfKubelet(r, name); err != nil || !is {
				return is, err
			}
		}
		return true, nil
	}
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return err == nil && info.IsDir(), err
	}
	data, err := r.File(path)
	if err != nil || statefile.Begins(data) {
		return false, err
	}
	if _, err = kubeletstate.Recognise(data); err != nil {
		_, err = kubeletstate.RecogniseDevices(data)
	}
	return err == nil, nil
}

// Found is a node as a kubelet's own files describe it.
type Found struct {
	// Path is the kubelet's directory, or one or several of its files. Pods are the pods of the
	// node, at least all that run.
	Path string
	Pods inputs.Roster
	// Elsewhere maps the UIDs of pods on other nodes to the names of these nodes.
	Elsewhere map[string]string
	// Unlinked is set if no Node shows that the pods and the files are of the same node.
	Unlinked bool
	// Node is the Node of the pods, or nil if it is not known.
	Node *v1.Node
	// Copied is set if the pods are not the kubelet's own answer, so that they can be of another
	// time or node than the files.
	Copied bool
	// Own is the machine that the folder of the files describes, if another one was given.
	// SameMachine is set if the given machine is that of the files in any case.
	Own         *machine.Machine
	SameMachine bool
	// OwnPolicy is how the folder of the files configures the kubelet, if another file was given.
	OwnPolicy *node.Policy
	// NextConfig is set if the given configuration is that of the next start, which can reserve
	// other CPUs than the Node.
	NextConfig bool
	// Version is the kubelet that decides on the files.
	Version behavior.Version
	// Near has the NUMA nodes of devices of device plugins, by resource and id, as far as the
	// kubelet lists them. Its files have only those of devices that a pod has or had.
	Near map[string]map[string]mask.Mask
	// Unreleased leaves what pods have that do not run as residue, as a kubelet does during its
	// start. Otherwise it is free.
	Unreleased bool
}

// State returns the state of the kubelet with its behavior, on a node, with the devices of its
// pods.
//
// Pods that have ended, or are not among Pods, have nothing any more: the kubelet removes what they
// had before it admits the next pod. CPUs that are neither in the file's default set nor assigned
// are residue.
func (f Found) State(r inputs.Reader, n *inputs.Node) (*Shown, error) {
	texts, err := f.Texts(r)
	if err != nil {
		return nil, err
	}
	return f.OfFiles(texts, n)
}

// Texts reads the files.
func (f Found) Texts(r inputs.Reader) ([]Text, error) {
	names, err := f.files()
	if err != nil {
		return nil, err
	}
	if isDir(f.Path) {
		if names, err = StateFiles(f.Path); err != nil {
			return nil, err
		}
	}
	return Read(r, names)
}

// OfFiles is State for files that were read.
func (f Found) OfFiles(texts []Text, n *inputs.Node) (*Shown, error) {
	_, more := split(texts)
	known, err := f.devicesOf(more, n)
	if err != nil {
		return nil, err
	}
	return f.of(texts, n, known)
}

// Of is OfFiles without devices.
func (f Found) Of(texts []Text, n *inputs.Node) (*Shown, error) { return f.of(texts, n, nil) }

func (f Found) of(texts []Text, n *inputs.Node, known *devices) (*Shown, error) {
	pods := f.Pods
	setup := doctor.Setup{Kubelet: kubeletstate.Kubelet{Minor: f.Version.Minor, PodLevelManagers: n.Policy.Policy.PodLevelManagers}, Machine: n.Found.Machine, Policy: &n.Policy.Policy, Name: pods.Name}
	found, verified, err := f.read(texts, setup)
	if err != nil {
		return nil, err
	}
	ofMachine, ofConfig := f.others(verified, setup)
	others := slices.Concat(ofMachine, ofConfig)
	whole := *found
	gone := found.Drop(pods.Alive)
	notes, err := f.stillListed(gone)
	if err != nil {
		return nil, err
	}
	if f.Unreleased && found.CPU != nil {
		found.CPU.Default = whole.CPU.Default
	}
	asked, err := pods.Requests(podspec.GatesOf(n.Policy.Policy))
	if err != nil {
		return nil, err
	}
	if known != nil {
		known.give(asked, pods)
		found.Devices = known.assigned
	}
	state, err := doctor.AsIs(found, n.Found.Machine, n.Policy.Policy, asked)
	if err != nil {
		why := "\"paddock state verify\" shows everything that is wrong with the files"
		if len(others) > 0 {
			why = others[0].String()
		}
		return nil, fmt.Errorf("%s: %w; %s", f.Path, err, why)
	}
	as, err := behavior.Of(f.Version)
	if err != nil {
		return nil, err
	}
	shared := state.SharedCPUs()
	if found.CPU != nil && n.Policy.Policy.StaticCPU {
		if shared, err = f.shared(found.CPU, n); err != nil {
			return nil, err
		}
	}
	var accounting []memory.NodeUsage
	if n.Policy.Policy.StaticMemory {
		released := gone
		if f.Unreleased {
			released = nil
		}
		if accounting, err = whole.Accounting(state.Memory().Capacity(), released, setup.Kubelet.CountsPools()); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Path, err)
		}
	}
	state = state.As(as).Found(shared, accounting)
	out := &Shown{Notes: notes, doubts: slices.Concat(others, f.strangers(&whole), f.absent(state, asked)), devices: known}
	if len(others) == 0 { // Otherwise nothing is wrong with the files.
		out.Faults, out.Lost = f.faults(verified), f.lost(state)
	}
	out.Deleted = !f.allUnknown(&whole) && slices.ContainsFunc(gone, func(uid string) bool { return pods[uid] == nil })
	inventory := n.Devices
	if known != nil {
		if inventory, err = known.left(n.Found.Machine, state); err != nil {
			return nil, err
		}
	}
	if out.State, err = state.WithDevices(inventory); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	return out, nil
}

// stillListed returns a note about the pods that the files have and that are not alive.
func (f Found) stillListed(gone []string) (notes []string, err error) {
	if len(gone) == 0 {
		return nil, nil
	}
	var unknown, ended, known []string
	for _, uid := range gone {
		if other := f.Elsewhere[uid]; other != "" {
			return nil, fmt.Errorf("%s has CPUs or memory of pod %s, which is on node %s: these are the files of another node than the pods", f.Path, uid, other)
		}
		if f.Pods[uid] == nil {
			unknown = append(unknown, uid)
		} else {
			ended = append(ended, f.Pods.Name(uid))
		}
	}
	switch len(ended) {
	case 0:
	case 1:
		known = append(known, ended[0]+", which has ended")
	default:
		known = append(known, strings.Join(ended, ", ")+", which have ended")
	}
	switch len(unknown) {
	case 0:
	case 1:
		known = append(known, "a pod that is gone (UID "+unknown[0]+")")
	default:
		known = append(known, fmt.Sprintf("%d pods that are gone (UIDs %s)", len(unknown), strings.Join(unknown, ", ")))
	}
	return []string{fmt.Sprintf("%s still lists CPUs or memory of %s: %s", f.Path, strings.Join(known, "; of "), releases)}, nil
}

// read reads the files that the managers need, and returns them with their diagnoses. With faults
// in them, the kubelet runs and does not start again.
func (f Found) read(texts []Text, setup doctor.Setup) (*doctor.State, []Verified, error) {
	texts, _ = split(texts)
	found := &doctor.State{}
	var verified []Verified
	for _, t := range texts {
		d := doctor.Verify(t.Manager, t.Data, setup)
		if d.Read == nil {
			return nil, nil, fmt.Errorf("%s: %s does not start on it: %s; if the kubelet runs, the copy is not that of the node: collect it again", t.Name, f.Version.Name(), d.Findings[0].What)
		}
		verified = append(verified, Verified{Name: t.Name, Kubelet: setup.Kubelet, Diagnosis: d})
		found.AddRead(d.Read)
	}
	if found.CPU == nil && setup.Policy.StaticCPU {
		return nil, nil, f.lacks(kubeletstate.CPUManager, "CPUs")
	}
	if found.Memory == nil && setup.Policy.StaticMemory {
		return nil, nil, f.lacks(kubeletstate.MemoryManager, "memory")
	}
	return found, verified, nil
}

// faults returns why the kubelet does not start again on the files.
func (f Found) faults(verified []Verified) []Fault {
	var faults []Fault
	for _, v := range verified {
		for _, x := range v.Diagnosis.Findings {
			if x.Level == doctor.Fault {
				faults = append(faults, Fault{v.Name, f.Version.Name(), x.What})
			}
		}
	}
	return faults
}

// lacks returns the error for a file without which it is not known what the pods have.
func (f Found) lacks(m kubeletstate.Manager, what string) error {
	if isDir(f.Path) {
		return fmt.Errorf("%s has no %s, so it is not known which %s the pods have: copy that file from the kubelet's directory on the node", f.Path, m.FileName(), what)
	}
	return fmt.Errorf("%s is not a %s, so it is not known which %s the pods have: name both files with a comma, or a directory that has them, such as /var/lib/kubelet", f.Path, m.FileName(), what)
}

// lost returns a sentence about everything that is neither free nor assigned, or "".
func (f Found) lost(s *node.State) string {
	var what []string
	for _, x := range s.Residue() {
		if !x.CPUs.IsEmpty() {
			what = append(what, "CPUs "+x.CPUs.String())
		}
		for _, e := range x.Memory {
			for t, bytes := range e.Bytes {
				if bytes > 0 {
					what = append(what, fmt.Sprintf("%s of %s on %s", request.Bytes(bytes), s.Memory().Capacity().Types()[t], e.Nodes.Text()))
				}
			}
		}
	}
	if len(what) == 0 {
		return ""
	}
	return fmt.Sprintf("%s: %s are neither free nor assigned: no pod gets them until the files are repaired (paddock state repair)", f.Path, strings.Join(what, ", "))
}

// releases ends the note about pods that have something and do not run.
const releases = "they count as free, because the kubelet releases them before its next admission"

// shared returns the node shared pool of a file. The kubelet fills an empty one at its start if no
// pod has CPUs.
func (f Found) shared(c *kubeletstate.CPU, n *inputs.Node) (cpuset.Set, error) {
	set, err := cpuset.Parse(c.Default)
	if err != nil {
		return set, fmt.Errorf("%s: the default CPU set %q is not a list of CPUs: %w", f.Path, c.Default, err)
	}
	if set.IsEmpty() && len(c.Entries) == 0 {
		return n.Found.Machine.AllCPUs(), nil
	}
	return set, nil
}

// several returns the names of state files that a path lists, separated by commas as in other
// flags. It returns nil if the path is the name of one file.
func several(path string) []string {
	if _, err := os.Stat(path); err == nil || !strings.Contains(path, ",") {
		return nil
	}
	return strings.Split(path, ",")
}

// files returns the state files in the directory, or the files that the path names.
func (f Found) files() ([]string, error) {
	if names := several(f.Path); names != nil {
		if at := slices.IndexFunc(names, isDir); at >= 0 {
			return nil, fmt.Errorf("%s is a directory: name it alone, or name the state files", names[at])
		}
		return names, nil
	}
	info, err := os.Stat(f.Path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{f.Path}, nil
	}
	names, err := filesIn(f.Path, kubeletstate.CPUManager.FileName(), kubeletstate.MemoryManager.FileName())
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s has neither %s nor %s: %s", f.Path, kubeletstate.CPUManager.FileName(), kubeletstate.MemoryManager.FileName(), noDirectory(f.Path))
	}
	return names, nil
}
