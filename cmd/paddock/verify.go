package main

import (
	"fmt"
	"io"
	"log/slog"
	"slices"

	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/agent"
)

func newVerifyCommand() *cobra.Command {
	f := agentFlags{value: agent.DefaultConfig()}
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Compare what runs on this node with what its pods were given",
		Long: `Verify compares, for every container that the kubelet says runs, the state file with the
kernel's cgroup files (cpuset.cpus, cpuset.mems, CFS quota, also the pod's) and with what the
PodResources API reports. It also shows how often containers with exclusive CPUs were throttled. It
changes nothing, and takes the configuration and flags of the agent. Pods with CPUs that are
offline are named as degraded; that is no difference.

A pod that starts or ends in this moment may show as a difference: look twice.

Exit codes: 0 everything is as it should be, 1 a difference, or something could not be read.`,
		Example: `  paddock verify --config /etc/paddock/agent.yaml
  paddock verify --kubelet-config policy.yaml --kubelet-token-file token --kubelet-ca-file ca.crt`,
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
	lines := v.Differences
	if len(lines) == 0 {
		lines = []string{fmt.Sprintf("%d containers run as they should", v.Containers)}
	}
	for _, line := range slices.Concat(v.Degraded, lines) {
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	if err := printThrottling(out, v.Throttling); err != nil {
		return err
	}
	if len(v.Differences) > 0 {
		return fmt.Errorf("%d differences among %d containers", len(v.Differences), v.Containers)
	}
	return nil
}

// printThrottling says how often exclusive containers were throttled. It is no difference: the kernel counts
// from when a cgroup was made, which may be before its quota was taken away.
func printThrottling(out io.Writer, t agent.VerifiedThrottling) error {
	for _, note := range t.Notes {
		if _, err := fmt.Fprintf(out, "note: %s\n", note); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "exclusive containers: %d, throttled by their own or their pod's CFS quota in %d of %d periods\n",
		t.Exclusive, t.Throttled, t.Periods)
	return err
}
