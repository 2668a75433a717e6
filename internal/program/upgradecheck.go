package program

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cli/stateview"
	"github.com/paddock-project/paddock/internal/cli/treatment"
	"github.com/paddock-project/paddock/internal/core/behavior"
)

// upgradeCheckCommand is one invocation of paddock upgrade-check.
type upgradeCheckCommand struct {
	to     string
	as     asFlag
	ask    treatment.Upgrade
	output console.Form
}

func (c *upgradeCheckCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "upgrade-check --to VERSION",
		Short: "Show what the start of another kubelet does to the pods of a node",
		Long: `Upgrade-check shows, from the state files, the configuration and the pods of a node, what the start of
another kubelet does: whether it starts at all, which running pods it moves to other CPUs or memory,
which ones it rejects, and what to do before. It changes nothing.

It checks, in the order of the kubelet's start:

  the configuration  feature gates and options that the next minor does not have or needs
  the state files    version, checksum, policy, reserved CPUs, the memory accounting
  the pods           a kubelet admits every pod again when it starts, static pods first, then by creation

The pods are decided one after the other, as that kubelet does, with its known faults; "paddock rule"
explains a fault by its number. Where the files do not show enough, the answer for a pod is "unsure", with
the reason. Files that can be of another machine make the whole answer unsure. Node affinity, taints, devices and the sum of requests are not checked.

A folder that the script of "paddock collect" made has everything. --kubelet-config is what the next kubelet
starts with. Without --as, the present kubelet is the one that the Node names, or else the one that writes
such files, at most the minor before. It matters only for the remark which changes happen at any restart of
the present kubelet, too.

Exit codes: 0 no pod changes, 1 error, 2 the kubelet does not start, or a pod changes or can change, or the
start after that fails, or the answer is unsure.`,
		Example: `  sh collect.sh                                  # see paddock collect: it makes ./paddock-node7
  paddock upgrade-check --to 1.37 --state ./paddock-node7

  # With copies of the node's files that you made yourself.
  ssh node7 paddock topology -o json > node7.json
  mkdir node7 && scp node7:/var/lib/kubelet/*_manager_state node7/
  ssh node7 cat /var/lib/kubelet/config.yaml > node7.yaml
  kubectl get pods -A -o json --field-selector spec.nodeName=node7 > pods.json
  paddock upgrade-check --to 1.37 --state node7 --pods pods.json --machine node7.json --kubelet-config node7.yaml`,
		Args: console.NoArguments,
		RunE: c.run,
	}
	cmd.Flags().StringVar(&c.to, "to", "", "the kubelet that starts next: a `VERSION` such as 1.37 or 1.37.2")
	console.CompleteWords(cmd, "to", minors()...)
	cmd.Flags().StringVar(&c.ask.Path, "state", "", "the kubelet's `DIRECTORY`, such as /var/lib/kubelet, or a copy of its state files")
	podsFlag(cmd, &c.ask.Pods, "all pods of the node")
	machineFlag(cmd, &c.ask.Machine)
	sameMachineFlag(cmd, &c.ask.SameMachine)
	kubeletConfigFlag(cmd.Flags(), &c.ask.Config)
	c.as.register(cmd, "the present kubelet")
	c.output.Register(cmd, "text", "json", "yaml")
	return cmd
}

// minors returns the versions of the kubelets whose answers are recorded, without the patch.
func minors() []string {
	var all []string
	for _, name := range behavior.Names() {
		all = append(all, strings.TrimPrefix(name, "kubelet-"))
	}
	return all
}

// version parses --to.
func (c *upgradeCheckCommand) version() (behavior.Version, error) {
	if c.to == "" {
		return behavior.Version{}, fmt.Errorf("--to is missing: add the kubelet that starts next, such as --to %s", minors()[len(minors())-1])
	}
	to, err := behavior.Named(c.to)
	if err != nil {
		return behavior.Version{}, fmt.Errorf("--to: %w", err)
	}
	return to, nil
}

func (c *upgradeCheckCommand) run(cmd *cobra.Command, _ []string) error {
	s := console.StreamsOf(cmd)
	var err error
	if c.ask.To, err = c.version(); err != nil {
		return err
	}
	c.ask.As = c.as.version
	r := s.Reader()
	answer, err := c.ask.Check(r)
	if err != nil {
		return err
	}
	shown := stateview.UpgradeOf(answer)
	if c.output.Value == "text" {
		s.Notes(shown.Notes)
	}
	if err := s.Document(c.output.Value, console.UpgradeCheck, shown, func() string { return shown.Text(s.Style()) }); err != nil {
		return err
	}
	if shown.Changes() {
		return &console.ExitError{Code: 2}
	}
	return nil
}
