package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/view"
)

func newTopologyCommand() *cobra.Command {
	var from machineFlag
	var output outputFlag
	cmd := &cobra.Command{
		Use:   "topology",
		Short: "Show a machine's sockets, NUMA nodes, caches, cores and memory",
		Long: `Topology shows the machine as the kubelet's CPU, Memory and Topology Managers see
it: this one, or a recorded one.

  tree   for reading; sets of CPUs are shortened to patterns such as 0,2,…,62
  table  a line for each NUMA node with exact values, for scripts
  json   cAdvisor's MachineInfo, which --machine reads back. Of the live machine it
         has no names, ids, addresses or disks, so it may be shown to others.`,
		Example: `  paddock topology
  paddock topology --machine examples/machines/epyc-2s-nps4.json
  paddock topology -o json > node7.json
  ssh node7 paddock topology -o json | paddock topology --machine -`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return topology(cmd.InOrStdin(), cmd.OutOrStdout(), from, output.value)
		},
	}
	from.register(cmd)
	output.register(cmd, "tree", "table", "json")
	return cmd
}

func topology(stdin io.Reader, stdout io.Writer, from machineFlag, output string) error {
	found, err := from.load(stdin)
	if err != nil {
		return err
	}
	if output == "json" {
		return found.WriteJSON(stdout)
	}
	shown := view.Topology{Name: found.Name, Machine: found.Machine, Remarks: found.Remarks}
	text := shown.Table()
	if output == "tree" {
		text = shown.Tree(styleFor(stdout))
	}
	_, err = io.WriteString(stdout, text)
	return err
}
