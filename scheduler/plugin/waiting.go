package plugin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/paddock-project/paddock/internal/cluster/fleet/memo"
	"github.com/paddock-project/paddock/scheduler/cluster"
)

// waiting has the pods that some node did not take and that are not reserved on any node, with what
// they request.
type waiting struct {
	mu   sync.Mutex
	pods map[types.UID]waitingPod
}

type waitingPod struct {
	pod   *v1.Pod
	asked *asked
	// begun is when the pod's last scheduling cycle began.
	begun time.Time
	// beside has the members of the pod's group that had a place in that cycle, when this pod found
	// none.
	beside *placement
	// postponed is when the pod first did not preempt others because of a publication that was
	// missing. again is when it is tried if that does not come. See postpone.
	postponed, again time.Time
}

func (w *waiting) add(pod waitingPod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pods == nil {
		w.pods = map[types.UID]waitingPod{}
	}
	if before, ok := w.pods[pod.pod.UID]; ok {
		pod.postponed, pod.again = before.postponed, before.again
	}
	w.pods[pod.pod.UID] = pod
}

// begin records the start of a scheduling cycle.
func (w *waiting) begin(uid types.UID, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p, ok := w.pods[uid]; ok {
		p.begun = now
		w.pods[uid] = p
	}
}

func (w *waiting) remove(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pods, uid)
}

func (w *waiting) get(uid types.UID) (waitingPod, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p, ok := w.pods[uid]
	return p, ok
}

// that returns the pods for which the condition is true, by namespace and name. It does not hold
// the lock while it calls the condition.
func (w *waiting) that(condition func(waitingPod) bool) map[string]*v1.Pod {
	w.mu.Lock()
	all := slices.Collect(maps.Values(w.pods))
	w.mu.Unlock()
	found := map[string]*v1.Pod{}
	for _, p := range all {
		if condition(p) {
			found[p.pod.Namespace+"/"+p.pod.Name] = p.pod
		}
	}
	return found
}

// EventsToRegister returns the events that can make room for a pod. Changes of a PaddockNode are
// not among them: see Update.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	nodes := fwk.Add
	if !labels.MatchesNothing(p.settings.managedNodes) {
		nodes |= fwk.UpdateNodeLabel // The node may have left ManagedNodes.
	}
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete | fwk.UpdatePodScaleDown}, QueueingHintFn: p.afterPod},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: nodes}, QueueingHintFn: p.afterNode},
		// Reserve rejects a pod if its node has no room near the devices of its claims. When a
		// claim is deleted or loses its allocation, other devices may be free.
		{Event: fwk.ClusterEvent{Resource: fwk.ResourceClaim, ActionType: fwk.Delete | fwk.Update}, QueueingHintFn: func(_ klog.Logger, pod *v1.Pod, _, _ any) (fwk.QueueingHint, error) {
			if len(pod.Spec.ResourceClaims) > 0 {
				p.failures.forget(pod.UID)
				return fwk.Queue, nil
			}
			return fwk.QueueSkip, nil
		}},
	}, nil
}

// afterPod checks whether the node of a pod that ended takes the waiting pod now.
func (p *Plugin) afterPod(log klog.Logger, pod *v1.Pod, oldObject, newObject any) (fwk.QueueingHint, error) {
	if changed, ok := newObject.(*v1.Pod); ok && changed.UID == pod.UID { // The pod itself requests less.
		return fwk.Queue, nil
	}
	ended, ok := oldObject.(*v1.Pod)
	if !ok {
		return fwk.Queue, fmt.Errorf("the object of an event about a pod is a %T", oldObject)
	}
	if ended.Spec.NodeName == "" {
		return fwk.QueueSkip, nil
	}
	fits := p.fitsNow(pod, ended.Spec.NodeName)
	log.V(5).Info("A pod ended", "pod", klog.KObj(pod), "ended", klog.KObj(ended), "node", ended.Spec.NodeName, "fits", fits)
	if fits {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// afterNode handles new nodes. The plugin leaves a pod to nodes that are not managed. A managed
// node is known to the plugin when it has an object.
func (p *Plugin) afterNode(_ klog.Logger, pod *v1.Pod, _, newObject any) (fwk.QueueingHint, error) {
	node, ok := newObject.(*v1.Node)
	if !ok {
		return fwk.Queue, fmt.Errorf("the object of an event about a node is a %T", newObject)
	}
	if p.fitsNow(pod, node.Name) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// fitsNow reports whether to wake a pod because a node takes it after all events so far. It also
// returns true if this plugin does not decide that.
func (p *Plugin) fitsNow(pod *v1.Pod, node string) bool {
	at := p.cluster.After(node)
	if at == nil {
		return !p.awaitedName(node)
	}
	w, known := p.waiting.get(pod.UID)
	if !known { // It was rejected before this process began.
		a, _, err := p.ask(pod)
		if err != nil {
			return true // The pod fails with a message.
		}
		w.asked = a
	}
	w.pod = pod // It may have been nominated since.
	if p.promises.awake(w) {
		return w.fits(at)
	}
	return p.wakes(w, node, at)
}

func (w waitingPod) fits(at *cluster.At) bool {
	if at.Problem != "" || at.Unsure != "" {
		return at.Problem == ""
	}
	i := w.asked.reading(at.Gates)
	if i < 0 || i >= len(w.asked.questions) {
		return true // The pod has to be read again.
	}
	for _, view := range append([]*memo.Node{at.View}, at.Others...) {
		if answer, _ := view.Answer(w.asked.questions[i]); !answer.Fits {
			return false
		}
	}
	return true
}

// Update stores what the objects of a node report, and wakes the pods that fit there now. No
// registered event wakes them: the scheduler's informer of the objects would be a different one,
// and it could report a change that is not in the cluster yet.
//
// A node that stays unsure wakes no pod again: it takes every pod, and what waits was rejected by
// another plugin.
func (p *Plugin) Update(node string, source *cluster.Source) {
	before := p.cluster.Unsure(node)
	p.cluster.Update(node, source)
	if !before || !p.cluster.Unsure(node) {
		p.wake(node)
	}
}

// Synced activates the pods that waited for the objects to be read.
func (p *Plugin) Synced() {
	p.synced.Store(true)
	if pods := p.waiting.that(func(waitingPod) bool { return true }); len(pods) > 0 {
		p.activate(slices.Collect(maps.Values(pods))...)
	}
}

// activate begins cycles of waiting pods that no event wakes. Some of them may be in a cycle now.
func (p *Plugin) activate(pods ...*v1.Pod) {
	p.promises.activated(p, pods...)
	byName := make(map[string]*v1.Pod, len(pods))
	for _, pod := range pods {
		byName[pod.Namespace+"/"+pod.Name] = pod
	}
	p.handle.Activate(klog.Background(), byName)
}

// wake activates the pods that now fit on a node. No pod can be placed before the objects of all
// nodes are read.
func (p *Plugin) wake(node string) {
	if !p.synced.Load() {
		return
	}
	at := p.cluster.After(node)
	if at == nil {
		p.promises.forget(node)
		return
	}
	if at.Problem != "" {
		return
	}
	if pods := p.waiting.that(func(w waitingPod) bool { return p.wakes(w, node, at) }); len(pods) > 0 {
		p.handle.Activate(klog.Background(), pods)
	}
}

// watch follows pods for changes that no queueing hint reports: agents that become ready, and
// waiting pods that are deleted or bound.
func (s *shared) watch(_ context.Context, handle fwk.Handle, pods cache.SharedIndexInformer) error {
	p := &Plugin{handle, s}
	agent := func(pod *v1.Pod, there bool) {
		switch {
		case !s.settings.agentsRequired || pod.Spec.NodeName == "" || !s.isAgent(pod):
		case there && ready(pod):
			p.wake(pod.Spec.NodeName)
		default:
			s.cluster.After(pod.Spec.NodeName) // It is away from now on.
		}
	}
	changed := func(pod *v1.Pod) {
		if pod.Spec.NodeName != "" {
			s.waiting.remove(pod.UID)
			s.failures.forget(pod.UID)
		}
		agent(pod, true)
	}
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			if pod, ok := object.(*v1.Pod); ok {
				changed(pod)
			}
		},
		UpdateFunc: func(_, object any) {
			if pod, ok := object.(*v1.Pod); ok {
				changed(pod)
			}
		},
		DeleteFunc: func(object any) {
			if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = last.Obj
			}
			if pod, ok := object.(*v1.Pod); ok {
				s.waiting.remove(pod.UID)
				s.failures.forget(pod.UID)
				agent(pod, false)
			}
		},
	})
	return err
}
