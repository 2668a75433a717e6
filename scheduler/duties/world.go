package duties

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/cluster/fleetsource"
	"github.com/paddock-project/paddock/scheduler/cleanup"
	"github.com/paddock-project/paddock/scheduler/eviction"
	"github.com/paddock-project/paddock/scheduler/kueue"
	"github.com/paddock-project/paddock/scheduler/machines"
)

// These metrics are served beside the scheduler's own.
var (
	evictions = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: "paddock", Subsystem: "scheduler", Name: "evictions_total", StabilityLevel: metrics.ALPHA,
		Help: "Evictions of pods that their nodes reject, by outcome: evicted, delayed (a disruption budget or the load of the API server forbids it now), failed.",
	}, []string{"outcome"})
	deletedMachines = metrics.NewCounter(&metrics.CounterOpts{
		Namespace: "paddock", Subsystem: "scheduler", Name: "deleted_machines_total", StabilityLevel: metrics.ALPHA,
		Help: "PaddockMachines that no node used and that were deleted.",
	})
	rejectedPods = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: "paddock", Subsystem: "scheduler", Name: "rejected_pods", StabilityLevel: metrics.ALPHA,
		Help: "Failed pods that kubelets rejected for their place. It is 0 without deleteRejectedAfter.",
	})
	cleanups = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: "paddock", Subsystem: "scheduler", Name: "rejected_pods_deleted_total", StabilityLevel: metrics.ALPHA,
		Help: "Failed pods that kubelets rejected and that were replaced, by outcome: deleted, found (a dry run), failed.",
	}, []string{"outcome"})
)

// registerMetrics registers the metrics, once per process.
var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(evictions, deletedMachines, rejectedPods, cleanups, kueueAnswers, kueuePass, kueueLeft)
	for _, outcome := range []string{eviction.Evicted, eviction.Delayed, eviction.Failed} {
		evictions.WithLabelValues(outcome)
	}
	for _, outcome := range []string{cleanup.Deleted, cleanup.Found, cleanup.Failed} {
		cleanups.WithLabelValues(outcome)
	}
	for _, outcome := range []string{kueue.Accepted, kueue.Retried, kueue.Unjudged, kueue.Conflicted, kueue.Failed} {
		kueueAnswers.WithLabelValues(outcome)
	}
})

// collected returns the world of package machines.
func collected(client rest.Interface) machines.World {
	return machines.World{
		Now: time.Now,
		Machines: func(ctx context.Context) (map[string]types.UID, error) {
			all := map[string]types.UID{}
			err := each(ctx, client, v1alpha1.PaddockMachines, func(list *v1alpha1.PaddockMachineList) {
				for i := range list.Items {
					all[list.Items[i].Name] = list.Items[i].UID
				}
			})
			return all, err
		},
		Used: func(ctx context.Context) (map[string]bool, error) {
			used := map[string]bool{}
			err := each(ctx, client, v1alpha1.PaddockNodes, func(list *v1alpha1.PaddockNodeList) {
				for i := range list.Items {
					used[list.Items[i].Status.Machine] = true
				}
			})
			return used, err
		},
		Delete: func(ctx context.Context, name string, uid types.UID) error {
			options := &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(uid))}
			return client.Delete().Resource(v1alpha1.PaddockMachines).Name(name).Body(options).Do(ctx).Error()
		},
		Deleted: deletedMachines.Inc,
	}
}

// page is the number of objects per list request. A list of thousands would take tens of megabytes
// at once.
const page = 200

// each calls do with all objects of a resource in the store of the API server, one page at a time.
func each[L any, P interface {
	*L
	runtime.Object
	metav1.ListInterface
}](ctx context.Context, client rest.Interface, resource string, do func(P)) error {
	options := metav1.ListOptions{Limit: page}
	for {
		list := P(new(L))
		if err := client.Get().Resource(resource).VersionedParams(&options, metav1.ParameterCodec).Do(ctx).Into(list); err != nil {
			return err
		}
		do(list)
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}

// stored returns the objects of an informer that have the type to which its transform makes them.
func stored[T any](informer cache.SharedIndexInformer) (list []T) {
	for _, o := range informer.GetStore().List() {
		if t, is := o.(T); is {
			list = append(list, t)
		}
	}
	return list
}

// rejections returns an informer of PaddockNodes that keeps only their rejections.
func rejections(client rest.Interface) (cache.SharedIndexInformer, error) {
	list := cache.NewListWatchFromClient(client, v1alpha1.PaddockNodes, metav1.NamespaceAll, fields.Everything())
	nodes := cache.NewSharedIndexInformer(list, &v1alpha1.PaddockNode{}, 0, nil)
	return nodes, nodes.SetTransform(func(object any) (any, error) { // Nothing else of the objects is kept.
		if n, ok := object.(*v1alpha1.PaddockNode); ok {
			n.ManagedFields = nil
			n.Status = v1alpha1.PaddockNodeStatus{Rejections: n.Status.Rejections}
		}
		return object, nil
	})
}

// evicting returns the world of package eviction.
func evicting(handle fwk.Handle, nodes cache.SharedIndexInformer) eviction.World {
	pods := handle.SharedInformerFactory().Core().V1().Pods().Lister()
	return eviction.World{
		Now:   time.Now,
		Nodes: func() []*v1alpha1.PaddockNode { return stored[*v1alpha1.PaddockNode](nodes) },
		Pod: func(namespace, name string) *v1.Pod {
			pod, err := pods.Pods(namespace).Get(name)
			if err != nil { // The lister's only error is that the pod does not exist.
				return nil
			}
			return pod
		},
		Evict: func(ctx context.Context, eviction *policy.Eviction) error {
			return handle.ClientSet().PolicyV1().Evictions(eviction.Namespace).Evict(ctx, eviction)
		},
		Note: func(pod *v1.Pod, text string) {
			handle.EventRecorder().Eventf(pod, nil, v1.EventTypeWarning, "EvictedByPaddock", "Evicting", text)
		},
		Count: func(outcome string) { evictions.WithLabelValues(outcome).Inc() },
	}
}

// failedPods returns an informer of Failed pods. The scheduler's own informer has none of them.
func failedPods(client kubernetes.Interface) (cache.SharedIndexInformer, error) {
	list := cache.NewFilteredListWatchFromClient(client.CoreV1().RESTClient(), "pods", metav1.NamespaceAll, func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("status.phase", string(v1.PodFailed)).String()
	})
	pods := cache.NewSharedIndexInformer(list, &v1.Pod{}, 0, nil)
	return pods, pods.SetTransform(func(object any) (any, error) { // Nothing else of the objects is kept.
		pod, is := object.(*v1.Pod)
		if !is {
			return object, nil
		}
		slim := &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion, CreationTimestamp: pod.CreationTimestamp,
				DeletionTimestamp: pod.DeletionTimestamp, OwnerReferences: pod.OwnerReferences,
			},
			Spec:   v1.PodSpec{NodeName: pod.Spec.NodeName},
			Status: v1.PodStatus{Phase: pod.Status.Phase, Reason: pod.Status.Reason},
		}
		if fleetsource.IsMirror(pod) {
			slim.Annotations = map[string]string{v1.MirrorPodAnnotationKey: ""}
		}
		return slim, nil
	})
}

// cleaning returns the world of package cleanup.
func cleaning(handle fwk.Handle, pods cache.SharedIndexInformer) cleanup.World {
	return cleanup.World{
		Now:  time.Now,
		Pods: func() []*v1.Pod { return stored[*v1.Pod](pods) },
		Delete: func(ctx context.Context, namespace, name string, uid types.UID) error {
			return handle.ClientSet().CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(uid))})
		},
		Note: func(owner *v1.ObjectReference, text string) {
			handle.EventRecorder().Eventf(owner, nil, v1.EventTypeNormal, "RejectedPodsDeleted", "Deleting", text)
		},
		Count: func(outcome string) { cleanups.WithLabelValues(outcome).Inc() },
		Left:  func(n int) { rejectedPods.Set(float64(n)) },
	}
}
