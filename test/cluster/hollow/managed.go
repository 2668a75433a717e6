package hollow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/paddock-project/paddock/internal/agent"
	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
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

// managed is the host of a node on which Paddock decides: the agent, a runtime and a disk.
type managed struct {
	*Node

	runtime *sim.Runtime
	marks   marks
	// lists is the URL of the kubelet's list.
	lists string

	agent *life // nil while it does not run
	// disk has the state of the agent, and survives it.
	disk    *crashfs.FS
	changed *node.Policy // instead of the kind's, from the next start of the agent on
}

// made is what a managed host has made of a pod.
type made struct {
	sandbox string
	ids     map[string]string // running containers, by name
	done    map[string]bool   // init containers that have ended
}

func newManaged(ctx context.Context, n *Node, lists string) *managed {
	return &managed{Node: n, runtime: newRuntime(ctx), disk: crashfs.New(), lists: lists}
}

func (*managed) version() string { return "v1.37.2-hollow" }

func (*managed) account() string { return agentName }

func (*managed) gone(*worker) {}

func (n *managed) close() { n.runtime.Close() }

// begin starts the agent, and waits until the runtime has a connection to it.
func (n *managed) begin(ctx context.Context) error {
	a, err := n.startAgent(ctx)
	if err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	n.mu.Lock()
	n.agent = a
	n.mu.Unlock()
	return n.runtime.Await(ctx)
}

// policy returns the policy with which the agent starts.
func (n *managed) policy() node.Policy {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changed != nil {
		return *n.changed
	}
	return n.Kind.State.Policy()
}

// state returns the agent's state, or nil while the agent does not run.
func (n *managed) state() *node.State {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.agent == nil {
		return nil
	}
	return n.agent.State()
}

// life is one run of the agent of a node, from its start to its end.
type life struct {
	*agent.Agent
	cancel context.CancelFunc
	ended  chan struct{}
}

// startAgent starts the agent of a node on the data of its disk. It is the product's agent in a
// simulated environment: a runtime, a disk and a list of pods in memory. The API server is real.
func (n *managed) startAgent(ctx context.Context) (*life, error) {
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
		Watch:       agent.Watch{Engine: (*decisions)(n.Node), Hook: n.record.hook, Published: n.wrote, Handed: n.record.came},
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
func (n *managed) describe() (*inputs.Node, error) {
	return &inputs.Node{
		Found: &discover.Found{Name: n.Kind.Machine, Machine: n.Kind.State.Machine()}, Devices: n.Kind.State.Devices().Inventory(),
		Policy: inputs.Policy{Policy: n.policy(), Text: n.Kind.Name, Period: period},
	}, nil
}

const pluginName = "paddock"

// kill ends the agent as kill -9 does. The next agent finds what was written until now.
func (n *managed) kill(l *life) {
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
func (n *managed) restart(ctx context.Context, away time.Duration) error {
	n.mu.Lock()
	a := n.agent
	n.agent = nil
	n.mu.Unlock()
	if a == nil {
		return fmt.Errorf("node %s: its agent is away already", n.Name)
	}
	n.kill(a)
	return n.comeBack(ctx, away, func() error {
		started, err := n.startAgent(ctx)
		if err != nil {
			return fmt.Errorf("node %s: %w", n.Name, err)
		}
		n.mu.Lock()
		n.agent = started
		n.mu.Unlock()
		return await(ctx, func() bool { return started.Ready() == nil })
	})
}

// comeBack shows that the agent does not run, waits, and starts it. start returns when the agent is
// ready.
func (n *Node) comeBack(ctx context.Context, away time.Duration, start func() error) error {
	n.fleet.showAgent(ctx, n, false)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(away):
	}
	if err := start(); err != nil {
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

// start creates what is missing of the pod. Failures are recorded.
func (n *managed) start(ctx context.Context, w *worker) progress {
	pod, err := podspec.Request(w.pod(), podspec.GatesOf(n.Kind.State.Policy()))
	if err != nil {
		n.trouble(w, failure{hook: "podspec", err: err})
		return waiting
	}
	m := &w.made
	if m.sandbox == "" {
		m.ids, m.done = map[string]string{}, map[string]bool{}
		asked := sim.SandboxOf(pod)
		asked.Annotations = w.pod().Annotations
		if m.sandbox, err = n.runtime.RunPodSandbox(ctx, asked); err != nil {
			n.failed(ctx, w, "RunPodSandbox", err)
			return waiting
		}
	}
	for _, c := range pod.Containers {
		if m.ids[c.Name] != "" || m.done[c.Name] {
			continue
		}
		if err := n.create(ctx, m, c); err != nil {
			n.failed(ctx, w, "CreateContainer", err)
			return waiting
		}
	}
	return running
}

// rejectedText is in the error of every rejection (nri.ErrRejected). Over NRI, an error is only a
// text.
const rejectedText = "paddock rejects the pod"

func (n *managed) failed(ctx context.Context, w *worker, hook string, err error) {
	if ctx.Err() != nil {
		return
	}
	n.trouble(w, failure{hook: hook, err: err, rejected: strings.Contains(err.Error(), rejectedText)})
	if w.tries > 1 {
		return // After the first attempt, a kubelet only increments the count of the event.
	}
	n.fleet.warn(ctx, w.pod(), fmt.Sprintf("Failed to create pod sandbox: %v", err))
}

// create runs a container. For an init container, it returns when the container has ended.
func (n *managed) create(ctx context.Context, m *made, c request.Container) error {
	id, err := n.runtime.CreateContainer(ctx, m.sandbox, c.Name, sim.ResourcesOf(c))
	if err == nil {
		err = n.runtime.StartContainer(ctx, id)
	}
	if err != nil {
		return errors.Join(err, n.runtime.RemoveContainer(ctx, id))
	}
	if c.Type == request.Init {
		m.done[c.Name] = true
		return n.runtime.StopContainer(ctx, id)
	}
	m.ids[c.Name] = id
	return nil
}

// stop removes the sandbox, and with it all containers.
func (n *managed) stop(ctx context.Context, w *worker) {
	if w.made.sandbox != "" {
		_ = n.runtime.RemovePodSandbox(ctx, w.made.sandbox) // Everything is removed even if it fails.
	}
}
