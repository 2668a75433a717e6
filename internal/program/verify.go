package program

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/agent"
	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cli/treatment"
)

// verifyCommand is one invocation of paddock verify.
type verifyCommand struct {
	agentFlags
	output console.Form
}

func (c *verifyCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Compare what runs on this node with what its pods were given",
		Long: `Verify compares, for every container that runs according to the kubelet, the state file with the
kernel's cgroup files (cpuset.cpus, cpuset.mems, CFS quota, also the pod's) and with what the
PodResources API reports. It also shows how often containers with exclusive CPUs were throttled. It
changes nothing, and accepts the configuration and all flags of the agent. It names pods with offline
CPUs as degraded; these are not differences.

A pod that starts or ends during the comparison can show as a difference: run it a second time.

Exit codes: 0 no differences, 1 error, 2 there are differences.`,
		Example: `  paddock verify --config /etc/paddock/agent.yaml
  paddock verify --kubelet-config policy.yaml --kubelet-token-file token --kubelet-ca-file ca.crt`,
		Args: console.NoArguments,
		RunE: c.run,
	}
	c.register(cmd)
	c.hideAgentOnly(cmd)
	c.output.Register(cmd, "text", "json", "yaml")
	return cmd
}

func (c *verifyCommand) run(cmd *cobra.Command, _ []string) error {
	if err := cmd.Flags().Set("runtime", agent.RuntimeNRI); err != nil { // No other runtime has cgroups.
		return err
	}
	config, err := c.config(cmd)
	if err != nil {
		return err
	}
	if config.Decides == agent.DecidesKubelet {
		return errors.New("decides: the kubelet decides on this node, and the agent observes it, so that there is no state to compare with; to compare the kubelet's decisions with the predictions: paddock trust")
	}
	if is, err := treatment.OfKubelet(console.StreamsOf(cmd).Reader(), config.State); err == nil && is {
		return fmt.Errorf("state: %s is a kubelet's: verify compares this node with the state of its agent; to check the files of a kubelet: paddock state verify %s", config.State, config.State)
	}
	v, err := agent.Verify(cmd.Context(), config, slog.New(slog.DiscardHandler), time.After)
	if err != nil {
		return err
	}
	s := console.StreamsOf(cmd)
	if c.output.Value == "text" {
		return printVerified(s.Stdout, v)
	}
	return errors.Join(s.Document(c.output.Value, console.NodeCheck, v, nil), differences(v))
}

// differences returns an error if there are differences.
func differences(v *agent.Verified) error {
	if len(v.Differences) == 0 {
		return nil
	}
	return &console.ExitError{Code: 2, Err: fmt.Errorf("%d differences among %d containers", len(v.Differences), v.Containers)}
}

// printVerified prints the result, and returns an error if there are differences. Throttled periods
// are not differences. A wrong quota is one, and is among the differences.
func printVerified(out io.Writer, v *agent.Verified) error {
	lines := v.Differences
	if len(lines) == 0 {
		lines = []string{fmt.Sprintf("%d containers run as they should", v.Containers)}
	}
	lines = slices.Concat(v.Degraded, v.WithoutClass, lines)
	t := v.Throttling
	for _, note := range t.Notes {
		lines = append(lines, "note: "+note)
	}
	lines = append(lines, fmt.Sprintf("exclusive containers: %d, throttled by their own or their pod's CFS quota in %d of %d periods of the last %g s",
		t.Exclusive, t.Throttled, t.Periods, t.Seconds))
	if _, err := fmt.Fprintln(out, strings.Join(lines, "\n")); err != nil {
		return err
	}
	return differences(v)
}
