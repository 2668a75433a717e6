package agent

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/paddock-project/paddock/internal/cgroup"
	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/podsource/kubelet"
	"github.com/paddock-project/paddock/internal/podspec"
	"github.com/paddock-project/paddock/internal/runtime/nri"
)

var errNotStarted = errors.New("the agent is starting")

// grace is how long a pod of which the kubelet cannot tell keeps what it holds without a sandbox: longer
// than the kubelet's backoff between two sandboxes of one pod.
const grace = 30 * time.Second

// realNode is a real node: a runtime that asks before it acts, and the kubelet, which knows the pods.
type realNode struct {
	plugin *nri.Plugin
	pods   *kubelet.Source
}

func (a *Agent) newNode(ctx context.Context, gates podspec.Gates) (*realNode, error) {
	c := a.config
	pods, err := kubelet.New(c.Kubelet.address(), kubelet.Options{Gates: gates, After: time.After, Log: a.log})
	if err != nil {
		return nil, err
	}
	fresh, _, err := node.Adopt(a.place.machine, a.place.policy, a.place.inventory, nil)
	if err != nil {
		return nil, err
	}
	estimate := a.estimate(ctx)
	return &realNode{pods: pods, plugin: nri.New(nri.Config{
		Engine: a.engine, Pods: pods, Cgroups: cgroups{cgroup.FS{Root: c.CgroupRoot}}, Observer: a.metrics.NewRuntime(), Log: a.log,
		Operation: a.flows.WithOperation, Now: time.Now, After: time.After,
		Socket: c.NRI.Socket, Name: c.NRI.PluginName, Index: c.NRI.PluginIndex, TakeOver: c.NRI.TakeOver, Estimate: estimate,
		Timeout: time.Duration(c.NRI.Timeout), Period: a.place.period, Grace: grace,
		Fresh: a.engine.State().Generation() <= fresh.Generation(),
	})}, nil
}

// estimate is nri.Config's: only what the kubelet does not list, or cannot be asked about, is estimated. A pod
// that it lists and that cannot be understood is not.
func (a *Agent) estimate(ctx context.Context) func(error) bool {
	if !a.config.Estimate {
		return nil
	}
	p := a.place.policy
	if p.Topology == node.TopologyNone || p.Scope != node.PodScope || !p.PodLevelManagers {
		a.log.WarnContext(ctx, "about a setting", "setting", "estimate: the policy has no pools, so a pod that is not listed runs on the node's shared pool; "+
			"pools need a topologyManagerPolicy other than none, topologyManagerScope: pod and the feature gate PodLevelResourceManagers")
	}
	return func(err error) bool { return !errors.Is(err, kubelet.ErrUnusablePod) }
}

// run drives the node until ctx ends.
func (n *realNode) run(ctx context.Context, group *errgroup.Group) {
	group.Go(func() error { return n.pods.Run(ctx) })
	group.Go(func() error { return n.plugin.Run(ctx) })
}

// runtimeReady is a check of telemetry's.
func (a *Agent) runtimeReady() error {
	if a.node == nil {
		return errNotStarted
	}
	return a.node.plugin.Ready()
}

// cgroups takes the paths that a runtime names.
type cgroups struct{ fs cgroup.FS }

// Read is nri.Cgroups'.
func (c cgroups) Read(path string) (converge.Setting, error) { return c.fs.Read(cgroup.Path(path)) }

// LiftQuota is nri.Cgroups'.
func (c cgroups) LiftQuota(path string) (bool, error) { return c.fs.LiftQuota(cgroup.Path(path)) }
