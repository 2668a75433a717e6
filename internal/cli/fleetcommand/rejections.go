package fleetcommand

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cluster/clusterstate"
	"github.com/paddock-project/paddock/internal/ui/view"
)

func (c *fleetCommand) rejectionsCommand() *cobra.Command {
	var since string
	cmd := &cobra.Command{
		Use:   "rejections",
		Short: "Show how often the nodes of a cluster rejected which pods, and why",
		Long: `Rejections adds up the counters of the PaddockNodes: for each kind of node, how many pods of which
class were rejected for which cause since the agents started. NODES is "live", or the output of
  kubectl get nodes,paddocknodes,paddockmachines -o json
With --since, only what came after an earlier output counts. An agent counts from zero when it starts.`,
		Example: `  paddock fleet rejections --nodes live
  kubectl get nodes,paddocknodes,paddockmachines -o json | paddock fleet rejections --nodes - --since monday.json`,
		Args: console.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s := console.StreamsOf(cmd)
			now, err := c.moment(cmd, s, c.nodes[0])
			if err != nil {
				return err
			}
			rejections := now.Rejections
			if since != "" {
				before, err := c.moment(cmd, s, since)
				if err != nil {
					return fmt.Errorf("--since: %w", err)
				}
				rejections = now.Since(before)
			}
			answer := make([]view.FleetRejections, 0, len(rejections))
			for _, r := range rejections {
				answer = append(answer, view.FleetRejections{Kind: r.Group, Class: r.Class, Cause: r.Cause, Pods: r.Pods, Nodes: r.Nodes})
			}
			text := func() string { return view.RejectionsText(answer, since != "", s.Style()) }
			return c.answer(s, console.FleetRejections, answer, text, func() [][]string { return view.RejectionsRows(answer) })
		},
	}
	c.registerNodes(cmd)
	cmd.Flags().StringVar(&since, "since", "", "an earlier output, a `FILE`: only what came after it counts")
	c.output.Register(cmd, "table", "json", "yaml", "csv")
	return cmd
}

// moment reads a cluster.
func (c *fleetCommand) moment(cmd *cobra.Command, s console.Streams, name string) (*clusterstate.Moment, error) {
	nodes, err := c.read(cmd.Context(), s, name)
	if err != nil {
		return nil, err
	}
	if !nodes.Running {
		return nil, fmt.Errorf("%s is not a cluster: expected the output of kubectl get nodes,paddocknodes,paddockmachines -o json", name)
	}
	s.Notes(nodes.Notes)
	return nodes.Cluster(), nil
}
