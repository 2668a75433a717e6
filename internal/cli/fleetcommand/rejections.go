package fleetcommand

import (
	"fmt"
	"time"

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
		Long: `Rejections adds up the counters of the PaddockNodes: for each kind of node, how many pods and resizes its
nodes rejected of those that they decided about since their agents started, and of which class and for which cause.
A kind has the name of its instance type (label node.kubernetes.io/instance-type), or else what its machine has.
NODES is "live", or the output of
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
			answer := rejectionsOf(now.Rejections, now.Decisions, false)
			if since != "" {
				before, err := c.moment(cmd, s, since)
				if err != nil {
					return fmt.Errorf("--since: %w", err)
				}
				rejections, decisions := now.Since(before)
				answer = rejectionsOf(rejections, decisions, true)
			}
			return c.answer(s, console.FleetRejections, answer, func() string { return answer.Text(s.Style()) }, answer.Rows)
		},
	}
	c.registerNodes(cmd)
	cmd.Flags().StringVar(&since, "since", "", "an earlier output, a `FILE`: only what came after it counts")
	c.output.Register(cmd, "table", "json", "yaml", "csv")
	return cmd
}

// rejectionsOf describes the rejections of a cluster. later is set if they are those after an
// earlier output.
func rejectionsOf(rejections []clusterstate.Rejections, decisions []clusterstate.Decisions, later bool) *view.FleetRejections {
	f := &view.FleetRejections{Later: later, Kinds: make([]view.RejectingKind, 0, len(decisions)), Rejections: make([]view.RejectedClass, 0, len(rejections))}
	for _, r := range rejections {
		f.Rejections = append(f.Rejections, view.RejectedClass{Kind: r.Group, Class: r.Class, Cause: r.Cause, Rejected: r.Pods, Nodes: r.Nodes})
	}
	var all clusterstate.Decisions
	for _, d := range decisions {
		f.Kinds = append(f.Kinds, view.RejectingKind{Kind: d.Group, RejectionRate: view.RateOf(d.Nodes, d.Rejected, d.Decided, d.Uncounted), Policy: d.Policy})
		all = all.Plus(d)
	}
	f.RejectionRate = view.RateOf(all.Nodes, all.Rejected, all.Decided, all.Uncounted)
	if !all.From.IsZero() {
		f.From, f.To = all.From.UTC().Format(time.RFC3339), all.To.UTC().Format(time.RFC3339)
	}
	return f
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
