package agent

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/quota"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/cgroup"
	"github.com/paddock-project/paddock/internal/node/podsource/kubelet"
	"github.com/paddock-project/paddock/internal/node/runtime/nri"
)

var errNotStarted = errors.New("the agent is starting")

// grace is how long a pod that the kubelet does not list keeps its assignments without a sandbox.
// It is longer than the kubelet's back-off between two sandboxes of one pod.
const grace = 30 * time.Second

// newPlugin returns the control loop, which is the same on a node and in the simulation. c has the
// fields that differ.
func (a *Agent) newPlugin(c nri.Config) (*nri.Plugin, error) {
	fresh, _, err := node.Adopt(a.env.Found.Machine, a.env.Policy.Policy, a.env.Devices, nil)
	if err != nil {
		return nil, err
	}
	c.Engine, c.Observer, c.Log, c.Operation = a.engine, runtimeWatch{a.metrics.NewRuntime(), a.world.Watch}, a.log, a.flows.WithOperation
	c.Now, c.After, c.Period = a.world.Now, a.world.After, a.env.Policy.Period
	c.Name, c.Index, c.Timeout = a.config.NRI.PluginName, a.config.NRI.PluginIndex, time.Duration(a.config.NRI.Timeout)
	c.Moves = a.moves()
	c.Fresh = a.engine.State().Generation() <= fresh.Generation()
	return nri.New(c), nil
}

// newNode connects to a real node: to its runtime through NRI, and to its kubelet for the list of
// pods.
func (a *Agent) newNode(ctx context.Context, gates podspec.Gates) (err error) {
	c, w := a.config, a.world
	a.pods, err = kubelet.New(c.Kubelet.address(), kubelet.Options{Gates: gates, Now: w.Now, After: w.After, Log: a.log})
	if err != nil {
		return err
	}
	var chosen func(context.Context, string, string) (func(request.Pod) request.Pod, error)
	if socket := c.Kubelet.PodResources; socket != "" {
		var closing func() error
		if a.devices, closing, err = newDevices(socket, a.engine.State); err != nil {
			return err
		}
		a.devices.places = newPlaces(ctx, c, a.log)
		released := a.close
		a.close = sync.OnceValue(func() error { return errors.Join(closing(), released()) })
		chosen = a.devices.pod
	}
	handed := nri.Handover(nil)
	if a.intake != nil {
		handed = a.intake
	}
	shown := nri.Notices(nil)
	if a.notices = a.newNotices(); a.notices != nil {
		shown = notices{a.notices}
	}
	shows := w.Seen
	if shows == nil {
		shows = seen(a.pods, cgroup.FS{Root: c.CgroupRoot}, a.log)
	}
	a.plugin, err = a.newPlugin(nri.Config{
		Notices: shown, Handover: handed, Devices: chosen, Pods: a.pods, Cgroups: w.Cgroups, Socket: c.NRI.Socket, Dial: w.Dial, TakeOver: c.NRI.TakeOver,
		Classes: a.classes(ctx, os.DirFS("/")), Seen: shows, Estimate: a.estimate(ctx), Grace: grace, LastAnswer: w.Marks.Marked(), Alive: a.alive(ctx),
	})
	if err != nil {
		return err
	}
	if a.measuring != nil {
		a.metrics.NewUse(func() int { return a.measuring.use(a.engine.State()).Idle })
	}
	a.metrics.NewThrottling(throttling(cgroup.FS{Root: c.CgroupRoot}, a.engine.State, a.running))
	return nil
}

// classes returns how containers get to their classes of the caches, if both the machine and the
// policy allow classes.
func (a *Agent) classes(ctx context.Context, root fs.FS) nri.Classes {
	if !a.env.Policy.Policy.CPU.DividesCaches || a.env.Found.Machine.Caches().IsEmpty() {
		return nri.Classes{}
	}
	a.log.WarnContext(ctx, "about a setting", "setting", "CPU manager option cache-allocation: it is untried on hardware; without paddock quiet, no class is made, or the default class has its ways too")
	return nri.Classes{Exists: func(group string) bool { return discover.HasGroup(root, group) }, Schemata: a.config.NRI.CacheSchemata}
}

// estimate returns the function for nri.Config.Estimate. It estimates a pod if the kubelet does not
// list the pod or does not answer. It does not estimate a pod that is listed with unusable fields.
func (a *Agent) estimate(ctx context.Context) func(error) bool {
	if !a.config.Estimate {
		return nil
	}
	p := a.env.Policy.Policy
	if p.Topology == node.TopologyNone || p.Scope != node.PodScope || !p.PodLevelManagers {
		a.log.WarnContext(ctx, "about a setting", "setting", "estimate: the policy has no pools, so a pod that is not listed runs on the node shared pool; "+
			"pools need a topologyManagerPolicy other than none, topologyManagerScope: pod and the feature gate PodLevelResourceManagers")
	}
	return func(err error) bool { return !errors.Is(err, kubelet.ErrUnusablePod) }
}

// Ready returns the reason why the agent does not manage the node now, or nil if it does.
func (a *Agent) Ready() error {
	if a.plugin == nil {
		return errNotStarted
	}
	return a.plugin.Ready()
}

// containersReady is a telemetry.Check. It succeeds if every running container has the settings
// that it should have.
func (a *Agent) containersReady() error { return a.status().Verified() }

// kubeletReady is a telemetry.Check. It fails without the kubelet's list, because no new pod is
// admitted then.
func (a *Agent) kubeletReady() error {
	if a.pods == nil {
		return errNotStarted
	}
	return a.pods.Ready()
}

// notice implements web.Config.Notice. It returns the reason why no assignment is in force. A
// missing connection to the runtime is not such a reason: running containers keep their CPUs.
func (a *Agent) notice() string {
	if unmanaged := a.status().Unmanaged; unmanaged != nil {
		return "Paddock does not manage this node: " + unmanaged.Error()
	}
	return ""
}

// veto implements web.Config.Veto.
func (a *Agent) veto(uid string) string { return a.status().Vetoes[uid] }

// status returns the status of the control loop.
func (a *Agent) status() *nri.Status {
	if a.plugin == nil {
		return &nri.Status{}
	}
	return a.plugin.Status()
}

// slow returns what came close to the time after which the runtime continues without the agent, or
// nil.
func (a *Agent) slow() error {
	if a.plugin == nil {
		return nil
	}
	return a.plugin.Slow()
}

// cgroups implements nri.Cgroups for the paths that a runtime names.
type cgroups struct{ fs cgroup.FS }

// Read implements nri.Cgroups.
func (c cgroups) Read(path string) (converge.Setting, error) { return c.fs.Read(cgroup.Path(path)) }

// Pages implements nri.Cgroups.
func (c cgroups) Inner(path string) (string, cpuset.Set, error) { return c.fs.Inner(cgroup.Path(path)) }

func (c cgroups) Set(path string, s converge.Setting) error { return c.fs.Set(cgroup.Path(path), s) }

func (c cgroups) Pages(path string) (map[int]int64, error) { return c.fs.Pages(cgroup.Path(path)) }

// SetQuota implements nri.Cgroups.
func (c cgroups) SetQuota(path string, want quota.Quota) (bool, error) {
	return c.fs.SetQuota(cgroup.Path(path), want)
}
