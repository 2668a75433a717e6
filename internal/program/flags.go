package program

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/agent"
	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/cli/treatment"
	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/kubelet/behavior"
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
	// pods are files of the Node and the pods that a kubelet's state is of.
	pods []string
	// as is what decides. If nil, it is Paddock. read fills it in if it is automatic.
	as *asFlag
	// kubeNode is the name of the Kubernetes node. read fills it in for a kubelet's state, if it is
	// known.
	kubeNode string
	// objects are what pods has, if it was read.
	objects *inputs.Objects
	// noted is set after the note about the flags of a kubelet, which is printed once.
	noted bool
}

// kubeletConfigUsage is the help of --kubelet-config, of which the forms are the same in every
// command.
const kubeletConfigUsage = "how the node decides: a KubeletConfiguration `FILE`, the answer of the kubelet's /configz, " +
	"or a directory with one of these and drop-ins; without it a default policy"

func (f *nodeFlags) register(cmd *cobra.Command, stateUsage string) {
	machineFlag(cmd, &f.machine)
	cmd.Flags().StringVar(&f.config, "kubelet-config", "", kubeletConfigUsage+", which is shown")
	cmd.Flags().StringVar(&f.devices, "devices", "", "the node's devices: an inventory `FILE` (see examples/devices)")
	cmd.Flags().StringVar(&f.state, "state", "", stateUsage)
	podsFlag(cmd, &f.pods, ofStateUsage)
}

// read reads the node and its initial state. It prints notes about what is not known of the
// machine, and warnings about the policy.
func (f *nodeFlags) read(s console.Streams) (*inputs.Node, *node.State, error) {
	r := s.Reader()
	ofKubelet, err := treatment.OfKubelet(r, f.state)
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("--state: %w", err)
	case ofKubelet:
		err = f.complete(s)
	case f.as != nil && f.as.auto:
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
	s.Notes(n.Policy.Warnings)
	if note := n.Policy.FlagsNote; f.as != nil && f.as.kubelet() && note != "" && !f.noted {
		s.Notes([]string{note})
		f.noted = true
	}
	if ofKubelet {
		found := treatment.Found{Path: f.state, Pods: f.objects.On(f.kubeNode), Elsewhere: f.objects.Elsewhere(f.kubeNode), Version: f.as.version}
		state, notes, err := found.State(r, n)
		s.Notes(notes)
		return n, state, err
	}
	state, err := r.State(f.state, n)
	return n, state, err
}

// complete fills in what is not given about the node of a kubelet's state: from the folder of the
// state and from the objects of the node. Nothing is assumed: what is in neither is an error.
func (f *nodeFlags) complete(s console.Streams) error {
	if f.as == nil {
		return fmt.Errorf("--state %s is a kubelet's: this command takes a state of Paddock", f.state)
	}
	folder, err := treatment.FolderOf(f.state)
	if err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	if f.machine == discover.LiveName && folder.Machine != "" {
		f.machine = folder.Machine
	}
	if f.config == "" {
		f.config = folder.Config
	}
	if f.config == "" {
		return fmt.Errorf("%s has neither configz.json nor config.yaml, so it is not known how the kubelet decides: add --kubelet-config FILE, its config.yaml or the answer of its /configz", f.state)
	}
	if err := f.readObjects(s, folder); err != nil {
		return err
	}
	if f.kubeNode == "" {
		if f.kubeNode, err = f.objects.NodeName(); err != nil {
			return fmt.Errorf("--pods: %w", err)
		}
	}
	f.quota.mode = agent.QuotaKubelet
	if f.as.kubelet() {
		return nil
	}
	n := f.objects.Nodes[f.kubeNode]
	if n == nil {
		return fmt.Errorf("the Node is missing, so it is not known which kubelet decides on %s: put it into the folder (kubectl get node NODE -o json > node.json) or into --pods, or name the kubelet of the node, such as --as %s", f.state, newestKubelet())
	}
	text := n.Status.NodeInfo.KubeletVersion
	version, exact, err := behavior.OfNode(text)
	if err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	f.as.version = version
	if newest, _ := behavior.Newest(f.as.version.Minor); !exact {
		s.Notes([]string{fmt.Sprintf("node %s runs kubelet %s: answered as %s; of this minor, the answers of %s are recorded", n.Name, text, f.as.version, newest)})
	}
	return nil
}

// readObjects reads the objects of the node once: from --pods, or else from the folder.
func (f *nodeFlags) readObjects(s console.Streams, folder treatment.Folder) error {
	if f.objects != nil {
		return nil
	}
	paths, err := folder.Objects(f.pods)
	if err != nil {
		return err
	}
	f.objects, err = s.Reader().Objects(paths)
	return err
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
	return node.QuotaPolicy{}, fmt.Errorf("--cpu-quota: %q is unknown; expected %s or %s", f.mode, agent.QuotaIsolated, agent.QuotaKubelet)
}
