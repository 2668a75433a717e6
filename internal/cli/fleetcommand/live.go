package fleetcommand

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/cluster/clusterstate"
	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/cluster/fleetwatch"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// checkTime is how long the API server may take to answer at the start.
const checkTime = 30 * time.Second

// watch starts to watch the cluster and waits until everything was read once. The watch ends with
// ctx.
func (c *fleetCommand) watch(ctx context.Context, s console.Streams) (*fleetwatch.Watch, error) {
	config, err := c.cluster.Config()
	if err != nil {
		return nil, err
	}
	w, err := fleetwatch.New(config, time.Now)
	if err != nil {
		return nil, err
	}
	check, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	if err := w.Check(check); err != nil {
		return nil, fmt.Errorf("%s: %w", config.Host, err)
	}
	if c.program.Rules != nil {
		w.KeepPeers()
	}
	go w.Run(ctx)
	reported := ""
	for {
		changed := w.Changed()
		if w.Synced() {
			return w, nil
		}
		if _, why := w.Trouble(); why != "" && why != reported {
			s.NoteNow(why)
			reported = why
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-changed:
		}
	}
}

// once reads the present state of the cluster.
func (c *fleetCommand) once(ctx context.Context, s console.Streams) (*inputs.FleetNodes, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := c.watch(ctx, s)
	if err != nil {
		return nil, err
	}
	m, _ := w.Moment()
	if len(m.Nodes) == 0 {
		return nil, errors.New("the cluster has no node that can be planned for" + firstOf(m))
	}
	nodes := inputs.ClusterNodes(m)
	nodes.Peers = c.program.Rules != nil
	return nodes, nil
}

// firstOf returns the first reason why nodes are left out.
func firstOf(m *clusterstate.Moment) string {
	switch {
	case len(m.Problems) > 0:
		return fmt.Sprintf(": node %s: %s", m.Problems[0].Node, m.Problems[0].Text)
	case len(m.Strange) > 0:
		return fmt.Sprintf(": %s without a PaddockNode: let the agents publish their nodes (publish: true)", view.Count(len(m.Strange), "node"))
	}
	return ""
}

func (c *fleetCommand) serveLive(ctx context.Context, s console.Streams, listener net.Listener, everywhere bool) error {
	if len(c.pods) > 0 {
		return errors.New("--pods cannot be combined with a cluster, which has its own pods: leave it out, or paste a manifest into the page")
	}
	scoring, err := c.scoringOf()
	if err != nil {
		return err
	}
	w, err := c.watch(ctx, s)
	if err != nil {
		if errors.Is(err, context.Canceled) {
			return nil // Ctrl-C.
		}
		return err
	}
	m, _ := w.Moment()
	live := NewLive(w, LiveOptions{
		Title: "Cluster " + c.cluster.Name(), Scoring: scoring, Clock: pageClock,
		Read: func(ctx context.Context, nodes *inputs.FleetNodes, manifests []byte) ([]fleet.Pod, []string, error) {
			return c.pasted(ctx, s, nodes, manifests)
		},
	})
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer close(ended)
		live.Run(ctx)
	}()
	defer func() {
		cancel()
		<-ended
	}()
	return serveFleet(ctx, s, listener, everywhere, view.Count(len(m.Nodes), "node"), live)
}
