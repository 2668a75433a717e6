package program

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/explain"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// reportCommand is one invocation of paddock report.
type reportCommand struct {
	node   nodeFlags
	as     asFlag
	agent  agentFlag
	output console.Form
}

func (c *reportCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Show how a node's CPUs and memory are used, and how large a pod still fits",
		Long: `Report shows for each NUMA node what is exclusive, pooled, idle in pools, reserved and free,
what is free but lost to alignment, which pods have more than their containers can use, and
the largest pod of one container that each topology policy would admit now:

  MOST CPUS             with the least memory that suffices
  MOST MEMORY, NO CPUS  of a container that shares its CPUs
  IN PROPORTION         CPUs with as much memory for each as the machine has
  LOST                  the difference to policy none, which aligns nothing

Every amount that can matter has been planned, unless there were too many: the amount is then followed by "or more",
and fits.`,
		Example: `  paddock report --machine node7.json --state node7.state --kubelet-config kubelet.yaml
  paddock report --agent`,
		Args: console.NoArguments,
		RunE: c.run,
	}
	c.node.register(cmd, "the pods on the node: a `FILE` that paddock plan --save or the agent wrote, or a kubelet's directory or its state files with commas, with --as and --pods")
	c.as.register(cmd, "the kubelet that wrote --state, and decides")
	c.agent.register(cmd, "report on the node of the agent that listens on `HOST:PORT`")
	c.output.Register(cmd, "text", "json", "yaml")
	return cmd
}

func (c *reportCommand) run(cmd *cobra.Command, _ []string) error {
	s := console.StreamsOf(cmd)
	if cmd.Flags().Changed("agent") {
		return c.askAgent(cmd, s)
	}
	c.node.as = &c.as
	n, state, err := c.node.read(s)
	if err != nil {
		return err
	}
	usage, err := explain.Usage(cmd.Context(), state)
	if err != nil {
		return err
	}
	r := view.Report{Machine: n.Found.Name, Policy: n.Policy.Text, Usage: usage, Certainty: c.node.stock.certainty(&c.as)}
	return s.Document(c.output.Value, console.Report, r, func() string { return r.Text(s.Style()) })
}

// askAgent prints the report of a running node.
func (c *reportCommand) askAgent(cmd *cobra.Command, s console.Streams) error {
	if err := c.agent.check(cmd); err != nil {
		return err
	}
	data, err := c.agent.ask(cmd.Context(), s, "/api/report", nil)
	if err != nil {
		return err
	}
	var r view.Report
	if err := json.Unmarshal(data, &r); err != nil || len(r.Usage.Nodes) == 0 {
		return fmt.Errorf("agent at %s: the answer is not a report: is this the listen address of a Paddock agent?", c.agent.address)
	}
	return s.Document(c.output.Value, console.Report, r, func() string { return r.Text(s.Style()) })
}
