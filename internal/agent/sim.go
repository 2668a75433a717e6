package agent

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/podsource/manifests"
	"github.com/paddock-project/paddock/internal/podspec"
	"github.com/paddock-project/paddock/internal/runtime/nri"
	"github.com/paddock-project/paddock/internal/runtime/sim"
)

// errPartial is why nothing ends while manifests are missing from the set.
var errPartial = errors.New("some manifests could not be read yet: no pod is released")

// patient is the simulation's nri.Config.Grace: the simulated kubelet always knows which pods there are or, while
// manifests cannot be read, that it does not; so no pod is ever given up for its silence.
const patient = 10 * 365 * 24 * time.Hour

// newSimulation makes a runtime and a kubelet in memory, for the same control loop that runs on a node. They end with
// Run, not with ctx.
func (a *Agent) newSimulation(ctx context.Context) (err error) {
	a.runtime = sim.New(context.WithoutCancel(ctx), sim.Config{Name: "simulation", NRIVersion: "v0.12.5", Now: time.Now, After: time.After})
	a.kubelet = a.runtime.NewKubelet(sim.KubeletConfig{Log: a.log, Operation: a.flows.WithOperation})
	c := a.config.NRI
	a.plugin, err = a.newPlugin(nri.Config{
		Pods: a.kubelet, Cgroups: a.runtime.Cgroups(), Socket: "in memory", TakeOver: true, Grace: patient,
		Dial: func(handler any) (nri.Link, error) { return a.runtime.Dial(handler, c.PluginName, c.PluginIndex) },
	})
	return err
}

// simulate runs the simulated runtime and kubelet with the pods of the manifests.
func (a *Agent) simulate(ctx context.Context, group *errgroup.Group) {
	set := a.follower()
	source := manifests.New(a.config.Pods, manifests.Options{Gates: podspec.GatesOf(a.place.policy), After: a.looks.after})
	group.Go(func() error { return source.Run(ctx, func(s manifests.Set) { set(ctx, s) }) })
	group.Go(func() error { return a.kubelet.Run(ctx) })
	group.Go(func() error {
		<-ctx.Done()
		a.runtime.Close()
		return context.Cause(ctx)
	})
}

// follower returns what gives the kubelet the pods of a set, and logs what is wrong with its manifests, once each.
func (a *Agent) follower() func(context.Context, manifests.Set) {
	reported := map[string]bool{}
	return func(ctx context.Context, set manifests.Set) {
		ctx = a.flows.WithOperation(ctx)
		broken := map[string]bool{}
		for _, p := range set.Broken {
			line := p.Err.Error()
			if broken[line] = true; !reported[line] {
				a.log.ErrorContext(ctx, "manifest not usable", "file", p.File, "error", line, "pods_kept", p.Kept)
			}
		}
		reported = broken
		var partial error
		if set.Partial {
			partial = errPartial
			a.log.WarnContext(ctx, partial.Error())
		}
		var pods []request.Pod
		for _, source := range set.Pods {
			pod, err := podspec.Request(source.Pod, podspec.GatesOf(a.place.policy))
			if err != nil {
				a.log.ErrorContext(ctx, "pod not usable", "from", source.Origin.String(), "error", err)
				continue
			}
			pods = append(pods, pod)
		}
		a.kubelet.Follow(pods, partial)
	}
}
