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
	// pods are manifests of the pods that a kubelet's state is of.
	pods []string
	// as is the kubelet that decides. It is zero for Paddock.
	as behavior.Version
}

func (f *nodeFlags) register(cmd *cobra.Command, stateUsage string) {
	machineFlag(cmd, &f.machine)
	cmd.Flags().StringVar(&f.config, "kubelet-config", "", "how the node decides: a KubeletConfiguration `FILE`; without it a default policy, which is shown")
	cmd.Flags().StringVar(&f.devices, "devices", "", "the node's devices: an inventory `FILE` (see examples/devices)")
	cmd.Flags().StringVar(&f.state, "state", "", stateUsage)
	podsFlag(cmd, &f.pods, ofStateUsage)
}

// read reads the node and its initial state. It prints notes about what is not known of the
// machine, and warnings about the policy.
func (f *nodeFlags) read(s console.Streams) (*inputs.Node, *node.State, error) {
	quota, err := f.quota.policy()
	if err != nil {
		return nil, nil, err
	}
	r := s.Reader()
	r.Minor = f.as.Minor
	n, err := r.Node(inputs.NodeFiles{Machine: f.machine, Policy: f.config, Devices: f.devices, Quota: quota})
	if err != nil {
		return nil, nil, err
	}
	s.Notes(n.Found.Notes)
	s.Notes(n.Policy.Warnings)
	if kubelets, err := treatment.OfKubelet(r, f.state); err != nil {
		return nil, nil, fmt.Errorf("--state: %w", err)
	} else if kubelets {
		found := treatment.Found{Path: f.state, Pods: f.pods, Version: f.as}
		state, notes, err := found.State(r, n)
		s.Notes(notes)
		return n, state, err
	}
	if len(f.pods) > 0 {
		return nil, nil, errors.New("--pods belongs to a --state of a kubelet: a state of Paddock has its pods")
	}
	state, err := r.State(f.state, n)
	return n, state, err
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
	return node.QuotaPolicy{}, fmt.Errorf("--cpu-quota: %q is unknown; want %s or %s", f.mode, agent.QuotaIsolated, agent.QuotaKubelet)
}
