package main

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/agent"
)

func newVerifyCommand() *cobra.Command {
	f := agentFlags{value: agent.DefaultConfig()}
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Hold what runs on this node against what its pods were given",
		Long: `Verify compares, for every container that the kubelet says runs, the state file with the
kernel's cgroup files (cpuset.cpus, cpuset.mems, CFS quota, also the pod's) and with what the
PodResources API tells. It changes nothing, and takes the configuration and flags of the agent.

A pod that starts or ends in this moment may show as a difference: look twice.

Exit codes: 0 everything is as it should be, 1 a difference, or something could not be read.`,
		Example: `  paddock verify --config /etc/paddock/agent.yaml
  paddock verify --kubelet-config policy.yaml --kubelet-url http://127.0.0.1:10255`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cmd.Flags().Set("runtime", agent.RuntimeNRI); err != nil { // Nothing else has cgroups.
				return err
			}
			config, err := f.config(cmd)
			if err != nil {
				return err
			}
			verified, err := agent.Verify(cmd.Context(), config, slog.New(slog.DiscardHandler))
			if err != nil {
				return err
			}
			return printVerified(cmd.OutOrStdout(), verified)
		},
	}
	f.register(cmd)
	return cmd
}

func printVerified(out io.Writer, v *agent.Verified) error {
	for _, line := range v.Differences {
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	if len(v.Differences) > 0 {
		return fmt.Errorf("%d differences among %d containers", len(v.Differences), v.Containers)
	}
	_, err := fmt.Fprintf(out, "%d containers run as they should\n", v.Containers)
	return err
}
