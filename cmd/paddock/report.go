package main

import (
	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/explain"
	"github.com/paddock-project/paddock/internal/view"
)

func newReportCommand() *cobra.Command {
	var p planCommand
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Show how a node's CPUs and memory are used, and how large a pod still fits",
		Long: `Report shows for each NUMA node what is exclusive, pooled, idle in pools, reserved and free,
what is free and yet lost to alignment, which pods have more than their containers can use, and
the largest pod of one container that each topology policy would admit now:

  MOST CPUS             with as little memory as will do
  MOST MEMORY, NO CPUS  of a container that shares its CPUs
  IN PROPORTION         CPUs with as much memory for each as the machine has
  LOST                  how much less that is than under policy none, which aligns nothing`,
		Example: `  paddock report --machine node7.json --state node7.state --kubelet-config kubelet.yaml`,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p.stdin, p.stdout, p.stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
			found, state, said, err := p.node()
			if err != nil {
				return err
			}
			usage, err := explain.Usage(cmd.Context(), state)
			if err != nil {
				return err
			}
			r := view.Report{Machine: found.Name, Policy: said, Usage: usage}
			return printAs(p.stdout, p.output.value, r, func() string { return r.Text(styleFor(p.stdout)) })
		},
	}
	p.registerNode(cmd)
	p.output.register(cmd, "text", "json", "yaml")
	return cmd
}
