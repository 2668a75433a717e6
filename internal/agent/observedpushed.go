package agent

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/cli/treatment"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/node/podsource/kubeletpods"
)

// further replaces the status of a listed pod with the kubelet's own status if that is more recent.
// The status in the list has travelled through the API server.
func (o *Observing) further(uid string, pod *v1.Pod) {
	own, known := o.pushed.Status(uid)
	if !known {
		return
	}
	as := v1.Pod{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec, Status: own}
	if reached(&as) > reached(pod) {
		pod.Status = own
	}
}

// reached returns how far a kubelet is with a pod: not begun, decided, running, ended. The value
// never decreases.
func reached(pod *v1.Pod) int {
	switch {
	case podspec.Ended(pod):
		return 3
	case treatment.Started(pod):
		return 2
	case pod.Status.StartTime != nil:
		return 1
	}
	return 0
}

// withoutPushes describes the consequence if a kubelet that should have the PodsAPI does not push
// its decisions. It returns "" if the kubelet does.
func (o *Observing) withoutPushes() string {
	s, err := o.session.Load(), o.pushed.Err()
	switch {
	case s == nil || !s.gates[kubeletpods.Gate] || err == nil:
		return ""
	case errors.Is(err, kubeletpods.ErrNone):
		return "without the kubelet's PodsAPI socket, although its feature gate PodsAPI is on: rejections are seen when the API server has them, up to a second later"
	}
	return "the kubelet's PodsAPI socket does not answer: rejections are seen when the API server has them, up to a second later"
}

// pause waits for a time, or returns at once if it is zero.
func (o *Observing) pause(ctx context.Context, wait time.Duration) {
	if wait <= 0 {
		return
	}
	select {
	case <-ctx.Done():
	case <-o.world.After(wait):
	}
}
