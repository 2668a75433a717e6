package nri

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/containerd/nri/pkg/api"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// admit makes sure that a pod has a grant that is durable. find finds out what it asks for. It waits until ctx
// ends. The error is for the user; it wraps ErrRefused for a rejection.
func (p *Plugin) admit(ctx context.Context, sandbox *api.PodSandbox, find func(context.Context, *api.PodSandbox) (asked, error)) (*node.Grant, error) {
	uid := sandbox.GetUid()
	if g := p.grant(uid); g != nil {
		// Asking again makes it durable if that was in doubt.
		plan, err := p.config.Engine.Admit(ctx, g.Pod)
		switch {
		case err != nil:
			return nil, fmt.Errorf("paddock: pod %s: %w; it will be tried again", podName(sandbox), err)
		case plan.Refusal != nil: // It was released in this moment.
			return nil, refusal(g.Pod, plan.Refusal)
		}
		return plan.Grant, nil
	}
	a, err := find(ctx, sandbox)
	if err != nil {
		return nil, fmt.Errorf("paddock: pod %s (uid %s) is not known yet: %w; it will be tried again", podName(sandbox), uid, err)
	}
	if err := p.rejectedBefore(ctx, uid, a.pod); err != nil {
		return nil, err
	}
	if p.config.Engine.Preview(a.pod).Refusal != nil {
		p.releaseGone(ctx) // What is in the way may belong to a pod that is gone.
	}
	version := p.config.Engine.Snapshot().Version
	plan, err := p.config.Engine.Admit(ctx, a.pod)
	if err != nil {
		return nil, fmt.Errorf("paddock: pod %s: %w; it will be tried again", podName(sandbox), err)
	}
	if plan.Refusal != nil {
		err := refusal(a.pod, plan.Refusal)
		p.tell(ctx, func(l *loop) { l.rejections[uid] = rejected{a.pod, version, l.config.Now(), err} })
		return nil, err
	}
	if a.unlisted != nil {
		p.tell(ctx, func(l *loop) { delete(l.reported, uid) })
		p.reportEstimate(ctx, a, plan.Grant)
	}
	return plan.Grant, nil
}

// grant is the durable grant of a pod, or nil. A pod whose release is decided and not yet written has none: its CPUs may
// be planned for another pod.
func (p *Plugin) grant(uid string) *node.Grant {
	snapshot := p.config.Engine.Snapshot()
	if g, known := snapshot.State.Grant(uid); known && !slices.Contains(snapshot.Unreleased, uid) {
		return g
	}
	return nil
}

// rejectedBefore is the answer that the same pod was given while nothing has changed since.
func (p *Plugin) rejectedBefore(ctx context.Context, uid string, pod request.Pod) error {
	version := p.config.Engine.Snapshot().Version
	before, _ := ask(ctx, p, func(l *loop) rejected { return l.rejections[uid] }) // Without an answer it is decided again.
	if before.err == nil || before.version != version || !before.pod.Equal(pod) {
		return nil
	}
	return before.err
}

// releaseGone releases the pods that are gone, before it is decided what there is no room for. It asks the
// source of pods only if there are grants that nothing uses.
func (p *Plugin) releaseGone(ctx context.Context) {
	idle, err := ask(ctx, p, func(l *loop) bool { return len(l.idle()) > 0 })
	if err != nil || !idle {
		return
	}
	listed, err := p.config.Pods.List(ctx)
	if err != nil {
		return // The next round reports it.
	}
	_, _ = ask(ctx, p, func(l *loop) bool { return l.release(listed, nil) })
}

// adopt plans the pods that run without a grant, in that order, and returns which they were. A pod that is
// rejected stays on the node shared pool, and so does one that is not listed: that it runs there
// already does no harm, and what an estimate gave it could not be repaired.
func (p *Plugin) adopt(ctx context.Context, boxes []*sandbox) (missed []string) {
	var pods []request.Pod
	var who []string
	for _, box := range boxes {
		a, err := p.lookup(ctx, &api.PodSandbox{Uid: box.pod})
		if err != nil {
			missed = append(missed, box.who)
			p.config.Log.WarnContext(ctx, "a pod that runs is not planned yet; it will be tried again", "pod", box.who, "uid", box.pod, "error", err)
			continue
		}
		if p.rejectedBefore(ctx, box.pod, a.pod) != nil {
			continue // Its request or the node has to change first.
		}
		missed = append(missed, box.who)
		pods, who = append(pods, a.pod), append(who, box.who)
	}
	if len(pods) == 0 {
		return missed
	}
	_, _ = ask(ctx, p, func(l *loop) bool {
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
			p.config.Log.WarnContext(ctx, "a pod that runs is not planned yet; it will be tried again", "pod", who[i], "uid", uid, "error", d.Err)
		case d.Plan.Refusal != nil:
			err := refusal(pods[i], d.Plan.Refusal)
			p.tell(ctx, func(l *loop) { l.rejections[uid] = rejected{pods[i], version, l.config.Now(), err} })
			p.config.Log.ErrorContext(ctx, "a pod that runs cannot have what it asks for: it stays on the node shared pool", "pod", who[i], "uid", uid, "error", err)
		}
	}
	return missed
}

// setQuota gives the pod's cgroups the CFS quota that they should have. NRI cannot, so this is done here.
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
			p.config.Log.ErrorContext(ctx, "the pod's CFS quota is not set: its exclusive containers may be throttled",
				"pod", g.Pod.ID(), "uid", g.Pod.UID, "cgroup", parent, "want", want.String(), "error", err)
		case changed:
			p.config.Log.InfoContext(ctx, "the pod's CFS quota is set", "pod", g.Pod.ID(), "uid", g.Pod.UID, "cgroup", parent, "quota", want.String())
		}
	}
}
