// Package cleanup deletes Failed pods that a kubelet rejected and that their controller has
// replaced.
//
// A scheduler that does not know NUMA nodes binds a pod to a node that rejects it. Its ReplicaSet
// creates another one, which can end in the same way, hundreds of times. The plugin stops that,
// because Filter lets no such pod pass. This package removes what is left.
//
// A pod is deleted only if all of these conditions are true:
//
//   - its phase is Failed, with a reason of the Topology Manager or of whole cores: see Reasons;
//   - a ReplicaSet or a ReplicationController owns it: they replace a Failed pod and never look at it again. A Job counts
//     failures, and other controllers may;
//   - at least Kept pods of the same owner that failed in the same way are newer, so it was replaced, and there is evidence left;
//   - it was created longer ago than the time that an administrator sets, and it is not static or being deleted.
//
// Rate and Burst limit the number of deletions; the oldest pods come first.
package cleanup

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/time/rate"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/paddock-project/paddock/internal/cluster/fleetsource"
)

const (
	// Rate is the maximum number of deletions per second.
	Rate = 1
	// Burst is the maximum number of deletions at once.
	Burst = 20
	// Kept is how many pods of an owner are kept as evidence, the newest ones.
	Kept = 2
	// first and longest bound the time between two attempts for a pod that could not be deleted, so
	// that pods that an admission webhook protects do not use up the rate.
	first, longest = 10 * time.Second, 5 * time.Minute
)

// These are the outcomes of a deletion.
const (
	Deleted = "deleted"
	// Found means that the pod would be deleted, if this were no dry run.
	Found  = "found"
	Failed = "failed"
)

// Reasons returns the reasons of a Failed pod with which a kubelet rejects it for its place.
func Reasons() []string { return []string{"TopologyAffinityError", "SMTAlignmentError"} }

// Rejected reports whether a kubelet rejected a pod for its place.
func Rejected(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodFailed && slices.Contains(Reasons(), pod.Status.Reason)
}

// World has everything that a cleanup depends on.
type World struct {
	// Now returns the current time.
	Now func() time.Time
	// Pods returns the Failed pods of the cluster.
	Pods func() []*v1.Pod
	// Delete deletes the pod with this UID.
	Delete func(ctx context.Context, namespace, name string, uid types.UID) error
	// Note records an event for the owner of pods.
	Note func(owner *v1.ObjectReference, text string)
	// Count counts the outcome of a deletion. Left shows how many rejected pods there are.
	Count func(outcome string)
	Left  func(pods int)
}

// Config is what an administrator sets.
type Config struct {
	// After is the age from which pods are deleted. Zero means that none is.
	After time.Duration
	// DryRun only reports what would be deleted.
	DryRun bool
}

// Cleaner deletes pods. It must not be used by several goroutines.
type Cleaner struct {
	world  World
	config Config
	limit  *rate.Limiter
	// failures gives the time to the next attempt for a pod that could not be deleted, and next has
	// these times.
	failures workqueue.TypedRateLimiter[types.UID]
	next     map[types.UID]time.Time
	// found has the pods that a dry run has reported.
	found map[types.UID]bool
}

// New returns a Cleaner.
func New(world World, config Config) *Cleaner {
	return &Cleaner{
		world: world, config: config, limit: rate.NewLimiter(Rate, Burst),
		failures: workqueue.NewTypedItemExponentialFailureRateLimiter[types.UID](first, longest), next: map[types.UID]time.Time{}, found: map[types.UID]bool{},
	}
}

// Pass deletes the pods that are due.
func (c *Cleaner) Pass(ctx context.Context) {
	now := c.world.Now()
	rejected := slices.DeleteFunc(slices.Clone(c.world.Pods()), func(pod *v1.Pod) bool { return !Rejected(pod) })
	c.world.Left(len(rejected))
	due := c.due(now, rejected)
	c.forget(due)
	done := map[types.UID]int{} // by owner
	for _, pod := range due {
		owner := metav1.GetControllerOfNoCopy(pod)
		if c.config.DryRun {
			if !c.found[pod.UID] {
				done[owner.UID]++
				c.world.Count(Found)
			}
			continue
		}
		if now.Before(c.next[pod.UID]) {
			continue
		}
		if !c.limit.AllowN(now, 1) {
			break
		}
		if c.delete(ctx, now, pod) {
			done[owner.UID]++
		}
	}
	clear(c.found)
	for _, pod := range due {
		c.found[pod.UID] = c.config.DryRun
		owner := metav1.GetControllerOfNoCopy(pod)
		n := done[owner.UID]
		if n == 0 {
			continue
		}
		delete(done, owner.UID) // One event for each owner.
		verb := "deleted"
		if c.config.DryRun {
			verb = "would delete (dry run)"
		}
		c.world.Note(
			&v1.ObjectReference{APIVersion: owner.APIVersion, Kind: owner.Kind, Namespace: pod.Namespace, Name: owner.Name, UID: owner.UID},
			fmt.Sprintf("%s %d Failed pods that kubelets rejected (%s), such as %s of node %s; the newest %d stay", verb, n, pod.Status.Reason, pod.Name, pod.Spec.NodeName, Kept),
		)
	}
}

// forget drops the failures of pods that are not due any more.
func (c *Cleaner) forget(due []*v1.Pod) {
	still := make(map[types.UID]bool, len(due))
	for _, pod := range due {
		still[pod.UID] = true
	}
	for uid := range c.next {
		if !still[uid] {
			c.failures.Forget(uid)
			delete(c.next, uid)
		}
	}
}

// due returns the pods to delete, the oldest first. A pod that is being deleted is no evidence.
func (c *Cleaner) due(now time.Time, rejected []*v1.Pod) []*v1.Pod {
	slices.SortFunc(rejected, func(a, b *v1.Pod) int { // the newest first
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
	})
	newer := map[types.UID]int{} // by owner
	var due []*v1.Pod
	for _, pod := range rejected {
		owner := metav1.GetControllerOfNoCopy(pod)
		if owner == nil || !replaces(owner) || fleetsource.IsMirror(pod) || pod.DeletionTimestamp != nil {
			continue
		}
		newer[owner.UID]++
		if newer[owner.UID] > Kept && now.Sub(pod.CreationTimestamp.Time) >= c.config.After {
			due = append(due, pod)
		}
	}
	slices.Reverse(due)
	return due
}

// replaces reports whether an owner creates another pod for one that failed, and does not count
// failures.
func replaces(owner *metav1.OwnerReference) bool {
	return owner.Kind == "ReplicaSet" && owner.APIVersion == "apps/v1" || owner.Kind == "ReplicationController" && owner.APIVersion == "v1"
}

// delete deletes a pod, and reports whether it did.
func (c *Cleaner) delete(ctx context.Context, now time.Time, pod *v1.Pod) bool {
	log := klog.FromContext(ctx).WithValues("pod", klog.KObj(pod), "node", pod.Spec.NodeName)
	switch err := c.world.Delete(ctx, pod.Namespace, pod.Name, pod.UID); {
	case err == nil:
		log.V(2).Info("Deleted a pod that its kubelet rejected and that was replaced", "reason", pod.Status.Reason)
		c.world.Count(Deleted)
		return true
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return false // It is gone, or another pod has its name.
	default:
		log.Error(err, "A pod that its kubelet rejected is not deleted")
		c.next[pod.UID] = now.Add(c.failures.When(pod.UID))
		c.world.Count(Failed)
		return false
	}
}
