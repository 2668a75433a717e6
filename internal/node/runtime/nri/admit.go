package nri

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/core/moves"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/control"
	"github.com/paddock-project/paddock/internal/node/engine"
)

// admit makes sure that a pod has a durable grant. find returns its request. admit waits until ctx
// ends. The error is for the user; it wraps ErrRejected for a rejection.
func (p *Plugin) admit(ctx context.Context, sandbox *api.PodSandbox, find func(context.Context, *api.PodSandbox) (asked, error)) (*node.Grant, error) {
	uid := sandbox.GetUid()
	if g := p.grant(uid); g != nil {
		// If the last write failed, this one makes the grant durable.
		plan, err := p.config.Engine.Admit(ctx, g.Pod)
		switch {
		case err != nil:
			return nil, fmt.Errorf("paddock: pod %s: %w; the kubelet tries again", podName(sandbox), err)
		case plan.Rejection != nil: // It was released in this moment.
			return nil, rejection(g.Pod, plan.Rejection)
		}
		p.settleInRoom(uid)
		return plan.Grant, nil
	}
	a, err := find(ctx, sandbox)
	if err != nil {
		return nil, fmt.Errorf("paddock: pod %s (uid %s) is not known yet: %w; the kubelet tries again", podName(sandbox), uid, err)
	}
	if err := p.rejectedBefore(ctx, a.pod); err != nil {
		return nil, err
	}
	asks := engine.Candidate{Pod: a.pod, Handed: handover.TextOf(sandbox.GetAnnotations())}
	preview, err := p.makeReady(ctx, sandbox, asks)
	if err != nil {
		return nil, err
	}
	if moves.Wanted(preview.Plan) {
		if err := p.makeRoom(ctx, asks); err != nil {
			return nil, fmt.Errorf("paddock: pod %s: %w", podName(sandbox), err)
		}
	}
	version := p.config.Engine.Snapshot().Version
	d := p.config.Engine.AdmitPreviewed(ctx, preview)
	if d.Err != nil {
		return nil, fmt.Errorf("paddock: pod %s: %w; the kubelet tries again", podName(sandbox), d.Err)
	}
	plan := d.Plan
	if plan.Rejection != nil {
		err := rejection(a.pod, plan.Rejection)
		p.tell(ctx, control.Rejected{Of: control.Rejection{Pod: a.pod, Version: version, Err: err}})
		return nil, err
	}
	p.settleInRoom(uid)
	if a.unlisted != nil {
		p.tell(ctx, control.Estimated{UID: uid})
		log := p.config.Log.With("pod", a.pod.ID(), "uid", a.pod.UID, "why", a.unlisted, "qos", a.pod.QoS.String())
		if a.doubt != nil {
			log.WarnContext(ctx, "the pod's request cannot be estimated reliably from cgroup numbers: it gets no assignment and runs on the node shared pool", "doubt", a.doubt)
		} else {
			log.WarnContext(ctx, "the pod's request is estimated from cgroup numbers", "cpu_milli", a.pod.BudgetCPUMilli, "memory", a.pod.BudgetMemory.String(), "pool", plan.Grant.Pool.String())
		}
	}
	return plan.Grant, nil
}

// makeReady does what has to be done before a pod is decided about. A pod that is gone may still
// have what is missing, or what the pod's grant has. And a pod that is planned by the node must not
// get what was promised to others since the last list. The preview is that of before; it is
// outdated if something was done. The error is why it is not known whether a rejection would be
// right: a pod that is gone may have what is missing.
func (p *Plugin) makeReady(ctx context.Context, sandbox *api.PodSandbox, asks engine.Candidate) (engine.Preview, error) {
	preview := p.config.Engine.Preview(asks)
	plan, contested := preview.Plan, preview.Handed != nil && preview.Handed.Contested()
	h, ownPlan := p.config.Handover, preview.Handed == nil || !preview.Handed.Applied()
	switch {
	case plan.Rejection != nil || contested:
		if err := p.releaseGone(ctx); err != nil && plan.Rejection != nil {
			return preview, fmt.Errorf("paddock: pod %s does not fit, and it is unknown whether the pods that have the rest are gone: %w; the kubelet tries again", podName(sandbox), err)
		}
	case h != nil && ownPlan && plan.Grant.OwnsAnything() && h.Used():
		_, _ = p.config.Pods.List(ctx) // The next regular list reports an error.
	default:
		return preview, nil
	}
	return preview.Outdated(), nil
}

// rejectedBefore is the rejection of the same pod, if nothing has changed since; otherwise nil.
func (p *Plugin) rejectedBefore(ctx context.Context, pod request.Pod) error {
	before, _ := ask[error](ctx, p, control.Ask{Pod: pod}) // Without an answer it is decided again.
	return before
}

// releaseGone releases the pods that are gone, before a pod is rejected. It asks the source of pods
// only if there are unused grants. The error is why there is no answer.
func (p *Plugin) releaseGone(ctx context.Context) error {
	traces, err := ask[map[string]control.Trace](ctx, p, control.Unused{})
	if err != nil || len(traces) == 0 {
		return err
	}
	listed, err := p.config.Pods.List(ctx)
	if err != nil {
		return err
	}
	return p.releaseOf(ctx, listed, traces)
}

// releaseListed is releaseGone with an answer of the source of pods.
func (p *Plugin) releaseListed(ctx context.Context, listed map[string]request.Pod) error {
	traces, err := ask[map[string]control.Trace](ctx, p, control.Unused{})
	if err != nil || len(traces) == 0 {
		return err
	}
	return p.releaseOf(ctx, listed, traces)
}

func (p *Plugin) releaseOf(ctx context.Context, listed map[string]request.Pod, traces map[string]control.Trace) error {
	_, err := ask[any](ctx, p, control.Release{Of: p.listing(listed, traces)})
	return err
}

// adopt plans the pods that run without a grant, in that order, and returns their names. limit is
// the time that the caller has. A rejected pod stays on the node shared pool. So does a pod that is
// not listed: it already runs there, and an estimate could not be corrected later.
func (p *Plugin) adopt(ctx context.Context, boxes []*control.Sandbox, limit time.Duration) (missed []string) {
	var pods []engine.Candidate
	var who []string
	for _, box := range boxes {
		namespace, name, _ := strings.Cut(box.Who, "/")
		a, err := p.lookup(ctx, &api.PodSandbox{Uid: box.Pod, Namespace: namespace, Name: name}, limit)
		if err != nil {
			missed = append(missed, box.Who)
			p.reportUnplanned(ctx, box.Who, box.Pod, err)
			continue
		}
		if p.rejectedBefore(ctx, a.pod) != nil {
			continue // Its request or the node has to change first.
		}
		missed = append(missed, box.Who)
		pods, who = append(pods, engine.Candidate{Pod: a.pod, Handed: box.Grant}), append(who, box.Who)
	}
	if len(pods) == 0 {
		return missed
	}
	uids := make([]string, len(pods))
	for i := range pods {
		uids[i] = pods[i].Pod.UID
	}
	_, _ = ask[any](ctx, p, control.Adopting{UIDs: uids})
	version := p.config.Engine.Snapshot().Version
	for i, d := range p.config.Engine.AdmitAll(ctx, pods) {
		uid := pods[i].Pod.UID
		switch {
		case d.Err != nil:
			p.reportUnplanned(ctx, who[i], uid, d.Err)
		case d.Plan.Rejection != nil:
			err := rejection(pods[i].Pod, d.Plan.Rejection)
			p.tell(ctx, control.Rejected{Of: control.Rejection{Pod: pods[i].Pod, Version: version, Err: err}})
			p.config.Log.ErrorContext(ctx, "a running pod cannot be assigned what it requests: it stays on the node shared pool", "pod", who[i], "uid", uid, "error", err)
		}
	}
	return missed
}

// reportUnplanned notes that a pod that runs could not be planned.
func (p *Plugin) reportUnplanned(ctx context.Context, who, uid string, err error) {
	_, _ = ask[any](context.WithoutCancel(ctx), p, control.Unplanned{Who: who, UID: uid, Err: err})
}

// setQuotaWithin is setQuota, in a hook: it waits until ctx ends at most. While a write of an
// earlier hook waits for the kernel, none is added to it; rounds write all quotas again.
func (p *Plugin) setQuotaWithin(ctx context.Context, g *node.Grant, want node.Quota, parents []string) {
	select {
	case p.writes <- struct{}{}:
	default:
		return
	}
	done := make(chan struct{})
	go func() {
		defer func() { <-p.writes; close(done) }()
		p.setQuota(ctx, g, want, parents)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// setQuota writes the CFS quota of the pod's cgroups, because NRI cannot.
func (p *Plugin) setQuota(ctx context.Context, g *node.Grant, want node.Quota, parents []string) {
	if want == node.KeepQuota {
		return
	}
	for _, parent := range parents {
		if parent == "" {
			continue
		}
		changed, err := p.config.Cgroups.SetQuota(parent, want)
		switch {
		case errors.Is(err, fs.ErrNotExist): // The pod has ended, and its end is not reported yet.
		case err != nil:
			p.config.Log.ErrorContext(ctx, "the pod's CFS quota cannot be set: its exclusive containers may be throttled",
				"pod", g.Pod.ID(), "uid", g.Pod.UID, "cgroup", parent, "want", want.String(), "error", err)
		case changed:
			p.config.Log.InfoContext(ctx, "the pod's CFS quota is set", "pod", g.Pod.ID(), "uid", g.Pod.UID, "cgroup", parent, "quota", want.String())
		}
	}
}
