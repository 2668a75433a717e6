package agent

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/podsource/kubeletdevices"
)

const (
	// soon is the delay before missing data about a pod's claims is looked for. By then its
	// admission is durable.
	soon = time.Second
	// seldom is the longest delay between two attempts.
	seldom = 10 * time.Minute
)

// missing reports whether something about the claims of a pod is not known. A state file of an
// earlier Paddock version has the devices of claims, but not the claims.
func missing(g *node.Grant) bool {
	if slices.ContainsFunc(g.Pod.ResourceClaims, func(c request.Claim) bool { return !c.Complete() }) {
		return true
	}
	return len(g.Pod.ResourceClaims) == 0 && slices.ContainsFunc(g.Pod.Containers, func(c request.Container) bool {
		return slices.ContainsFunc(c.Given, func(d request.Given) bool { return d.Claim != "" })
	})
}

// known reports whether the devices of all claims of a pod are known.
func known(g *node.Grant) bool {
	return len(g.Pod.ResourceClaims) > 0 && !slices.ContainsFunc(g.Pod.ResourceClaims, func(c request.Claim) bool { return c.Devices == nil })
}

// asListed returns what is known about the claims of a pod, in the form of the kubelet's list.
func asListed(pod *request.Pod) kubeletdevices.Pod {
	listed := kubeletdevices.Pod{Namespace: pod.Namespace, Name: pod.Name}
	for _, c := range pod.ResourceClaims {
		if c.Devices == nil {
			continue
		}
		claim := kubeletdevices.Claim{Namespace: pod.Namespace, Name: c.Name}
		for _, d := range c.Devices {
			claim.Devices = append(claim.Devices, kubeletdevices.ClaimDevice{Driver: d.Driver, Pool: d.Pool, Device: d.Name, ShareID: d.ShareID, CDI: d.CDI})
		}
		listed.Containers = append(listed.Containers, kubeletdevices.Container{Claims: []kubeletdevices.Claim{claim}})
	}
	return listed
}

// completed looks for missing data about the claims of admitted pods until ctx ends. While nothing
// is missing, it does not ask the kubelet: after a start, the state has the data of the pods.
// describe is Engine.Describe.
func (d *devices) completed(ctx context.Context, describe func(context.Context, string, []request.Claim) error, report func(error)) error {
	wait := time.Duration(0)
	for {
		left, err := d.complete(ctx, describe)
		if ctx.Err() == nil {
			report(err)
		}
		wait = min(max(2*wait, soon), seldom)
		var again <-chan time.Time
		if left {
			again = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-again:
		case <-d.wake:
			wait = 0
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(soon):
			}
		}
	}
}

// complete makes one attempt. It reports whether something is still missing.
func (d *devices) complete(ctx context.Context, describe func(context.Context, string, []request.Claim) error) (left bool, err error) {
	var grants []*node.Grant
	for _, g := range d.state().Grants() {
		if missing(g) {
			grants = append(grants, g)
		}
	}
	if len(grants) == 0 {
		return false, nil
	}
	if d.places != nil && d.places.allocations != nil {
		for _, g := range grants {
			d.places.allocations.wantAll(&g.Pod)
		}
		err = d.places.allocations.round(ctx)
	}
	var listed []kubeletdevices.Pod
	if slices.ContainsFunc(grants, func(g *node.Grant) bool { return !known(g) }) {
		var problem error
		listed, problem = d.list(ctx)
		err = errors.Join(err, problem)
	}
	for _, g := range grants {
		pod := asListed(&g.Pod)
		if i := slices.IndexFunc(listed, func(p kubeletdevices.Pod) bool { return p.Namespace == g.Pod.Namespace && p.Name == g.Pod.Name }); i >= 0 && !known(g) {
			pod = listed[i]
		}
		claims := claimsOf(g.Pod.ResourceClaims, pod, d.places.locate(ctx, pod))
		left = left || len(claims) == 0 || slices.ContainsFunc(claims, func(c request.Claim) bool { return !c.Complete() })
		err = errors.Join(err, describe(ctx, g.Pod.UID, claims))
	}
	return left, err
}

// completeClaims looks for missing data about the claims of admitted pods until ctx ends.
func (a *Agent) completeClaims(ctx context.Context) error {
	reported := false
	return a.devices.completed(a.flows.WithOperation(ctx), a.engine.Describe, func(err error) {
		if err != nil && !reported {
			a.log.WarnContext(ctx, "the kubelet's list of the ResourceClaims of pods cannot be read: the PodResources API reports these claims incompletely",
				"socket", a.config.Kubelet.PodResources, "error", err)
		}
		reported = err != nil
	})
}
