package nri

import (
	"context"
	"errors"
	"fmt"

	"github.com/containerd/nri/pkg/api"

	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/control"
)

// ErrResizeRejected is wrapped by the error that stops a resize because the node rejects it.
var ErrResizeRejected = errors.New("paddock rejects the resize of the pod")

// Errors of a resize about which nothing can be decided now. The kubelet tries again.
var (
	errNotListed    = errors.New("the kubelet's list does not have a usable specification of it")
	errOtherRequest = errors.New("the kubelet applies another request than the one in its list, which it has not accepted")
)

// resize decides about what the kubelet is about to change: the whole request of the pod, at the
// first message that has a part of it. container is the one that the message is about, empty: the
// pod. The error stops the kubelet before it changes a cgroup, and the user sees its text. due
// reports whether the kubelet must have asked about the whole pod before.
func (s *session) resize(ctx context.Context, box *api.PodSandbox, container string, shown *api.LinuxResources) (due bool, err error) {
	g := s.grant(box.GetUid())
	if g == nil || g.Pod.Estimated && !g.OwnsAnything() {
		return false, nil // There is nothing to resize. Its request is decided like that of a new pod.
	}
	call, exact := amountsShown(shown), g.Pod.QoS == request.Guaranteed && !g.Pod.Estimated
	if exact && call == amountsOf(&g.Pod, container).shownIn(call) {
		return false, nil // The pod has that already.
	}
	again := func(why error) error {
		if !g.OwnsAnything() {
			return nil // No CPU depends on it. The loop follows the list.
		}
		return fmt.Errorf("paddock: pod %s cannot be resized now: %w; the kubelet tries again", podName(box), why)
	}
	within, cancel := context.WithTimeout(ctx, s.timeout/2)
	defer cancel()
	begin := s.config.Now()
	listed, err := s.config.Pods.List(within)
	s.config.Observer.Asked(s.config.Now().Sub(begin))
	if err != nil {
		return false, again(err)
	}
	wanted, pending, known := s.config.Pods.Latest(box.GetUid())
	if !known || len(wanted.Containers) == 0 {
		return false, again(errNotListed)
	}
	has, wants := amountsOf(&g.Pod, container), amountsOf(&wanted, container)
	if exact && !wanted.Equal(g.Pod) {
		switch about := call.about(has, wants); {
		case about == theOld:
			return false, nil // This message changes nothing, or another container.
		case about == neither, about == aPart && pending != "":
			return false, again(fmt.Errorf("%w (%s)", errOtherRequest, pendingText(pending)))
		}
		due = container != "" && call.grows(has, wants, amountsOfPod(&g.Pod), amountsOfPod(&wanted))
	} else if pending != "" {
		return false, nil
	}
	if s.config.Engine.PreviewResize(wanted).Rejection != nil {
		_ = s.releaseListed(ctx, listed) // What is missing may be that of a pod that is gone.
	}
	return due, s.decide(ctx, wanted, true)
}

func pendingText(pending string) string {
	if pending == "" {
		return "its list is newer than the request that it applies"
	}
	return "PodResizePending: " + pending
}

// decide resizes a pod, and notes what became of it. asked is true if the kubelet changes the pod's
// containers next.
func (p *Plugin) decide(ctx context.Context, wanted request.Pod, asked bool) error {
	version := p.config.Engine.Snapshot().Version
	before, err := ask[error](ctx, p, control.Ask{Pod: wanted, Resize: true})
	if err == nil && before != nil { // Without an answer it is decided again.
		return before // The kubelet tries again, and nothing has changed.
	}
	plan, err := p.config.Engine.Resize(ctx, wanted)
	switch {
	case err != nil:
		return fmt.Errorf("paddock: pod %s: %w; the kubelet tries again", wanted.ID(), err)
	case plan.Rejection != nil:
		err = fmt.Errorf("%w %s: %w%s", ErrResizeRejected, wanted.ID(), plan.Rejection, account(plan.Rejection, mostAccount))
	}
	p.surely(ctx, control.Resized{Of: control.Rejection{Pod: wanted, Version: version, Err: err}, Asked: asked})
	return err
}

// followAll resizes pods whose request the kubelet has carried out already.
func (p *Plugin) followAll(ctx context.Context, a control.Follow) control.Followed {
	owns := false
	for _, pod := range a.Pods {
		if g := p.grant(pod.UID); g != nil && g.OwnsAnything() {
			owns = true
		}
		if err := p.decide(ctx, pod, false); err != nil && a.Before[pod.UID] != err.Error() {
			p.config.Log.ErrorContext(ctx, "the kubelet lists a pod with another request: the pod keeps what it has", "pod", pod.ID(), "uid", pod.UID, "error", err)
		}
	}
	return control.Followed{Of: a, Owns: owns}
}
