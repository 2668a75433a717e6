package plugin

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/codec/claims"
	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/scheduler/cluster"
)

// handedKey is the key of the annotation in the CycleState.
const handedKey fwk.StateKey = Name + "/annotation"

// annotation is what Bind sends. It is immutable.
type annotation struct{ key, text string }

// Clone returns the same annotation.
func (a annotation) Clone() fwk.StateData { return a }

// Reserve plans the pod on the current state of the node, with the devices of its claims, and keeps
// the grant. It runs after the plugin DynamicResources, which allocates the claims.
//
// In an attempt to schedule a pod group, the grant is kept in the attempt alone, and only Filter and
// Reserve of the other members see it.
func (p *Plugin) Reserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	c := of(state)
	if c == nil {
		return nil
	}
	g := c.gangIn(state)
	at, reserve, err := p.on(g, nodeName)
	switch {
	case err != nil:
		return fwk.AsStatus(err)
	case at == nil && p.awaitedName(nodeName):
		return fwk.NewStatus(fwk.Unschedulable, notPublished)
	case at == nil:
		p.stopWaiting(c, g)
		return nil
	case at.Problem != "":
		return fwk.NewStatus(fwk.Unschedulable, "node(s): "+at.Problem)
	case at.Unsure != "":
		p.stopWaiting(c, g)
		return nil
	}
	i := c.asked.reading(at.Gates)
	if i < 0 {
		return fwk.NewStatus(fwk.Unschedulable, "node(s): the policy has just changed")
	}
	asked := c.asked.pods[i]
	if len(pod.Spec.ResourceClaims) > 0 {
		if asked, err = p.withDevices(ctx, asked, pod, nodeName); err != nil {
			return fwk.AsStatus(err)
		}
	}
	done, err := reserve(asked)
	var undecided *cluster.Undecided
	switch {
	case errors.As(err, &undecided): // What the kubelet decides wakes the pod.
		p.wait(c, g)
		return fwk.NewStatus(fwk.Unschedulable, "node(s): "+waitsForKubelet)
	case err != nil:
		return fwk.AsStatus(err)
	case done == nil:
		return nil
	case done.Plan.Rejection != nil:
		return p.afterMoves(c, g, at, nodeName, &asked, done.Plan)
	}
	p.stopWaiting(c, g)
	if g != nil {
		g.place(nodeName, asked, c.asked.questions[i])
	} else {
		p.reserved(ctx, state, c, nodeName, done)
	}
	// The next pod often has the same template. Planning for it now takes less than half the time,
	// because everything that the plan reads is in the CPU caches, and Filter finds the answer and
	// PreScore the cost. A search for moves would take too long.
	if done.After.State.Policy().Moves.Pods == 0 {
		done.After.Learn(c.asked.questions[i])
	}
	return nil
}

// on returns what is known of a node on which a pod is reserved, and what reserves it.
func (p *Plugin) on(g *gang, name string) (*cluster.At, func(fleet.Pod) (*cluster.Reservation, error), error) {
	if g == nil {
		return p.cluster.After(name), func(pod fleet.Pod) (*cluster.Reservation, error) { return p.cluster.Reserve(name, pod) }, nil
	}
	info, err := p.handle.SnapshotSharedLister().NodeInfos().Get(name)
	if err != nil {
		return nil, nil, err
	}
	s := g.sight(info)
	return g.trial.At(s), func(pod fleet.Pod) (*cluster.Reservation, error) { return g.trial.Reserve(s, pod) }, nil
}

// reserved is called when a pod has a grant with which it will be bound.
func (p *Plugin) reserved(ctx context.Context, state fwk.CycleState, c *cycle, nodeName string, done *cluster.Reservation) {
	p.failures.forget(c.pod.UID)
	if other, freed := p.promises.placed(c.pod.UID, nodeName); freed {
		p.wake(other)
	}
	// A grant cannot contain devices that the kubelet chooses later, so the node plans the pod.
	if done.Plan.Grant.OwnsAnything() && !(c.asked.unknown && len(c.pod.Spec.ResourceClaims) == 0 && !assignsAll(done.Plan.Grant)) {
		p.hand(ctx, state, c.pod, done)
	}
}

// afterMoves reserves a pod that does not fit, if its node can make room by moving running pods. The
// pod is then bound without a grant. Its node moves the pods, and plans it.
func (p *Plugin) afterMoves(c *cycle, g *gang, at *cluster.At, nodeName string, asked *fleet.Pod, plan *node.Plan) *fwk.Status {
	if at.View.AskAfterMoves(asked).AfterMoves && !p.busy(c, g, nodeName) {
		if g != nil {
			g.movers[nodeName] = c.pod.UID
		} else {
			p.movers.take(nodeName, c.pod.UID)
		}
		p.stopWaiting(c, g)
		return nil
	}
	r := plan.Rejection
	answer := &fleet.Answer{Why: fleet.Why{Cause: plan.Trace.Cause, Reason: r.Reason, Resource: r.Resource}, Wanted: r.Wanted}
	p.wait(c, g)
	why := c.reasons.of(answer, &asked.Pod, at.View.State.Policy())
	if len(c.pod.Spec.ResourceClaims) > 0 && (g == nil || !g.preempting) {
		p.tryOthers(c.pod, nodeName, why)
	}
	return fwk.NewStatus(fwk.Unschedulable, why)
}

// tryOthers makes the next cycle of a pod skip a node that Filter took wrongly, and begins that cycle
// without an event. If maxFailures nodes do not take the pod, it waits for an event as other pods do.
func (p *Plugin) tryOthers(pod *v1.Pod, nodeName, why string) {
	at := p.cluster.After(nodeName)
	if at == nil {
		return
	}
	if p.failures.add(pod.UID, nodeName, at, why) {
		p.activate(pod)
	}
}

// waitsForKubelet is the reason for a node on which not every order of the kubelet's decisions about
// the pods that are bound has room for another pod.
const waitsForKubelet = "its kubelet has not decided about the pods that are bound to it yet, which may need this room"

// hand encodes the grant as the annotation of a pod. Without an annotation, the node plans the pod.
// A kubelet that decides reads none: there the annotation is a prediction, under another key, so that
// an agent that decides later does not apply it.
func (p *Plugin) hand(ctx context.Context, state fwk.CycleState, pod *v1.Pod, r *cluster.Reservation) {
	text, err := handover.Encode(r.Here.Node, r.Here.Machine, r.Here.Policy, r.Plan.Grant)
	if err != nil {
		klog.FromContext(ctx).Info("A pod is bound without its grant, and its node plans it", "pod", klog.KObj(pod), "node", r.Here.Node, "reason", err.Error())
		return
	}
	if r.Predicted {
		state.Write(handedKey, annotation{podspec.PredictionAnnotation, text})
		return
	}
	p.cluster.Hand(r.Here.Node, string(pod.UID), text)
	state.Write(handedKey, annotation{handover.Annotation, text})
}

// assignsAll reports whether the node itself assigns all extended resources of the pod.
func assignsAll(g *node.Grant) bool {
	for i := range g.Pod.Containers {
		if len(g.Containers[i].Devices) < len(g.Pod.Containers[i].Devices) {
			return false
		}
	}
	return true
}

// withDevices returns the pod with the devices of its claims. Each claim is already allocated, or
// its allocation is pending for this pod.
func (p *Plugin) withDevices(ctx context.Context, asked fleet.Pod, pod *v1.Pod, nodeName string) (fleet.Pod, error) {
	manager := p.handle.SharedDRAManager()
	if manager == nil {
		return asked, fmt.Errorf("the pod has resource claims, and the scheduler has no dynamic resource allocation: turn on feature gate DynamicResourceAllocation")
	}
	allocated, err := claimsOf(manager, pod)
	if err != nil {
		return asked, err
	}
	list, err := p.slicesOf(nodeName, allocated)
	if err != nil {
		return asked, err
	}
	asked.Pod = resolved(ctx, pod, nodeName, allocated, list).In(asked.Pod)
	return asked, nil
}

// resolved returns the devices of a pod on a node.
func resolved(ctx context.Context, pod *v1.Pod, nodeName string, allocated []*resourceapi.ResourceClaim, list []*resourceapi.ResourceSlice) claims.Resolved {
	found := &claims.Objects{}
	for _, c := range allocated {
		found.AddClaim(c)
	}
	for _, s := range list {
		found.AddSlice(s)
	}
	return found.On(nodeName).Pod(ctx, pod)
}

// Unreserve releases the grant. In an attempt to schedule a pod group, it takes the place of the
// pod back.
func (p *Plugin) Unreserve(_ context.Context, state fwk.CycleState, pod *v1.Pod, nodeName string) {
	c := of(state)
	if c == nil {
		return
	}
	if g := c.gangIn(state); g != nil {
		g.take(nodeName, pod.UID)
		return
	}
	p.cluster.Unreserve(nodeName, string(pod.UID))
}

// Bind sends the grant together with the binding, so the API server writes both at once. A pod
// without a grant is left to the next bind plugin.
func (p *Plugin) Bind(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	data, err := state.Read(handedKey)
	a, handed := data.(annotation)
	if err != nil || !handed {
		return fwk.NewStatus(fwk.Skip)
	}
	binding := &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Annotations: map[string]string{a.key: a.text},
		},
		Target: v1.ObjectReference{Kind: "Node", Name: nodeName},
	}
	if calls := p.handle.APICacher(); calls != nil { // Feature gate SchedulerAsyncAPICalls.
		done, err := calls.BindPod(binding)
		if err == nil {
			err = calls.WaitOnFinish(ctx, done)
		}
		return fwk.AsStatus(err)
	}
	return fwk.AsStatus(p.handle.ClientSet().CoreV1().Pods(pod.Namespace).Bind(ctx, binding, metav1.CreateOptions{}))
}
