package nri

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/core/moves"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
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
		p.settleInRoom(ctx, uid)
		return plan.Grant, nil
	}
	a, err := find(ctx, sandbox)
	if err != nil {
		return nil, fmt.Errorf("paddock: pod %s (uid %s) is not known yet: %w; the kubelet tries again", podName(sandbox), uid, err)
	}
	if err := p.rejectedBefore(ctx, uid, a.pod); err != nil {
		return nil, err
	}
	plan, err := p.makeReady(ctx, sandbox, a.pod)
	if err != nil {
		return nil, err
	}
	if moves.Wanted(plan) {
		if err := p.makeRoom(ctx, a.pod); err != nil {
			return nil, fmt.Errorf("paddock: pod %s: %w", podName(sandbox), err)
		}
	}
	version := p.config.Engine.Snapshot().Version
	plan, err = p.config.Engine.Admit(ctx, a.pod)
	if err != nil {
		return nil, fmt.Errorf("paddock: pod %s: %w; the kubelet tries again", podName(sandbox), err)
	}
	if plan.Rejection != nil {
		err := rejection(a.pod, plan.Rejection)
		p.tell(ctx, "reject", func(l *loop) { l.rejections[uid] = rejected{a.pod, version, l.config.Now(), err} })
		return nil, err
	}
	p.settleInRoom(ctx, uid)
	if a.unlisted != nil {
		p.tell(ctx, "estimate", func(l *loop) { delete(l.reported, uid) })
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
// get what was promised to others since the last list. The plan is that of before. The error is why
// it is not known whether a rejection would be right: a pod that is gone may have what is missing.
func (p *Plugin) makeReady(ctx context.Context, sandbox *api.PodSandbox, pod request.Pod) (*node.Plan, error) {
	h := p.config.Handover
	if h != nil {
		h.Offer(pod.UID, handover.TextOf(sandbox.GetAnnotations()))
	}
	plan, _ := p.config.Engine.Preview(pod)
	contested, ownPlan := false, false
	if h != nil {
		var why handover.Reason
		why, contested = h.Outcome(pod.UID)
		ownPlan = why != handover.Applied
	}
	switch {
	case plan.Rejection != nil || contested:
		if err := p.releaseGone(ctx); err != nil && plan.Rejection != nil {
			return nil, fmt.Errorf("paddock: pod %s does not fit, and it is unknown whether the pods that have the rest are gone: %w; the kubelet tries again", podName(sandbox), err)
		}
	case ownPlan && plan.Grant.OwnsAnything() && h.Used():
		_, _ = p.config.Pods.List(ctx) // The next regular list reports an error.
	}
	return plan, nil
}

// grant is the durable grant of a pod, or nil. A pod whose release is decided and not yet written
// has none: its CPUs may be planned for another pod.
func (p *Plugin) grant(uid string) *node.Grant {
	snapshot := p.config.Engine.Snapshot()
	if g, known := snapshot.State.Grant(uid); known && !slices.Contains(snapshot.Unreleased, uid) {
		return g
	}
	return nil
}

// rejectedBefore is the rejection of the same pod, if nothing has changed since; otherwise nil.
func (p *Plugin) rejectedBefore(ctx context.Context, uid string, pod request.Pod) error {
	snapshot := p.config.Engine.Snapshot()
	before, _ := ask(ctx, p, "rejected", func(l *loop) rejected { return l.rejections[uid] }) // Without an answer it is decided again.
	if before.err == nil || before.version != snapshot.Version || !before.pod.Equal(pod) || !before.pod.SameGiven(pod) {
		return nil
	}
	if policy := snapshot.State.Policy(); policy.Moves.Pods > 0 && p.config.Now().Sub(before.at) >= rechecked {
		return nil
	}
	return before.err
}

// releaseGone releases the pods that are gone, before a pod is rejected. It asks the source of pods
// only if there are unused grants. The error is why there is no answer.
func (p *Plugin) releaseGone(ctx context.Context) error {
	idle, err := ask(ctx, p, "idle", func(l *loop) bool { return len(l.idle()) > 0 })
	if err != nil || !idle {
		return err
	}
	listed, err := p.config.Pods.List(ctx)
	if err != nil {
		return err
	}
	_, err = ask(ctx, p, "release", func(l *loop) bool { return l.release(listed, nil) })
	return err
}

// adopt plans the pods that run without a grant, in that order, and returns their names. limit is
// the time that the caller has. A rejected pod stays on the node shared pool. So does a pod that is
// not listed: it already runs there, and an estimate could not be corrected later.
func (p *Plugin) adopt(ctx context.Context, boxes []*sandbox, limit time.Duration) (missed []string) {
	var pods []request.Pod
	var who []string
	for _, box := range boxes {
		namespace, name, _ := strings.Cut(box.who, "/")
		a, err := p.lookup(ctx, &api.PodSandbox{Uid: box.pod, Namespace: namespace, Name: name}, limit)
		if err != nil {
			missed = append(missed, box.who)
			p.reportUnplanned(ctx, box.who, box.pod, err)
			continue
		}
		if p.rejectedBefore(ctx, box.pod, a.pod) != nil {
			continue // Its request or the node has to change first.
		}
		missed = append(missed, box.who)
		if p.config.Handover != nil {
			p.config.Handover.Offer(box.pod, box.grant)
		}
		pods, who = append(pods, a.pod), append(who, box.who)
	}
	if len(pods) == 0 {
		return missed
	}
	_, _ = ask(ctx, p, "adopt", func(l *loop) bool {
		for _, pod := range pods {
			l.adopting = append(l.adopting, pod.UID)
		}
		l.publish()
		return true
	})
	version := p.config.Engine.Snapshot().Version
	for i, d := range p.config.Engine.AdmitAll(ctx, pods) {
		uid := pods[i].UID
		switch {
		case d.Err != nil:
			p.reportUnplanned(ctx, who[i], uid, d.Err)
		case d.Plan.Rejection != nil:
			err := rejection(pods[i], d.Plan.Rejection)
			p.tell(ctx, "reject", func(l *loop) { l.rejections[uid] = rejected{pods[i], version, l.config.Now(), err} })
			p.config.Log.ErrorContext(ctx, "a running pod cannot be assigned what it requests: it stays on the node shared pool", "pod", who[i], "uid", uid, "error", err)
		}
	}
	return missed
}

// reportUnplanned logs that a pod that runs could not be planned, once for each reason.
func (p *Plugin) reportUnplanned(ctx context.Context, who, uid string, err error) {
	changed, _ := ask(context.WithoutCancel(ctx), p, "unplanned", func(l *loop) bool {
		before := l.unplanned[uid]
		l.unplanned[uid] = err.Error()
		return before != err.Error()
	})
	if changed {
		p.config.Log.WarnContext(ctx, "a running pod cannot be planned yet; the agent tries again", "pod", who, "uid", uid, "error", err)
	}
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
