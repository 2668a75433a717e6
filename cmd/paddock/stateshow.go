package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/kubeletstate"
	"github.com/paddock-project/paddock/internal/statefile"
)

// stateShowCommand is one call of paddock state show.
type stateShowCommand struct {
	machine machineFlag
	drawn   bool
	pods    podsFlag
	output  outputFlag
}

func newStateShowCommand() *cobra.Command {
	var c stateShowCommand
	cmd := &cobra.Command{
		Use:   "show FILE...",
		Short: "Show what is in state files",
		Long: `Show says what each FILE is, which kubelets read it and whether its checksum is right, and which
pods have what: pools, containers, the node shared pool, the memory accounting of every NUMA node. It reads
the kubelet's CPU and memory states of all versions, and Paddock's own.

With --machine it says on which NUMA nodes the CPUs lie and draws them; with --pods it has
names instead of UIDs. A file whose checksum is wrong is shown all the same.`,
		Example: `  paddock state show /var/lib/kubelet/cpu_manager_state
  kubectl get pods -A -o json --field-selector spec.nodeName=node7 |
      paddock state show --machine live --pods - /var/lib/kubelet/*_manager_state`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.drawn = cmd.Flags().Changed("machine")
			return c.run(args, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	c.machine.register(cmd)
	c.pods.register(cmd, "who the UIDs are")
	c.output.register(cmd, "table", "json", "yaml")
	return cmd
}

func (c *stateShowCommand) run(names []string, stdin io.Reader, stdout io.Writer) error {
	var m *machine.Machine
	if c.drawn {
		found, err := c.machine.load(stdin)
		if err != nil {
			return err
		}
		m = found.Machine
	}
	pods, err := c.pods.load(stdin)
	if err != nil {
		return err
	}
	var shown []*shownState
	var errs []error
	for _, name := range names {
		s, err := showState(name, stdin, m, pods)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		shown = append(shown, s)
	}
	return errors.Join(append(errs, c.print(shown, m, stdout))...)
}

func (c *stateShowCommand) print(shown []*shownState, m *machine.Machine, stdout io.Writer) error {
	var data []byte
	var err error
	switch c.output.value {
	case "json":
		data, err = json.MarshalIndent(shown, "", "  ")
		data = append(data, '\n')
	case "yaml":
		data, err = yaml.Marshal(shown)
	default:
		var texts []string
		for _, s := range shown {
			texts = append(texts, s.text(m, styleFor(stdout)))
		}
		data = []byte(strings.Join(texts, "\n"))
	}
	if err != nil {
		return err
	}
	_, err = stdout.Write(data)
	return err
}

// showState reads one file of any kind.
func showState(name string, stdin io.Reader, m *machine.Machine, pods map[string]*v1.Pod) (*shownState, error) {
	data, err := readInput(name, stdin)
	if err != nil {
		return nil, err
	}
	if isPaddocks(data) {
		file, err := statefile.Decode(name, data)
		if err != nil {
			return nil, err
		}
		return shownOfGrants(name, file, m), nil
	}
	f, err := kubeletstate.Recognise(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s := &shownState{File: name, Manager: f.Manager.String(), Version: f.Version.String(), ReadBy: []string{}, checksum: f.Checksum}
	s.Holds = f.Holds()
	s.Checksum = f.Checksum.String()
	if f.Data != nil {
		s.DataChecksum = f.Data.String()
	}
	for _, k := range kubeletstate.Readers(f.Manager, data) {
		s.ReadBy = append(s.ReadBy, k.String())
	}
	for _, u := range f.Unknown {
		s.Unknown = append(s.Unknown, u.Path)
	}
	if f.Manager == kubeletstate.CPUManager {
		s.fillCPU(f.CPU, m, pods)
	} else {
		s.fillMemory(f.Memory, pods)
	}
	return s, nil
}
