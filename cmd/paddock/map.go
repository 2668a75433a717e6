package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/podspec"
	"github.com/paddock-project/paddock/internal/view"
)

// pageWidth is how wide a map is where there is no terminal to ask, in characters.
const pageWidth = 120

// mapCommand is one call of paddock map. It comes to its state as plan does.
type mapCommand struct {
	planCommand
	form outputFlag
}

func newMapCommand() *cobra.Command {
	var c mapCommand
	cmd := &cobra.Command{
		Use:   "map [PODS...]",
		Short: "Draw a machine and who has which part of it",
		Long: `Map draws the machine: sockets, NUMA nodes, uncore caches and cores with their threads as
cells, memory and huge pages as bars, devices; each in the colour and with the tag of the pod
that has it. It shows a saved state, or what the PODS would get; see paddock plan.

  term  for reading here
  svg   a picture for documents and for print; it follows the light or dark of its viewer
  html  the same with a table of all names, in one file that loads nothing

Exit codes: 0 done, 1 error, 2 some of the PODS are rejected; the map shows the others.`,
		Example: `  paddock map --machine examples/machines/epyc-2s-nps4.json \
      --kubelet-config examples/kubelet/pod-scope.yaml examples/pods/10-inference.yaml
  paddock map --machine node7.json --state /var/lib/paddock/state.json -o svg > node7.svg`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.stdin, c.stdout, c.stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
			return c.run(args)
		},
	}
	c.machine.register(cmd)
	cmd.Flags().StringVar(&c.config, "kubelet-config", "", "how the node decides: a KubeletConfiguration `FILE`; without it a usual one, which is shown")
	cmd.Flags().StringVar(&c.devices, "devices", "", "the node's devices: an inventory `FILE` (see examples/devices)")
	cmd.Flags().StringVar(&c.state, "state", "", "show the pods of a `FILE` that paddock plan --save or the agent wrote")
	c.form.register(cmd, "term", "svg", "html")
	return cmd
}

func (c *mapCommand) run(paths []string) error {
	found, err := c.planCommand.machine.load(c.stdin)
	if err != nil {
		return err
	}
	policy, said, err := c.policy(found)
	if err != nil {
		return err
	}
	inventory, err := readDevices(c.devices, found.Machine, c.stdin)
	if err != nil {
		return err
	}
	state, err := c.begin(found, policy, inventory)
	if err != nil {
		return err
	}
	refused := 0
	if len(paths) > 0 {
		if state, refused, err = c.admit(state, paths); err != nil {
			return err
		}
	}
	if err := c.draw(view.MapOf(shortName(found.Name), said, state, view.NextSlots(nil, nil, state))); err != nil {
		return err
	}
	if refused > 0 {
		return &exitError{code: 2}
	}
	return nil
}

// shortName is what a headline calls a machine: a file by its name alone.
func shortName(name string) string { return strings.TrimSuffix(filepath.Base(name), ".json") }

// admit puts the pods on the node and says who is refused.
func (c *mapCommand) admit(state *node.State, paths []string) (*node.State, int, error) {
	policy := state.Policy()
	gates := podspec.GatesOf(policy)
	pods, err := c.pods(paths, gates, state.Machine())
	if err != nil {
		return nil, 0, err
	}
	plans, state, err := admitAll(state, pods, gates)
	refused := 0
	for _, plan := range plans {
		if plan.Refusal != nil {
			refused++
			fmt.Fprintf(c.stderr, "paddock: note: rejected %s: %s\n", oneLine(plan.Pod.ID()), oneLine(plan.Refusal.Error()))
		}
	}
	return state, refused, err
}

// draw makes the whole picture before it writes the first byte.
func (c *mapCommand) draw(m view.Map) error {
	var picture bytes.Buffer
	var err error
	switch c.form.value {
	case "svg":
		err = m.SVG(&picture, true)
	case "html":
		err = m.HTML(&picture)
	default:
		picture.WriteString(m.Term(styleFor(c.stdout), widthOf(c.stdout)))
	}
	if err != nil {
		return err
	}
	_, err = c.stdout.Write(picture.Bytes())
	return err
}

// widthOf is how many characters are in a line of out.
func widthOf(out io.Writer) int {
	if file, ok := out.(*os.File); ok {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return pageWidth
}
