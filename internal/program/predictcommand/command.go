// Package predictcommand implements the command predict. It answers the questions of
// internal/cluster/prediction about the nodes of a cluster or of a file, on a local socket. Only
// cmd/paddock has the command, because the agent does not link the messages of the service.
package predictcommand

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cli/fleetcommand"
	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/cluster/clusterstate"
	"github.com/paddock-project/paddock/internal/cluster/fleetwatch"
	"github.com/paddock-project/paddock/internal/cluster/prediction"
	"github.com/paddock-project/paddock/internal/node/podres"
)

// New returns the command predict with its subcommand.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "predict",
		Short: "Answer other programs whether a node of the cluster would take a pod",
		Long: `Predict answers other programs whether a node would take a pod, with which CPUs and NUMA nodes, and if not, why
not. "paddock plan" and "paddock fleet" answer the same to people.`,
	}
	console.Group(cmd)
	cmd.AddCommand(serveCommand())
	return cmd
}

// defaultMaxAge lets a client continue during the restart of an API server. It is short enough that
// only a few pods come or go on a node in the meantime.
const defaultMaxAge = 20 * time.Second

func serveCommand() *cobra.Command {
	var nodes fleetcommand.NodesFlags
	var socket, mode string
	var maxAge time.Duration
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve predictions on a local socket",
		Long: `Serve answers the gRPC service of api/predict/v1alpha1/predict.proto on a unix socket until Ctrl-C: would a node take a
pod, for one pod and one node, or for many. It changes nothing, and an answer reserves nothing.

With --nodes live, it watches the cluster that kubectl is configured for, and each answer has the age of what it
is about. It needs permission to list and watch nodes, pods, paddocknodes and paddockmachines; deploy/fleet has a role.
While the API server does not answer, the age grows, and beyond --max-age answers are of certainty UNKNOWN.
With --nodes FILE, each entry of the file is one node with the name of the entry, whatever its count: its nodes are equal.

The directory of the socket must exist. The socket has mode 0600: only its owner can ask. A socket that an earlier
process left behind is replaced.`,
		Example: `  paddock predict serve --nodes live --socket /run/paddock/predict.sock
  paddock predict serve --nodes examples/fleet/nodes.yaml --socket predict.sock`,
		Args: console.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			permissions, err := strconv.ParseUint(mode, 8, 9)
			if err != nil || permissions&0o600 != 0o600 {
				return fmt.Errorf("--socket-mode: %q: expected an octal mode with which the owner can read and write, such as 0600 or 0660", mode)
			}
			if maxAge < time.Second {
				return fmt.Errorf("--max-age: %s is less than 1s", maxAge)
			}
			return serve(cmd, &nodes, socket, os.FileMode(permissions), maxAge)
		},
	}
	nodes.Register(cmd)
	cmd.Flags().StringVar(&socket, "socket", "", "the `PATH` of the unix socket to serve on")
	console.Require(cmd, "socket", "the path of a unix socket")
	cmd.Flags().StringVar(&mode, "socket-mode", "0600", "the `MODE` of the socket, in octal")
	cmd.Flags().DurationVar(&maxAge, "max-age", defaultMaxAge, "the age beyond which answers are of certainty UNKNOWN")
	return cmd
}

func serve(cmd *cobra.Command, flags *fleetcommand.NodesFlags, socket string, mode os.FileMode, maxAge time.Duration) error {
	s := console.StreamsOf(cmd)
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	prepared, err := podres.Prepare(socket, mode) // A large cluster takes seconds to read.
	if err != nil {
		return fmt.Errorf("--socket: %w", err)
	}
	defer prepared.Close()
	watch, file, err := flags.Open(ctx, s)
	if err != nil {
		if errors.Is(err, context.Canceled) {
			return nil // Ctrl-C.
		}
		return err
	}
	source := prediction.Source(&live{watch: watch})
	if watch == nil {
		if source, err = fixedOf(file); err != nil {
			return err
		}
	}
	listener, err := prepared.Listen()
	if err != nil {
		return fmt.Errorf("--socket: %w", err)
	}
	defer listener.Close() // Serve closes it, unless it is never called.
	if _, err := fmt.Fprintf(s.Stdout, "Serving predictions for %d nodes on %s. Ctrl-C ends it.\n", len(source.Moment().Nodes), socket); err != nil {
		return err
	}
	return prediction.New(source, prediction.Options{MaxAge: maxAge, Now: time.Now, After: time.After}).Serve(ctx, listener)
}

// fixed represents the nodes of a file. A kind of several nodes is one node here, because its nodes
// are equal.
type fixed struct{ moment *prediction.Moment }

func fixedOf(nodes *inputs.FleetNodes) (prediction.Source, error) {
	m := &prediction.Moment{}
	if c := nodes.Cluster(); c != nil {
		m = momentOf(c)
	} else {
		seen := map[string]bool{}
		for _, k := range nodes.Kinds {
			if seen[k.Name] {
				return nil, fmt.Errorf("--nodes: two entries have the name %s: give each a name of its own", k.Name)
			}
			seen[k.Name] = true
			m.Nodes = append(m.Nodes, prediction.Node{Name: k.Name, State: k.State})
		}
	}
	m.Fixed = true
	return &fixed{m}, nil
}

func (f *fixed) Moment() *prediction.Moment   { return f.moment }
func (f *fixed) Trouble() (time.Time, string) { return time.Time{}, "" }

// live represents a cluster that is watched.
type live struct {
	watch *fleetwatch.Watch

	mu     sync.Mutex
	from   *clusterstate.Moment
	moment *prediction.Moment
}

func (l *live) Moment() *prediction.Moment {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m, _ := l.watch.Moment(); m != l.from {
		l.from, l.moment = m, momentOf(m)
	}
	return l.moment
}

func (l *live) Trouble() (time.Time, string) { return l.watch.Trouble() }

func momentOf(m *clusterstate.Moment) *prediction.Moment {
	doubts := map[string][]string{}
	for _, n := range m.Notes {
		doubts[n.Node] = append(doubts[n.Node], n.Text)
	}
	out := &prediction.Moment{Problems: make(map[string]string, len(m.Problems)+len(m.Strange))}
	for _, p := range m.Problems {
		out.Problems[p.Node] = p.Text
	}
	for _, name := range m.Strange {
		out.Problems[name] = "it has no PaddockNode: let its agent publish the node (publish: true)"
	}
	for _, n := range m.Nodes {
		out.Nodes = append(out.Nodes, prediction.Node{Name: n.Name, State: n.State, Doubts: slices.Clip(doubts[n.Name])})
	}
	return out
}
