package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/discover"
	"github.com/paddock-project/paddock/internal/kubeletcfg"
	"github.com/paddock-project/paddock/internal/podspec"
	"github.com/paddock-project/paddock/internal/statefile"
	"github.com/paddock-project/paddock/internal/store"
	"github.com/paddock-project/paddock/internal/view"
)

// planCommand is one call of paddock plan.
type planCommand struct {
	machine     machineFlag
	config      string
	quota       quotaFlag
	devices     string
	state, save string
	explain     bool
	output      outputFlag
	stdin       io.Reader
	stdout      io.Writer
	stderr      io.Writer
}

func newPlanCommand() *cobra.Command {
	var p planCommand
	cmd := &cobra.Command{
		Use:   "plan PODS...",
		Short: "Show what pods would get on a machine, and why some would be rejected",
		Long: `Plan admits pods one after the other, in the order given, on a node without pods or on
a saved state, and shows who gets which CPUs and whose memory. No node is touched.

PODS are files of Kubernetes objects (YAML or JSON, several documents), directories of
them, or "-" for standard input: Pods, Lists, and the pods that Deployments, StatefulSets,
DaemonSets, ReplicaSets, Jobs and CronJobs would make.

Exit codes: 0 all pods are admitted, 1 error, 2 some are rejected.`,
		Example: `  paddock plan --machine examples/machines/epyc-2s-nps4.json \
      --kubelet-config examples/kubelet/pod-scope.yaml examples/pods/
  kubectl get pods -A -o json --field-selector spec.nodeName=node7 | paddock plan --machine node7.json -`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p.stdin, p.stdout, p.stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
			return p.run(cmd.Context(), args)
		},
	}
	p.registerNode(cmd)
	p.quota.register(cmd)
	cmd.Flags().BoolVar(&p.explain, "explain", false, "say for every pod why, and what would admit one that is rejected; see paddock explain")
	cmd.Flags().StringVar(&p.save, "save", "", "write the node with the admitted pods to a `FILE`")
	p.output.register(cmd, "table", "wide", "json", "yaml")
	return cmd
}

// registerNode are the flags that say which node is meant.
func (p *planCommand) registerNode(cmd *cobra.Command) {
	p.machine.register(cmd)
	cmd.Flags().StringVar(&p.config, "kubelet-config", "", "how the node decides: a KubeletConfiguration `FILE`; without it a usual one, which is shown")
	cmd.Flags().StringVar(&p.devices, "devices", "", "the node's devices: an inventory `FILE` (see examples/devices)")
	cmd.Flags().StringVar(&p.state, "state", "", "begin on the pods of a `FILE` that --save wrote, instead of an empty node")
}

// node reads the node that the flags name: the machine, what is there, and the policy in words.
func (p *planCommand) node() (*discover.Found, *node.State, string, error) {
	found, err := p.machine.load(p.stdin)
	if err != nil {
		return nil, nil, "", err
	}
	policy, said, err := p.policy(found)
	if err != nil {
		return nil, nil, "", err
	}
	inventory, err := readDevices(p.devices, found.Machine, p.stdin)
	if err != nil {
		return nil, nil, "", err
	}
	state, err := p.begin(found, policy, inventory)
	return found, state, said, err
}

func (p *planCommand) run(ctx context.Context, paths []string) error {
	found, state, said, err := p.node()
	if err != nil {
		return err
	}
	gates := podspec.GatesOf(state.Policy())
	pods, err := p.pods(paths, gates, found.Machine)
	if err != nil {
		return err
	}
	before := state
	plans, state, err := admitAll(state, pods, gates)
	if err != nil {
		return err
	}
	answer := view.PlanOf(found.Name, said, plans, state)
	if p.explain {
		if answer.Explanations, err = explainAll(ctx, before, plans, pods, gates); err != nil {
			return err
		}
	}
	if p.save != "" {
		if err := save(store.OS(), p.save, state); err != nil {
			return fmt.Errorf("--save: %w", err)
		}
	}
	if err := p.print(answer); err != nil {
		return err
	}
	for _, plan := range plans {
		if plan.Refusal != nil {
			return &exitError{code: 2}
		}
	}
	return nil
}

// policy is the one of --kubelet-config, or a usual one that says what it is, with --cpu-quota.
func (p *planCommand) policy(found *discover.Found) (node.Policy, string, error) {
	policy, said, err := p.kubelet(found)
	if err == nil {
		policy.Quota, err = p.quota.policy()
	}
	return policy, said, err
}

// kubelet is the policy of --kubelet-config.
func (p *planCommand) kubelet(found *discover.Found) (node.Policy, string, error) {
	m := found.Machine
	if p.config == "" {
		policy, said := kubeletcfg.Default(m)
		return policy, said, nil
	}
	data, err := readInput(p.config, p.stdin)
	if err != nil {
		return node.Policy{}, "", fmt.Errorf("--kubelet-config: %w", err)
	}
	config, err := kubeletcfg.Read(p.config, data)
	if err != nil {
		return node.Policy{}, "", err
	}
	policy, err := config.ResolveOffline(m, found.Offline)
	if err != nil {
		return node.Policy{}, "", err
	}
	for _, w := range config.Warnings(m) {
		fmt.Fprintf(p.stderr, "paddock: note: %s: %s\n", p.config, w)
	}
	return policy, kubeletcfg.Describe(policy), nil
}

// begin is the node before the first pod.
func (p *planCommand) begin(found *discover.Found, policy node.Policy, inventory *device.Inventory) (*node.State, error) {
	state, err := p.held(found, policy)
	if err != nil {
		return nil, err
	}
	return state.WithDevices(inventory)
}

// held is the node with the pods of --state. Of their CPUs some may be offline on this machine; otherwise all
// must hold.
func (p *planCommand) held(found *discover.Found, policy node.Policy) (*node.State, error) {
	m := found.Machine
	if p.state == "" {
		return node.New(m, policy)
	}
	data, err := readInput(p.state, p.stdin)
	if err != nil {
		return nil, fmt.Errorf("--state: %w", err)
	}
	file, err := statefile.Decode(p.state, data)
	if err != nil {
		return nil, err
	}
	state, err := restore(m, found.Offline, policy, file.Grants)
	if err != nil {
		return nil, fmt.Errorf("%s is not valid here: %w; since it was saved: %s", p.state, err, strings.Join(file.Changes(m, policy), "; "))
	}
	return state.Resume(file.Generation), nil
}

// restore is node.Restore on the machine with all its CPUs, and then on those that are online.
func restore(m *machine.Machine, offline cpuset.Set, policy node.Policy, grants []*node.Grant) (*node.State, error) {
	state, err := node.Restore(m, policy, grants)
	if err == nil || offline.IsEmpty() {
		return state, err
	}
	none, inventoryErr := device.NewInventory(m, nil)
	if inventoryErr != nil {
		return nil, inventoryErr
	}
	adopted, findings, adoptErr := node.Adopt(m, policy, none, grants)
	if adoptErr != nil || len(findings) != len(adopted.Degraded()) || !offline.Contains(adopted.Offline()) {
		return nil, err
	}
	return adopted, nil
}

// pods reads, defaults and validates. Every problem is told, each in a line of its own.
func (p *planCommand) pods(paths []string, gates podspec.Gates, m *machine.Machine) ([]*v1.Pod, error) {
	sources, notes, err := podspec.ReadFiles(paths, p.stdin)
	if err != nil {
		return nil, err
	}
	for _, n := range notes {
		fmt.Fprintf(p.stderr, "paddock: note: %s\n", oneLine(n.String()))
	}
	var pods []*v1.Pod
	var problems []error
	for _, s := range sources {
		if phase := s.Pod.Status.Phase; phase == v1.PodSucceeded || phase == v1.PodFailed {
			fmt.Fprintf(p.stderr, "paddock: note: %s: passed over, its phase is %s\n", s.Origin, phase)
			continue
		}
		pod := podspec.Default(s.Pod, gates)
		invalid := podspec.Validate(pod, gates)
		unfit, odd := suspect(s.Pod, m)
		for _, e := range append(invalid, unfit...) {
			problems = append(problems, fmt.Errorf("%s: %w", s.Origin, e))
		}
		for _, text := range odd {
			fmt.Fprintf(p.stderr, "paddock: note: %s: %s\n", s.Origin, text)
		}
		pods = append(pods, pod)
	}
	if len(problems) == 0 && len(pods) == 0 {
		return nil, fmt.Errorf("%s: no pods there", strings.Join(paths, ", "))
	}
	if len(problems) > 1 {
		for _, problem := range problems[:len(problems)-1] {
			fmt.Fprintf(p.stderr, "paddock: %s\n", oneLine(problem.Error()))
		}
		problems = problems[len(problems)-1:]
	}
	return pods, errors.Join(problems...)
}

// admitAll plans and applies pod after pod.
func admitAll(state *node.State, pods []*v1.Pod, gates podspec.Gates) ([]*node.Plan, *node.State, error) {
	plans := make([]*node.Plan, 0, len(pods))
	for _, pod := range pods {
		asked, err := podspec.Request(pod, gates)
		if err != nil {
			return nil, nil, err
		}
		plan := state.Plan(asked)
		if state, err = state.Apply(plan); err != nil {
			return nil, nil, err
		}
		plans = append(plans, plan)
	}
	return plans, state, nil
}

// save writes the state in one step and durable, so that no reader sees half of it. A file of that name that
// is no state of Paddock stays as it is.
func save(fsys store.FS, name string, state *node.State) error {
	data, err := statefile.Encode(state)
	if err != nil {
		return err
	}
	if err := writable(name); err != nil {
		return err
	}
	if err := mayReplace(fsys, name); err != nil {
		return err
	}
	file := &replacement{path: name, data: data}
	return exclusively(fsys, "/proc", []*replacement{file}, func() error {
		beside, err := writeBeside(fsys, name, data)
		if err != nil {
			return err
		}
		return replace(fsys, beside, name)
	})
}

// mayReplace returns an error for a file that somebody else made.
func mayReplace(fsys store.FS, name string) error {
	there, err := fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	begin, err := io.ReadAll(io.LimitReader(there, 64))
	if err := errors.Join(err, there.Close()); err != nil {
		return err
	}
	if len(begin) > 0 && !isPaddocks(begin) {
		return fmt.Errorf("%s is there and is no state of Paddock: nothing was written; name another file", name)
	}
	return nil
}

// writable says what is in the way of a file of that name, where the system's own words are of the
// temporary file.
func writable(name string) error {
	dir := filepath.Dir(name)
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s: there is no directory %s to write into: make it (mkdir -p %s), or name another place", name, dir, dir)
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return fmt.Errorf("%s is a directory: name a file in it, such as %s", name, filepath.Join(name, "node.json"))
	}
	return nil
}

func (p *planCommand) print(plan view.Plan) error {
	return printAs(p.stdout, p.output.value, plan, func() string { return plan.Text(styleFor(p.stdout), p.output.value == "wide") })
}
