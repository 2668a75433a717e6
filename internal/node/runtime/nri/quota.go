package nri

import (
	"context"
	"errors"
	"io/fs"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/quota"
)

// setQuotaWithin is setQuota for a hook: it waits at most until ctx ends. While a write of an
// earlier hook still waits for the kernel, it does nothing, because rounds write all quotas again.
func (p *Plugin) setQuotaWithin(ctx context.Context, g *node.Grant, want quota.Quota, parents []string) {
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
func (p *Plugin) setQuota(ctx context.Context, g *node.Grant, want quota.Quota, parents []string) {
	if want == quota.Keep {
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
