package hollow

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/paddock-project/paddock/internal/agent"
	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/node/apiserver"
	"github.com/paddock-project/paddock/internal/node/runtime/nri"
	"github.com/paddock-project/paddock/internal/node/runtime/sim"
	"github.com/paddock-project/paddock/internal/node/telemetry"
	"github.com/paddock-project/paddock/internal/testing/crashfs"
)

const (
	// hookTimeout and requestTimeout are longer than on a node (0.8 s and 2 s). Here a thousand
	// nodes share the CPUs of one machine, so a late answer would not be Paddock's fault.
	hookTimeout, requestTimeout = 10 * time.Second, 30 * time.Second
	// period is the time between two full comparisons of an agent.
	period = 30 * time.Second
)

// life is one run of the agent of a node, from its start to its end.
type life struct {
	*agent.Agent
	cancel context.CancelFunc
	ended  chan struct{}
}

// startAgent starts the agent of a node on the data of its disk. It is the product's agent in a
// simulated environment: a runtime, a disk and a list of pods in memory. The API server is real.
func (n *Node) startAgent(ctx context.Context) (*life, error) {
	config := agent.DefaultConfig()
	config.Machine, config.NodeName, config.Runtime, config.Publish = n.Name, n.Name, agent.RuntimeNRI, true
	config.Listen, config.PodResources.Socket, config.NoticeDir = "", "", ""
	config.Kubelet = agent.KubeletConfig{URL: n.lists}
	config.APIServer = agent.APIServerConfig{URL: apiserver.InCluster}
	config.NRI.PluginName, config.NRI.Timeout, config.NRI.TakeOver = pluginName, agent.Duration(hookTimeout), true
	n.mu.Lock()
	disk := n.disk
	n.mu.Unlock()
	made, err := agent.New(ctx, config, agent.World{
		FS: disk, Now: time.Now, After: time.After, Node: n.describe, Cgroups: n.runtime.Cgroups(), Seen: agent.SeenIn(n.runtime), Marks: &n.marks,
		Dial: func(handler any) (nri.Link, error) {
			return n.runtime.Dial(handler, config.NRI.PluginName, config.NRI.PluginIndex)
		},
		Publication: n.fleet.publishers[n.Name],
		Watch:       agent.Watch{Engine: (*decisions)(n), Hook: n.record.hook, Published: n.wrote, Handed: n.record.came},
	}, telemetry.Build{}, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	n.published.Store(false)
	l := &life{Agent: made, ended: make(chan struct{})}
	ctx, l.cancel = context.WithCancel(ctx)
	go func() {
		defer close(l.ended)
		if err := l.Run(ctx); err != nil {
			n.fleet.log.Error("an agent has ended", "node", n.Name, "error", err)
		}
	}()
	return l, nil
}

// describe returns the node without pods.
func (n *Node) describe() (*inputs.Node, error) {
	m := n.Kind.State.Machine()
	none, err := device.NewInventory(m, nil)
	if err != nil {
		return nil, err
	}
	return &inputs.Node{
		Found: &discover.Found{Name: n.Kind.Machine, Machine: m}, Devices: none,
		Policy: inputs.Policy{Policy: n.policy(), Text: n.Kind.Name, Period: period},
	}, nil
}

const pluginName = "paddock"

// kill ends the agent as kill -9 does. The next agent finds what was written until now.
func (n *Node) kill(l *life) {
	n.mu.Lock()
	n.disk = n.disk.Left(crashfs.KeepAll)
	n.mu.Unlock()
	l.cancel()
	<-l.ended // Anything it still writes goes to a disk that is not used any more.
}

// newRuntime creates the runtime of a node. It creates no container while the agent does not run.
func newRuntime(ctx context.Context) *sim.Runtime {
	return sim.New(ctx, sim.Config{Required: []string{pluginName}, RequestTimeout: requestTimeout, Now: time.Now, After: time.After})
}

// restart ends the agent, waits, and starts it again.
func (n *Node) restart(ctx context.Context, away time.Duration) error {
	n.mu.Lock()
	a := n.agent
	n.agent = nil
	n.mu.Unlock()
	if a == nil {
		return fmt.Errorf("node %s: its agent is away already", n.Name)
	}
	n.kill(a)
	n.fleet.showAgent(ctx, n, false)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(away):
	}
	started, err := n.startAgent(ctx)
	if err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	n.mu.Lock()
	n.agent = started
	n.mu.Unlock()
	if err := await(ctx, func() bool { return started.Ready() == nil }); err != nil {
		return err
	}
	n.fleet.showAgent(ctx, n, true)
	return nil
}

// await waits until the condition is true.
func await(ctx context.Context, is func() bool) error {
	for !is() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(probe):
		}
	}
	return nil
}

// probe is the time between two readiness probes of the agent by a kubelet.
const probe = time.Second
