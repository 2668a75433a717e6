package agent

import (
	"context"
	"os"

	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/node/engine"
	"github.com/paddock-project/paddock/internal/node/intake"
	"github.com/paddock-project/paddock/internal/node/publication"
	"github.com/paddock-project/paddock/internal/node/zones"
)

// joinCluster creates what a node needs in a cluster whose scheduler plans for it: the intake of
// grants, and the publisher of its objects. If the node has no name, it creates neither. Without
// Publish, it creates no publisher. It returns those that observe the engine.
func (a *Agent) joinCluster(ctx context.Context) []engine.Observer {
	c := a.config
	if c.Runtime != RuntimeNRI || c.NodeName == "" {
		return nil
	}
	var outcomes []string
	for _, r := range handover.Reasons() {
		outcomes = append(outcomes, r.String())
	}
	counted := a.metrics.NewHandover(outcomes, func() int {
		if a.engine == nil {
			return 0
		}
		return a.intake.Promises(a.engine.State())
	})
	a.intake = intake.New(intake.Config{
		Node: c.NodeName, Listing: a.listing, Now: a.world.Now, Log: a.log,
		Count: func(r handover.Reason) {
			if counted.Count(r.String()); a.world.Watch.Handed != nil {
				a.world.Watch.Handed(r)
			}
		},
	})
	observers := []engine.Observer{a.intake}
	publishers, err := a.publish()
	if err != nil {
		a.log.ErrorContext(ctx, "the objects of this node cannot be published: schedulers do not know its resources", "error", err)
	}
	return append(observers, publishers...)
}

// publish creates the publishers of the node's objects. With an error, it returns those that it
// created before.
func (a *Agent) publish() (publishers []engine.Observer, err error) {
	c, w := a.config, a.world
	if c.Publish {
		if a.publisher, err = w.publisher(c, a.view, a.metrics.NewPublication(), a.log); err != nil {
			return nil, err
		}
		publishers = append(publishers, a.publisher)
	}
	if c.NodeResourceTopology {
		config, err := c.APIServer.address().Config(os.Getenv)
		if err != nil {
			return publishers, err
		}
		client, err := zones.NewClient(config)
		if err != nil {
			return publishers, err
		}
		a.zones = zones.New(zones.Config{
			Node: c.NodeName, Client: client, State: a.State, Listing: a.listing, Now: w.Now, After: w.After,
			Observer: a.metrics.NewExport(), Log: a.log,
		})
		publishers = append(publishers, a.zones)
	}
	return publishers, nil
}

// State returns the assignments of the agent. It never blocks.
func (a *Agent) State() *node.State { return a.engine.State() }

// listing returns the last list of the kubelet, or nil if there is none yet.
func (a *Agent) listing() *handover.Listing {
	if a.pods == nil {
		return nil
	}
	return a.pods.Listing()
}

// view implements publication.Config.View.
func (a *Agent) view() publication.View {
	return publication.View{State: a.engine.State(), Listing: a.listing(), Unmanaged: a.status().Unmanaged, NoVeto: a.status().NoVeto, Slow: a.slow()}
}
