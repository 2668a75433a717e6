package agent

import (
	"context"
	"errors"
	"time"

	"github.com/paddock-project/paddock/internal/cgroup"
	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/podsource/kubelet"
	"github.com/paddock-project/paddock/internal/podspec"
	"github.com/paddock-project/paddock/internal/runtime/nri"
	"github.com/paddock-project/paddock/internal/store"
)

var errNotStarted = errors.New("the agent is starting")

// grace is how long a pod of which the kubelet cannot tell keeps what it holds without a sandbox: longer
// than the kubelet's backoff between two sandboxes of one pod.
const grace = 30 * time.Second

// newPlugin is the control loop, the same on a node and in the simulation. c has what differs.
func (a *Agent) newPlugin(c nri.Config) (*nri.Plugin, error) {
	fresh, _, err := node.Adopt(a.place.machine, a.place.policy, a.place.inventory, nil)
	if err != nil {
		return nil, err
	}
	c.Engine, c.Observer, c.Log, c.Operation = a.engine, a.metrics.NewRuntime(), a.log, a.flows.WithOperation
	c.Now, c.After, c.Period = time.Now, time.After, a.place.period
	c.Name, c.Index, c.Timeout = a.config.NRI.PluginName, a.config.NRI.PluginIndex, time.Duration(a.config.NRI.Timeout)
	c.Fresh = a.engine.State().Generation() <= fresh.Generation()
	return nri.New(c), nil
}

// newNode is a real node: a runtime that asks before it acts, and the kubelet, which knows the pods.
func (a *Agent) newNode(ctx context.Context, gates podspec.Gates) (err error) {
	c := a.config
	a.pods, err = kubelet.New(c.Kubelet.address(), kubelet.Options{Gates: gates, Now: time.Now, After: time.After, Log: a.log})
	if err != nil {
		return err
	}
	a.plugin, err = a.newPlugin(nri.Config{
		Pods: a.pods, Cgroups: cgroups{cgroup.FS{Root: c.CgroupRoot}}, Socket: c.NRI.Socket, TakeOver: c.NRI.TakeOver,
		Estimate: a.estimate(ctx), Grace: grace, LastAnswer: store.Marked(c.State + suffixAlive), Alive: a.alive(ctx),
	})
	if err != nil {
		return err
	}
	a.metrics.NewThrottling(throttling(cgroup.FS{Root: c.CgroupRoot}, a.engine.State, a.running))
	return nil
}

// estimate is nri.Config's: only what the kubelet does not list, or cannot be asked about, is estimated. A pod
// that it lists and that cannot be understood is not.
func (a *Agent) estimate(ctx context.Context) func(error) bool {
	if !a.config.Estimate {
		return nil
	}
	p := a.place.policy
	if p.Topology == node.TopologyNone || p.Scope != node.PodScope || !p.PodLevelManagers {
		a.log.WarnContext(ctx, "about a setting", "setting", "estimate: the policy has no pools, so a pod that is not listed runs on the node shared pool; "+
			"pools need a topologyManagerPolicy other than none, topologyManagerScope: pod and the feature gate PodLevelResourceManagers")
	}
	return func(err error) bool { return !errors.Is(err, kubelet.ErrUnusablePod) }
}

// runtimeReady is a check of telemetry's.
func (a *Agent) runtimeReady() error {
	if a.plugin == nil {
		return errNotStarted
	}
	return a.plugin.Ready()
}

// kubeletReady is a check of telemetry's: without the kubelet's list no new pod can start.
func (a *Agent) kubeletReady() error {
	if a.pods == nil {
		return errNotStarted
	}
	return a.pods.Ready()
}

// notice is web's: why no assignment is in force. A runtime that is not connected is no reason: what runs
// keeps its CPUs.
func (a *Agent) notice() string {
	if aside := a.status().Aside; aside != nil {
		return "This node is not managed: " + aside.Error()
	}
	return ""
}

// status is what the control loop knows.
func (a *Agent) status() *nri.Status {
	if a.plugin == nil {
		return &nri.Status{}
	}
	return a.plugin.Status()
}

// cgroups takes the paths that a runtime names.
type cgroups struct{ fs cgroup.FS }

// Read is nri.Cgroups'.
func (c cgroups) Read(path string) (converge.Setting, error) { return c.fs.Read(cgroup.Path(path)) }

// SetQuota is nri.Cgroups'.
func (c cgroups) SetQuota(path string, want node.Quota) (bool, error) {
	return c.fs.SetQuota(cgroup.Path(path), want)
}
