package program

import (
	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cli/stateview"
)

// stateDiffCommand is one invocation of paddock state diff.
type stateDiffCommand struct {
	pods   []string
	output console.Form
}

func (c *stateDiffCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Show the differences between two state files",
		Long: `Diff shows which pods and containers have other CPUs or other memory in NEW than in OLD, and whether
the policy and the node shared pool differ. The files can be of different versions, and one of them
Paddock's: only what both have is compared, CPUs with CPUs and memory with memory. Checksums and the
memory accounting follow from the rest, and are not compared.

Exit codes: 0 no difference, 1 error, 2 there are differences.`,
		Example: `  paddock state diff cpu_manager_state.before-1 /var/lib/kubelet/cpu_manager_state
  paddock state diff --pods pods.json state.json.previous state.json`,
		Args: console.Arguments(2, 2, "two state files, OLD and NEW"),
		RunE: c.run,
	}
	podsFlag(cmd, &c.pods, "the pods that have the UIDs")
	c.output.Register(cmd, "text", "json", "yaml")
	return cmd
}

func (c *stateDiffCommand) run(cmd *cobra.Command, names []string) error {
	s := console.StreamsOf(cmd)
	pods, err := s.Reader().Roster(c.pods)
	if err != nil {
		return err
	}
	var states [2]*stateview.State
	for i, name := range names {
		data, err := s.Reader().File(name)
		if err != nil {
			return err
		}
		if states[i], err = stateview.StateOf(name, data, nil, pods); err != nil {
			return err
		}
	}
	diff, err := stateview.DiffOf(states[0], states[1])
	if err != nil {
		return err
	}
	if err := s.Document(c.output.Value, console.StateDifference, diff, func() string { return diff.Text(s.Style()) }); err != nil {
		return err
	}
	if len(diff.Changes) > 0 {
		return &console.ExitError{Code: 2}
	}
	return nil
}
