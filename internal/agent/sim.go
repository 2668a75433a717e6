package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/podsource/manifests"
	"github.com/paddock-project/paddock/internal/node/runtime/nri"
	"github.com/paddock-project/paddock/internal/node/runtime/sim"
)

// errPartial is the reason why no pod is released while manifests are missing from the set.
var errPartial = errors.New("some manifests cannot be read yet: no pod is released")

// patient is the nri.Config.Grace of the simulation. The simulated kubelet knows which pods exist,
// or reports that it does not while manifests cannot be read. A pod therefore never ends because it
// is missing in a list.
const patient = 10 * 365 * 24 * time.Hour

// newSimulation creates a runtime and a kubelet in memory, for the same control loop as on a node.
// They end with Run, not with ctx.
func (a *Agent) newSimulation(ctx context.Context) (err error) {
	a.runtime = sim.New(context.WithoutCancel(ctx), sim.Config{Name: "simulation", NRIVersion: "v0.12.5", Now: a.world.Now, After: a.world.After})
	a.kubelet = a.runtime.NewKubelet(sim.KubeletConfig{Log: a.log, Operation: a.flows.WithOperation})
	a.metrics.NewManifests(func() int {
		if broken := a.unusable.Load(); broken != nil {
			return len(*broken)
		}
		return 0
	})
	c := a.config.NRI
	a.plugin, err = a.newPlugin(nri.Config{
		Pods: a.kubelet, Cgroups: a.runtime.Cgroups(), Socket: "in memory", TakeOver: true, Grace: patient,
		Seen: SeenIn(a.runtime),
		Dial: func(handler any) (nri.Link, error) { return a.runtime.Dial(handler, c.PluginName, c.PluginIndex) },
	})
	return err
}

// SeenIn returns a function that shows the containers that run in a runtime in memory; see
// World.Seen.
func SeenIn(runtime *sim.Runtime) func(context.Context, map[string]string) ([]nri.Seen, error) {
	return func(context.Context, map[string]string) ([]nri.Seen, error) {
		var list []nri.Seen
		for _, r := range runtime.Running() {
			list = append(list, nri.Seen{Who: r.Who, Path: r.Path, Observed: r.Observed})
		}
		return list, nil
	}
}

// simulate runs the simulated runtime and kubelet with the pods of the manifests.
func (a *Agent) simulate(ctx context.Context, group *errgroup.Group) {
	set := a.follower()
	source := manifests.New(a.config.Pods, manifests.Options{Gates: podspec.GatesOf(a.env.Policy.Policy), After: a.looks.after})
	group.Go(func() error { return source.Run(ctx, func(s manifests.Set) { set(ctx, s) }) })
	group.Go(func() error { return a.kubelet.Run(ctx) })
	group.Go(func() error {
		<-ctx.Done()
		a.runtime.Close()
		return context.Cause(ctx)
	})
}

// manifestsReady is a telemetry.Check. It succeeds if every manifest is usable.
func (a *Agent) manifestsReady() error {
	broken := a.unusable.Load()
	switch {
	case broken == nil:
		return errors.New("the manifests have not been read yet")
	case len(*broken) == 1:
		return (*broken)[0].Err
	case len(*broken) > 1:
		return fmt.Errorf("%w (and %d other files or directories)", (*broken)[0].Err, len(*broken)-1)
	}
	return nil
}

// warning implements web.Config.Warning. It names the manifests with errors.
func (a *Agent) warning() string {
	if broken := a.unusable.Load(); broken == nil || len(*broken) == 0 {
		return ""
	}
	return "Manifests cannot be used: " + a.manifestsReady().Error()
}

// follower returns a function that gives the pods of a set to the kubelet. It logs each unusable
// manifest once.
func (a *Agent) follower() func(context.Context, manifests.Set) {
	reported := map[string]bool{}
	return func(ctx context.Context, set manifests.Set) {
		ctx = a.flows.WithOperation(ctx)
		broken := map[string]bool{}
		for _, p := range set.Broken {
			line := p.Err.Error()
			if broken[line] = true; !reported[line] {
				a.log.ErrorContext(ctx, "a manifest cannot be used", "file", p.File, "error", line, "pods_kept", p.Kept)
			}
		}
		reported = broken
		a.unusable.Store(&set.Broken)
		var partial error
		if set.Partial {
			partial = errPartial
			a.log.WarnContext(ctx, partial.Error())
		}
		var pods []request.Pod
		quiet := map[string]time.Time{}
		for _, source := range set.Pods {
			pod, err := podspec.Request(source.Pod, podspec.GatesOf(a.env.Policy.Policy))
			if err != nil {
				a.log.ErrorContext(ctx, "a pod of a manifest cannot be used", "from", source.Origin.String(), "error", err)
				continue
			}
			pods = append(pods, pod)
			if until, _ := podspec.Quiet(source.Pod.Annotations[podspec.QuietAnnotation]); !until.IsZero() { // A time that cannot be parsed counts as none.
				quiet[pod.UID] = until
			}
		}
		a.quiet.Store(&quiet)
		a.kubelet.Follow(pods, partial)
	}
}
