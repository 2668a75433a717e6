package fleetcommand

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/cluster/fleetwatch"
	"github.com/paddock-project/paddock/internal/codec/discover"
)

// NodesFlags are the flags of a command that reads nodes as fleet does: --nodes, --kubeconfig and
// --context.
type NodesFlags struct{ command fleetCommand }

// Register defines the flags.
func (f *NodesFlags) Register(cmd *cobra.Command) {
	f.command.program.Name = "paddock"
	f.command.registerNodes(cmd)
}

// Open reads the nodes: a watch of the cluster, which has read everything once and ends with ctx,
// or the nodes of a file. Exactly one of the two is not nil unless there is an error.
func (f *NodesFlags) Open(ctx context.Context, s console.Streams) (*fleetwatch.Watch, *inputs.FleetNodes, error) {
	if len(f.command.nodes) != 1 {
		return nil, nil, fmt.Errorf("--nodes is given %d times: give it once", len(f.command.nodes))
	}
	if slices.Contains(f.command.nodes, discover.LiveName) {
		w, err := f.command.watch(ctx, s)
		return w, nil, err
	}
	nodes, err := f.command.read(ctx, s, f.command.nodes[0])
	if err == nil && len(nodes.Kinds) == 0 {
		err = errors.New("--nodes: there is no node that can be planned for")
	}
	return nil, nodes, err
}
