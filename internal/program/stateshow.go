package program

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cli/stateview"
	"github.com/paddock-project/paddock/internal/cli/treatment"
	"github.com/paddock-project/paddock/internal/core/machine"
)

// stateShowCommand is one invocation of paddock state show.
type stateShowCommand struct {
	machine string
	pods    []string
	output  console.Form
}

func (c *stateShowCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show " + filesOrDir,
		Short: "Show what is in state files",
		Long: `Show prints what each FILE is, which kubelets read it and whether its checksum is right, and which
pods have what: pools, containers, the node shared pool, the memory accounting of every NUMA node. It reads
the kubelet's CPU and memory states of all versions, its two files about devices, and Paddock's own.

With --machine, it shows the NUMA nodes of the CPUs and draws them. With --pods, it shows names
instead of UIDs. Both come from a DIRECTORY if they are there. It also shows a file whose checksum is wrong.`,
		Example: `  paddock state show /var/lib/kubelet/cpu_manager_state
  kubectl get pods -A -o json --field-selector spec.nodeName=node7 |
      paddock state show --machine live --pods - /var/lib/kubelet/*_manager_state`,
		Args: console.Arguments(1, 0, stateFiles),
		RunE: c.run,
	}
	machineFlag(cmd, &c.machine)
	podsFlag(cmd, &c.pods, "the pods that have the UIDs")
	c.output.Register(cmd, "text", "json", "yaml")
	return cmd
}

func (c *stateShowCommand) run(cmd *cobra.Command, names []string) error {
	s := console.StreamsOf(cmd)
	from, err := treatment.Sources{Names: names, Kubelet: treatment.Kubelet{Machine: c.machine}, Pods: c.pods}.Complete(s.Reader(), treatment.NeedFiles)
	if err != nil {
		return err
	}
	var m *machine.Machine
	if cmd.Flags().Changed("machine") || from.Folder.Machine != "" {
		found, err := s.Reader().Machine(from.Kubelet.Machine)
		if err != nil {
			return err
		}
		s.Notes(found.Notes)
		m = found.Machine
	}
	var shown []*stateview.State
	var texts []string
	var errs []error
	for _, name := range from.Names {
		data, err := s.Reader().File(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		state, err := stateview.StateOf(name, data, m, from.Roster)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		shown = append(shown, state)
		texts = append(texts, state.Text(m, s.Style()))
	}
	errs = append(errs, s.Document(c.output.Value, console.StateList, shown, func() string { return strings.Join(texts, "\n") }))
	return errors.Join(errs...)
}
