package program

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/paddock-project/paddock/internal/agent"
	"github.com/paddock-project/paddock/internal/base/spelling"
	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/cli/treatment"
	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// machineUsage is the help of --machine.
const machineUsage = "\"live\" for this machine, a `FILE` written by \"paddock topology -o json\", or a directory " +
	"with the output of \"lscpu -J -e\", that of \"numactl -H\" and the memory_manager_state of a node without Paddock"

// machineFlag defines --machine, which is the same in every command.
func machineFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "machine", discover.LiveName, machineUsage+"; \"-\" is a file on standard input")
}

// nodeFlags are the flags that describe a node.
type nodeFlags struct {
	machine, config, devices, state string
	quota                           quotaFlag
	// pods are files with the Node and the pods to which a kubelet's state belongs.
	pods []string
	// as selects what decides. If nil, Paddock decides. If it is automatic, read fills it in.
	as *asFlag
	// kubeNode is the name of the Kubernetes node. read fills it in for a kubelet's state, if it is
	// known.
	kubeNode string
	// objects is the content of pods, if it was read.
	objects *inputs.Objects
	// stock is set by read for a kubelet's state.
	stock *stock
	// repairs is set for a command whose answer describes the faults of a kubelet's files.
	repairs bool
	// whatIf is set for a command whose answer has StockNode.WhatIf.
	whatIf bool
	// given is the flag --machine of the command.
	given *pflag.Flag
	// noted is set after the note about the flags of a kubelet, which is printed once.
	noted bool
}

// kubeletConfigUsage is the help of --kubelet-config, whose forms are the same in every command.
const kubeletConfigUsage = "how the node decides: a KubeletConfiguration `FILE`, the answer of the kubelet's /configz, " +
	"or a directory with one of these and drop-ins; without it a default policy"

func (f *nodeFlags) register(cmd *cobra.Command, stateUsage string) {
	machineFlag(cmd, &f.machine)
	f.given = cmd.Flags().Lookup("machine")
	cmd.Flags().StringVar(&f.config, "kubelet-config", "", kubeletConfigUsage+", which is shown")
	cmd.Flags().StringVar(&f.devices, "devices", "", "the node's devices: an inventory `FILE` (see examples/devices)")
	cmd.Flags().StringVar(&f.state, "state", "", stateUsage)
	podsFlag(cmd, &f.pods, ofStateUsage)
}

// read reads the node and its initial state. It prints notes about what is unknown about the
// machine, and warnings about the policy.
func (f *nodeFlags) read(s console.Streams) (*inputs.Node, *node.State, error) {
	r := s.Reader()
	ofKubelet, err := treatment.OfKubelet(r, f.state)
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("--state: %w", err)
	case ofKubelet && f.as == nil:
		return nil, nil, fmt.Errorf("--state %s is a kubelet's: this command takes a state of Paddock", f.state)
	case ofKubelet:
		return f.readStock(s)
	}
	saved, err := f.isSaved(r)
	switch {
	case err != nil:
	case f.as != nil && f.as.auto && !f.as.kubelet():
		err = errors.New("--as auto: there is no Node object whose kubelet could be meant: it belongs to a kubelet's --state; name the kubelet, such as --as " + newestKubelet())
	case len(f.pods) > 0:
		err = errors.New("--pods belongs to a --state of a kubelet: a state of Paddock has its pods")
	}
	if err != nil {
		return nil, nil, err
	}
	quota, err := f.quota.policy()
	if err != nil {
		return nil, nil, err
	}
	if f.as != nil {
		r.Minor = f.as.version.Minor
	}
	n, err := r.Node(inputs.NodeFiles{Machine: f.machine, Policy: f.config, Devices: f.devices, Quota: quota})
	if err != nil {
		return nil, nil, err
	}
	s.Notes(n.Found.Notes)
	if !f.given.Changed {
		m := n.Found.Machine
		s.Notes([]string{fmt.Sprintf("the answer is for this machine, with %s and %s: for another one, give --machine, such as examples/machines/epyc-2s-nps4.json",
			view.Count(m.NumCPUs(), "CPU"), view.Count(len(m.Nodes()), "NUMA node"))})
	}
	s.Notes(n.Policy.Warnings)
	f.noteFlags(s, n)
	if saved {
		return f.readSaved(s, n)
	}
	state, err := r.State(f.state, n)
	return n, state, err
}

// isSaved reports whether the state is that of a kubelet that plan --save wrote. The kubelet of the
// state then decides, unless another one is given.
func (f *nodeFlags) isSaved(r inputs.Reader) (bool, error) {
	saved, err := treatment.OfSaved(r, f.state)
	switch {
	case err != nil || !saved:
		return false, err
	case f.as == nil:
		return true, fmt.Errorf("--state %s is that of a kubelet: this command takes a state of Paddock", f.state)
	case len(f.pods) > 0:
		return true, errors.New("--pods belongs to a --state with the files of a kubelet: a saved state has its pods")
	}
	f.quota.mode = agent.QuotaKubelet
	if !f.as.kubelet() {
		f.as.version, err = treatment.SavedVersion(r, f.state)
	}
	return true, err
}

// readSaved reads the state of a kubelet that plan --save wrote.
func (f *nodeFlags) readSaved(s console.Streams, n *inputs.Node) (*inputs.Node, *node.State, error) {
	shown, err := treatment.Saved(s.Reader(), f.state, n)
	if err != nil {
		return nil, nil, fmt.Errorf("--state: %w", err)
	}
	for _, d := range shown.OfNode() {
		s.Notes([]string{"unsure: " + d.String()})
	}
	f.stock = &stock{shown: shown}
	return n, shown.State, nil
}

// readStock reads the node of a kubelet's state. Inputs that are not given come from the folder of
// the state and from the objects of the node. The kubelet of the node then decides.
func (f *nodeFlags) readStock(s console.Streams) (*inputs.Node, *node.State, error) {
	f.quota.mode = agent.QuotaKubelet
	quota, err := f.quota.policy()
	if err != nil {
		return nil, nil, err
	}
	n, err := treatment.Stock{
		Path: f.state, Machine: f.machine, Config: f.config, Devices: f.devices, Pods: f.pods, Objects: f.objects,
		Name: f.kubeNode, Version: f.as.version, Quota: quota,
	}.Read(s.Reader())
	s.Notes(n.Notes)
	if !f.repairs {
		s.Notes(n.Shown.FaultNotes())
	}
	f.objects, f.kubeNode, f.as.version = n.Objects, n.Name, n.Version
	if !f.whatIf {
		s.Notes(n.WhatIf)
	}
	if n.Node != nil {
		f.noteFlags(s, n.Node)
	}
	if err != nil {
		return n.Node, nil, err
	}
	f.stock = &stock{shown: n.Shown, node: n}
	f.stock.waiting, err = n.Waiting()
	return n.Node, n.Shown.State, err
}

// noteFlags prints once that the flags of a kubelet can override its file, if a kubelet decides.
func (f *nodeFlags) noteFlags(s console.Streams, n *inputs.Node) {
	if note := n.Policy.FlagsNote; f.as != nil && f.as.kubelet() && note != "" && !f.noted {
		s.Notes([]string{note})
		f.noted = true
	}
}

// ofStateUsage is the help of --pods beside --state.
const ofStateUsage = "the pods that a kubelet's --state is of"

// podsHelp describes the manifests that commands read.
const podsHelp = `PODS are files of Kubernetes objects (YAML or JSON, several documents), directories of
them, or "-" for standard input: Pods, Lists, and the pods that Deployments, StatefulSets,
DaemonSets, ReplicaSets, Jobs and CronJobs would create. For objects of other kinds, the pods of
their pod templates are used, with a note of the assumptions. Subdirectories are not read.

For the devices of ResourceClaims, add the ResourceClaims, ResourceClaimTemplates, ResourceSlices,
DeviceClasses and Nodes, in any order. A claim that cannot be resolved is a note on its pod.

An unknown field directly in a spec, a pod template, a container or in resources is an error, because it
may be a typo of a field that matters. In pods that an API server has stored, it is a note: the field is
of a newer Kubernetes. Every other unknown field is a note too, for example in metadata or status. With
--strict, all of these are errors.`

// quotaUsage is the help of --cpu-quota, which is the same in every command.
const quotaUsage = "CFS quotas of pods with exclusive containers: isolated, so that no sibling can throttle these, or kubelet, as the kubelet sets them"

// quotaFlag is the flag --cpu-quota. The zero value is the default.
type quotaFlag struct{ mode string }

func (f *quotaFlag) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.mode, "cpu-quota", agent.QuotaIsolated, quotaUsage)
	console.CompleteWords(cmd, "cpu-quota", agent.QuotaIsolated, agent.QuotaKubelet)
}

func (f *quotaFlag) policy() (node.QuotaPolicy, error) {
	config := agent.DefaultCPUQuota()
	if f.mode == agent.QuotaKubelet || f.mode == agent.QuotaIsolated || f.mode == "" {
		config.Mode = cmp.Or(f.mode, config.Mode)
		return config.Policy()
	}
	return node.QuotaPolicy{}, fmt.Errorf("--cpu-quota: %q is unknown: %s", f.mode, spelling.Expected(f.mode, []string{agent.QuotaIsolated, agent.QuotaKubelet}))
}

// title returns the name of the node for a picture: the name of the Node if it is known, and
// otherwise that of the machine's file.
func (f *nodeFlags) title(n *inputs.Node) string {
	if k := f.stock; k != nil && k.node != nil && k.node.Name != "" {
		return k.node.Name
	}
	return strings.TrimSuffix(filepath.Base(n.Found.Name), ".json")
}
