// Package eviction evicts pods that their nodes reject.
//
// A pod that is bound to a node stays there. If the node has no room for it, the kubelet tries
// again for as long as the pod exists. After a time that an administrator sets, such a pod is
// evicted through the Eviction API. Its controller creates another one, which the scheduler can
// place elsewhere. The API server applies disruption budgets. It counts a pod that never ran as
// already disrupted.
//
// A pod is evicted only if all of these conditions are true:
//
//   - its node listed it among its last rejections at least that long ago;
//   - since then it was bound to that node, pending, and without a sandbox: a pod that was admitted since is left alone;
//   - a controller owns it, it is not static, and it is not being deleted.
//
// An eviction that fails is tried again after a time that doubles, or that the API server
// specifies. Rate and Burst limit the number of evictions; the pods that have waited longest come
// first. Without a limit, a pod that every node rejects would be created and evicted again and
// again.
package eviction

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/cluster/fleetsource"
)

const (
	// Rate is the maximum number of evictions per second. Kubernetes' own limit for evictions from
	// lost nodes is 0.1. It can be higher here, because these pods do not run.
	Rate = 0.5
	// Burst is the maximum number of evictions at once.
	Burst = 10
	// first and longest bound the time between two attempts for a pod. The API server answers 429
	// while a budget or its load forbids the eviction. After an eviction that succeeded, none is
	// requested for the same pod before first is over.
	first, longest = 10 * time.Second, 5 * time.Minute
)

// These are the outcomes of an eviction.
const (
	Evicted = "evicted"
	// Delayed means that a disruption budget or the load of the API server forbids the eviction
	// now.
	Delayed = "delayed"
	Failed  = "failed"
)

// World has everything that evictions depend on.
type World struct {
	// Now returns the current time.
	Now func() time.Time
	// Nodes returns the objects of all nodes.
	Nodes func() []*v1alpha1.PaddockNode
	// Pod returns the current state of a pod, or nil if it does not exist.
	Pod func(namespace, name string) *v1.Pod
	// Evict requests an eviction from the API server.
	Evict func(ctx context.Context, eviction *policy.Eviction) error
	// Note records an event for a pod.
	Note func(pod *v1.Pod, text string)
	// Count counts the outcome of an eviction.
	Count func(outcome string)
}

// Evictor evicts pods. It must not be used by several goroutines.
type Evictor struct {
	world   World
	after   time.Duration
	limit   *rate.Limiter
	waiting map[types.UID]*rejection
}

// rejection describes a pod that its node has rejected and has not admitted since.
type rejection struct {
	node, namespace, name, cause string
	uid                          types.UID
	// since is when the rejection was first seen. next is the earliest time of the next attempt.
	since, next time.Time
	failures    int
}

// New returns an Evictor for pods that are rejected for the time after.
func New(world World, after time.Duration) *Evictor {
	return &Evictor{world: world, after: after, limit: rate.NewLimiter(Rate, Burst), waiting: map[types.UID]*rejection{}}
}

// Pass evicts the pods that are due.
func (e *Evictor) Pass(ctx context.Context) {
	now := e.world.Now()
	e.look(now)
	var due []*rejection
	for _, r := range e.waiting {
		if now.Sub(r.since) >= e.after && !now.Before(r.next) {
			due = append(due, r)
		}
	}
	slices.SortFunc(due, func(a, b *rejection) int { return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.uid, b.uid)) })
	for _, r := range due {
		if !e.limit.AllowN(now, 1) {
			return
		}
		e.evict(ctx, now, r)
	}
}

// look adds the rejections that nodes list, and removes the pods that no longer wait. A node lists
// only its last rejections, so a pod that waits need not be among them.
func (e *Evictor) look(now time.Time) {
	for _, n := range e.world.Nodes() {
		for i := range n.Status.Rejections.Last {
			shown := &n.Status.Rejections.Last[i]
			namespace, name, _ := strings.Cut(shown.Pod, "/")
			uid := types.UID(shown.UID)
			if r := e.waiting[uid]; r == nil || r.node != n.Name {
				e.waiting[uid] = &rejection{node: n.Name, namespace: namespace, name: name, cause: shown.Cause, uid: uid, since: now}
			}
		}
	}
	for uid, r := range e.waiting {
		if e.pod(r) == nil {
			delete(e.waiting, uid)
		}
	}
}

// pod returns the pod of a rejection if it still waits on the node and may be evicted, else nil.
func (e *Evictor) pod(r *rejection) *v1.Pod {
	pod := e.world.Pod(r.namespace, r.name)
	switch {
	case pod == nil || pod.UID != r.uid || pod.Spec.NodeName != r.node:
		return nil
	case pod.DeletionTimestamp != nil || pod.Status.Phase != v1.PodPending || fleetsource.IsMirror(pod):
		return nil
	case metav1.GetControllerOf(pod) == nil:
		return nil
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == v1.PodReadyToStartContainers && c.Status == v1.ConditionTrue {
			return nil // It has a sandbox, so the node has admitted it.
		}
	}
	return pod
}

func (e *Evictor) evict(ctx context.Context, now time.Time, r *rejection) {
	log := klog.FromContext(ctx).WithValues("pod", klog.KRef(r.namespace, r.name), "node", r.node)
	pod := e.pod(r) // Read it first: it may be gone when the API server answers.
	if pod == nil {
		return
	}
	err := e.world.Evict(ctx, &policy.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: r.namespace, Name: r.name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(r.uid))},
	})
	r.next = now.Add(min(longest, first<<min(r.failures, 10)))
	switch {
	case err == nil:
		waited := now.Sub(r.since).Round(time.Second)
		log.Info("Evicted a pod that its node rejects", "cause", r.cause, "waited", waited)
		e.world.Count(Evicted)
		e.world.Note(pod, fmt.Sprintf("node %s has rejected the pod for %s (%s): evicted, so that its controller makes another one", r.node, waited, r.cause))
		return
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return // It is gone, or another pod has its name.
	case apierrors.IsTooManyRequests(err):
		log.V(2).Info("A pod that its node rejects cannot be evicted yet", "reason", err.Error())
		e.world.Count(Delayed)
	default:
		log.Error(err, "A pod that its node rejects is not evicted")
		e.world.Count(Failed)
	}
	r.failures++
	if seconds, named := apierrors.SuggestsClientDelay(err); named {
		r.next = now.Add(max(first, time.Duration(seconds)*time.Second))
	}
}
